"""A streaming client for OpenAI-compatible servers that knows what it costs itself.

Chunks of the event stream are timed as they arrive and not decoded, except the last one, which
carries the server's own token counts: decoding every chunk would cost more than the server's
work on small models and would be measured as latency.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import aiohttp

from kvbench.errors import CellFailed
from kvbench_vllm.endpoint import Endpoint

#: A response longer than this is not a token stream.
_MOST_RESPONSE_BYTES = 64 * 1024**2
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


@dataclass(slots=True, kw_only=True)
class _Stream:
    """Chunk times of one response; the last chunk's bytes are kept."""

    times_s: list[float] = field(default_factory=list)
    tail: bytes = b""
    pending: bytes = b""
    received_bytes: int = 0

    def feed(self, data: bytes, now_s: float) -> None:
        self.received_bytes += len(data)
        if self.received_bytes > _MOST_RESPONSE_BYTES:
            raise ValueError(f"response longer than {_MOST_RESPONSE_BYTES} bytes")
        *events, self.pending = (self.pending + data).split(b"\n\n")
        for event in events:
            if event.startswith(b"data: ") and event != b"data: [DONE]":
                self.times_s.append(now_s)
                self.tail = event[6:]
            elif event == b"data: [DONE]":
                self.pending = b"done"


async def send_all(endpoint: Endpoint, prompts: Sequence[Prompt], concurrency: int) -> Load:
    """Send ``prompts``, at most ``concurrency`` at a time, and wait for all responses."""
    gate = asyncio.Semaphore(concurrency)
    timeout = aiohttp.ClientTimeout(total=endpoint.timeout_s)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        endpoint.url, headers=endpoint.headers(), timeout=timeout, connector=connector
    ) as session:
        start, cpu = time.perf_counter(), time.thread_time()
        responses = await asyncio.gather(
            *(_send(session, endpoint, prompt, gate, start) for prompt in prompts)
        )
        return Load(
            responses=tuple(responses),
            wall_s=time.perf_counter() - start,
            client_cpu_s=time.thread_time() - cpu,
        )


async def _send(
    session: aiohttp.ClientSession,
    endpoint: Endpoint,
    prompt: Prompt,
    gate: asyncio.Semaphore,
    start: float,
) -> Response:
    await asyncio.sleep(max(0.0, prompt.start_s - (time.perf_counter() - start)))
    async with gate:
        began = time.perf_counter()
        try:
            stream = await _post(session, _body(endpoint, prompt))
            return _response(stream, began, start)
        except (aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
            detail = f"{type(error).__name__}: {error}".strip(": ")
            return Response(started_s=began - start, error=detail[:300])


async def _post(session: aiohttp.ClientSession, body: bytes) -> _Stream:
    stream = _Stream()
    headers = {"Content-Type": "application/json"}
    async with session.post("/v1/completions", data=body, headers=headers) as response:
        if response.status != 200:
            text = (await response.content.read(2000)).decode("utf-8", "replace")
            raise ValueError(f"HTTP {response.status}: {text[:200]}")
        async for data in response.content.iter_any():
            stream.feed(data, time.perf_counter())
    return stream


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


def _response(stream: _Stream, began: float, start: float) -> Response:
    if stream.pending != b"done" or len(stream.times_s) < 2:
        raise ValueError("the stream ended before its end mark")
    usage = json.loads(stream.tail)["usage"]
    times = stream.times_s[:-1]
    details = usage.get("prompt_tokens_details") or {}
    return Response(
        started_s=began - start,
        ttft_s=times[0] - began,
        latency_s=times[-1] - began,
        gaps_s=tuple(after - before for before, after in pairwise(times)),
        prompt_tokens=int(usage["prompt_tokens"]),
        output_tokens=int(usage["completion_tokens"]),
        cached_tokens=details.get("cached_tokens"),
    )


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
