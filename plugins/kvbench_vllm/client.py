"""A streaming client for OpenAI-compatible servers that knows what it costs itself.

While a response streams in, only the time of each read is taken. Events are told apart when it
has ended, and only the last one is decoded, which carries the server's own token counts: work on
every token would cost more than the server's on small models, and would be measured as latency.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from kvbench.errors import CellFailed
from kvbench_vllm.connection import Connections, Reply
from kvbench_vllm.endpoint import Endpoint

_PATH = "/v1/completions"
#: Share of one core above which the client itself is taken for the bottleneck.
CLIENT_BOUND_SHARE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One request to send.

    Attributes:
        token_ids: The prompt.
        output_tokens: Tokens to generate; the end-of-sequence token is ignored.
        start_s: When to send it, in seconds after the start.
        cache_salt: Requests of different salts share no blocks; empty for none.
    """

    token_ids: Sequence[int]
    output_tokens: int
    start_s: float = 0.0
    cache_salt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What became of one request.

    Attributes:
        started_s: When it was sent, in seconds after the start.
        ttft_s: Seconds to the first chunk with a token.
        latency_s: Seconds to the last chunk.
        gaps_s: Seconds between consecutive chunks; one token each unless the server batches.
        prompt_tokens: As the server counted.
        output_tokens: As the server counted.
        cached_tokens: Prompt tokens the server found in its cache, ``None`` when not stated.
        error: What went wrong, empty when nothing did.
    """

    started_s: float
    ttft_s: float = 0.0
    latency_s: float = 0.0
    gaps_s: tuple[float, ...] = ()
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One burst of requests and what it cost.

    Attributes:
        responses: In the order of the prompts.
        wall_s: Seconds from the first request to the last response.
        client_cpu_s: CPU seconds the sending thread spent meanwhile.
    """

    responses: tuple[Response, ...]
    wall_s: float
    client_cpu_s: float

    @property
    def client_bound(self) -> bool:
        """Whether the client used so much of its core that it may have been the bottleneck."""
        return self.client_cpu_s > CLIENT_BOUND_SHARE * self.wall_s


def send_load(endpoint: Endpoint, prompts: Sequence[Prompt], concurrency: int) -> Load:
    """Send ``prompts`` on an event loop in a thread of its own; see ``send_all``.

    A signal that raises in the calling thread ends the sending: uvloop would swallow it.
    """
    with _loop_in_a_thread() as loop:
        return asyncio.run_coroutine_threadsafe(
            send_all(endpoint, prompts, concurrency), loop
        ).result()


@contextmanager
def _loop_in_a_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """A running event loop; what still runs on it at the end is cancelled."""
    end, started = asyncio.Event(), Future[asyncio.AbstractEventLoop]()

    def run() -> None:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            started.set_result(runner.get_loop())
            runner.run(end.wait())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    loop = started.result()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """That of uvloop, where it is installed: a quarter less work a token than Python's own."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def send_all(endpoint: Endpoint, prompts: Sequence[Prompt], concurrency: int) -> Load:
    """Send ``prompts``, at most ``concurrency`` at a time, and wait for all responses."""
    gate = asyncio.Semaphore(concurrency)
    connections = Connections(endpoint.url, endpoint.headers())
    cpu = time.thread_time()
    # Long prompts take milliseconds to write down; done later, that would delay other requests.
    requests = [connections.request(_PATH, _body(endpoint, prompt)) for prompt in prompts]
    start = time.perf_counter()

    async def send(prompt: Prompt, request: bytes) -> Response:
        await asyncio.sleep(max(0.0, prompt.start_s - (time.perf_counter() - start)))
        async with gate:
            return await _send(connections, request, endpoint.timeout_s, start)

    try:
        responses = await asyncio.gather(*map(send, prompts, requests))
        return Load(
            responses=tuple(responses),
            wall_s=time.perf_counter() - start,
            client_cpu_s=time.thread_time() - cpu,
        )
    finally:
        connections.close()


async def _send(
    connections: Connections, request: bytes, timeout_s: float, start: float
) -> Response:
    began = time.perf_counter()
    try:
        return _response(await connections.exchange(request, timeout_s), began, start)
    except ValueError as error:
        return Response(started_s=began - start, error=str(error)[:300])


def _body(endpoint: Endpoint, prompt: Prompt) -> bytes:
    fields: dict[str, Any] = {
        "model": endpoint.model,
        "prompt": list(prompt.token_ids),
        "max_tokens": prompt.output_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if prompt.cache_salt:
        fields["cache_salt"] = prompt.cache_salt
    return json.dumps(fields, separators=(",", ":")).encode()


def _response(reply: Reply, began: float, start: float) -> Response:
    """Read times and counts off a whole response.

    Raises:
        ValueError: It is no token stream, or not a whole one.
    """
    if reply.status != 200:
        text = reply.body.decode("utf-8", "replace")
        raise ValueError(f"HTTP {reply.status}: {' '.join(text.split())[:200]}")
    *events, end = _events(reply) or [(0.0, b"")]
    if end[1][5:].strip() != b"[DONE]" or len(events) < 2:
        raise ValueError("the stream ended before its end mark")
    usage, times = _usage(events[-1][1]), [at_s for at_s, _ in events[:-1]]
    return Response(
        started_s=began - start,
        ttft_s=times[0] - began,
        latency_s=times[-1] - began,
        gaps_s=tuple(after - before for before, after in pairwise(times)),
        prompt_tokens=int(usage["prompt_tokens"]),
        output_tokens=int(usage["completion_tokens"]),
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
    )


def _events(reply: Reply) -> list[tuple[float, bytes]]:
    """Events of a stream that carry data: when the read came in that ended each, and its text."""
    body = reply.body
    separator = b"\r\n\r\n" if b"\r\n\r\n" in body else b"\n\n"
    whole = all(piece.endswith(separator) for piece in reply.pieces)
    if whole and body.count(separator) == len(reply.pieces):
        # As servers send them: one event a piece.
        times, events = reply.times_s, reply.pieces
    else:
        events = body.split(separator)[:-1]
        times = list(_times(reply, (len(event) + len(separator) for event in events)))
    found = zip(times, events, strict=True)
    return [(at_s, event) for at_s, event in found if event.startswith(b"data:")]


def _times(reply: Reply, lengths: Iterable[int]) -> Iterator[float]:
    """When the read came in that ended each of the events of these ``lengths``."""
    arrived = zip(reply.pieces, reply.times_s, strict=True)
    event_end = piece_end = 0
    at_s = 0.0
    for length in lengths:
        event_end += length
        while piece_end < event_end:
            piece, at_s = next(arrived)
            piece_end += len(piece)
        yield at_s


def _usage(event: bytes) -> dict[str, Any]:
    try:
        usage = json.loads(event[5:])["usage"]
        int(usage["prompt_tokens"]), int(usage["completion_tokens"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"the stream's last event states no token counts ({type(error).__name__}: {error})"
        ) from error
    return dict(usage)


def checked(load: Load) -> Load:
    """Return ``load`` when every request was answered.

    Raises:
        CellFailed: One or more failed; the message groups them by what went wrong.
    """
    errors = [response.error for response in load.responses if response.error]
    if errors:
        kinds = sorted(set(errors), key=errors.count, reverse=True)
        counted = "; ".join(f"{errors.count(kind)}x {kind}" for kind in kinds[:3])
        raise CellFailed("requests_failed", f"{len(errors)} requests failed: {counted}")
    return load
