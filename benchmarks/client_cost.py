"""CPU time the streaming client spends on one request, beside the client of ``vllm bench serve``.

Usage: ``python benchmarks/client_cost.py [MODEL_FOLDER] [-o FILE.csv]``. Two servers are asked: one
that does no work (16 tokens, one every 5 ms) and a real vLLM with random weights, where vLLM is
installed. Requests have 32 prompt and 16 output tokens and go out 16 at a time. In each round
every client sends 32 and then 160 requests; its figure is the difference of the process's CPU
time over the 128 requests between them, so that what happens once is left out. The server's
processes do not count. vLLM's client is the coroutine behind its command, given the same token
ids and no tokenizer.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import csv
import importlib.util
import io
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kvbench.engine import EngineConfig
from kvbench.model.load import load_model
from kvbench_vllm.client import Prompt, checked, send_load
from kvbench_vllm.endpoint import Endpoint
from kvbench_vllm.options import OPTIONS
from kvbench_vllm.prompts import tokens_of
from kvbench_vllm.server import serve

FEW, MANY, CONCURRENCY, ROUNDS = 32, 160, 16, 5
PROMPT_TOKENS, OUTPUT_TOKENS, PACE_S = 32, 16, 0.005
DEFAULTS = {option.name: option.default for option in OPTIONS if option.default is not None}
MODEL = Path(__file__).resolve().parent.parent / "suites" / "data" / "models" / "tiny-llama-gqa"
HAS_VLLM = importlib.util.find_spec("vllm") is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", nargs="?", default=str(MODEL))
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    rows = list(measure(idle_server(), "no work"))
    if HAS_VLLM:
        rows += measure(real_server(arguments.model), "vllm")
    if arguments.output:
        with arguments.output.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("server", "client", "round", "cpu_ms"), *rows])


def measure(
    server: contextlib.AbstractContextManager[Endpoint], label: str
) -> Iterator[tuple[str, str, int, str]]:
    """Ask both clients in turn and print the median with the spread."""
    clients: dict[str, Callable[[Endpoint, str, int], None]] = {"kvbench": ours}
    if HAS_VLLM:
        clients["vllm bench serve"] = theirs
    with server as endpoint:
        for client, send in clients.items():
            send(endpoint, f"{client} warm", CONCURRENCY)
        found = {
            (client, turn): cost_ms(send, endpoint, f"{client} {turn}")
            for turn in range(ROUNDS)
            for client, send in clients.items()
        }
    for client in clients:
        costs = [found[client, turn] for turn in range(ROUNDS)]
        print(
            f"{label}, {client}: {statistics.median(costs):.3f} ms a request "
            f"({min(costs):.3f} to {max(costs):.3f}, {ROUNDS} rounds)",
            flush=True,
        )
        yield from ((label, client, turn, f"{cost:.4f}") for turn, cost in enumerate(costs))


def cost_ms(send: Callable[[Endpoint, str, int], None], endpoint: Endpoint, name: str) -> float:
    spent = []
    for count in (FEW, MANY):
        before = time.process_time()
        send(endpoint, f"{name} {count}", count)
        spent.append(time.process_time() - before)
    return (spent[1] - spent[0]) / (MANY - FEW) * 1e3


def ours(endpoint: Endpoint, name: str, count: int) -> None:
    prompts = [
        Prompt(token_ids=tokens, output_tokens=OUTPUT_TOKENS)
        for tokens in prompt_tokens(name, count)
    ]
    checked(send_load(endpoint, prompts, CONCURRENCY))


def theirs(endpoint: Endpoint, name: str, count: int) -> None:
    from vllm.benchmarks.datasets import SampleRequest
    from vllm.benchmarks.serve import TaskType, benchmark

    requests = [
        SampleRequest(
            prompt=tokens,
            prompt_len=PROMPT_TOKENS,
            expected_output_len=OUTPUT_TOKENS,
            request_id=None,
        )
        for tokens in prompt_tokens(name, count)
    ]
    coroutine = benchmark(
        task_type=TaskType.GENERATION,
        endpoint_type="openai",
        api_url=endpoint.url + "/v1/completions",
        base_url=endpoint.url,
        model_id=endpoint.model,
        model_name=endpoint.model,
        tokenizer=None,
        input_requests=requests,
        logprobs=None,
        request_rate=float("inf"),
        burstiness=1.0,
        disable_tqdm=True,
        num_warmups=0,
        profile=False,
        selected_percentile_metrics=["ttft", "itl"],
        selected_percentiles=[99.0],
        ignore_eos=True,
        goodput_config_dict={},
        max_concurrency=CONCURRENCY,
        lora_modules=None,
        extra_headers=None,
        extra_body={"temperature": 0},
        ready_check_timeout_sec=0,
    )
    with contextlib.redirect_stdout(io.StringIO()):
        result = asyncio.run(coroutine)
    assert result["completed"] == count, result["errors"]


def prompt_tokens(name: str, count: int) -> list[list[int]]:
    return [tokens_of(f"{name} {index}", PROMPT_TOKENS, 4096) for index in range(count)]


@contextlib.contextmanager
def real_server(folder: str) -> Iterator[Endpoint]:
    settings = {"block_size": 32, "budget_bytes": 64 << 20, "max_model_len": 1024}
    config = EngineConfig(
        engine="vllm",
        plugin="vllm",
        settings={**DEFAULTS, **settings},
        model=load_model(folder),
    )
    with serve(config) as server:
        yield server.endpoint


@contextlib.contextmanager
def idle_server() -> Iterator[Endpoint]:
    """The server below in a process of its own."""
    code = f"import runpy; runpy.run_path({__file__!r})['serve_without_work']()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield Endpoint(url=f"http://127.0.0.1:{int(child.stdout.readline())}", model="none")
        finally:
            child.kill()


def serve_without_work() -> None:
    async def run() -> None:
        server = await asyncio.start_server(_answer, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(run())


def _chunk(event: bytes) -> bytes:
    data = b"data: " + event + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


#: As vLLM words them.
_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_TOKEN = _chunk(
    b'{"id":"cmpl-8f6c1ab3d8f94bd2a1f1a6f4c2f5b3f7","object":"text_completion","created":1790000000,'
    b'"model":"none","choices":[{"index":0,"text":"","logprobs":null,"finish_reason":null,'
    b'"stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}],'
    b'"usage":null}'
)
_END = (
    _chunk(
        b'{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}'
        % (PROMPT_TOKENS, OUTPUT_TOKENS)
    )
    + _chunk(b"[DONE]")
    + b"0\r\n\r\n"
)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if not head.startswith(b"get"):
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                writer.write(_HEAD)
                for _ in range(OUTPUT_TOKENS):
                    await asyncio.sleep(PACE_S)
                    writer.write(_TOKEN)
                writer.write(_END)
            else:
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
    writer.close()


if __name__ == "__main__":
    main()
