"""Requests against a server, with the server's own metrics sampled meanwhile."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvbench.engine import Cache, Cell, CellOutput, Evidence, Observation
from kvbench.errors import CellFailed
from kvbench_vllm.client import Load, Prompt, checked, send_load
from kvbench_vllm.memory import group_bytes
from kvbench_vllm.observer import settings
from kvbench_vllm.prompts import cache_salt, prompt_token_ids, tokens_of, workload_requests
from kvbench_vllm.scrape import Snapshot, differences
from kvbench_vllm.server import Server
from kvbench_vllm.session import VllmSession
from kvbench_vllm.watch import Watch, Watcher

#: Token ids below this are in the vocabulary of every model in use.
_VOCABULARY = 4096
#: Gauges that are kept as time series.
_SERIES = ("usage_ratio", "running_requests", "waiting_requests")
#: A server's gauge is the state of its last step; it may lag the last response this much.
_SETTLE_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One repeat of a cell against a server."""

    load: Load
    watch: Watch


def measure_cell(cell: Cell, session: VllmSession) -> CellOutput:
    """Send the cell's requests and report latencies, cache usage and memory.

    Raises:
        CellFailed: The server does not start, dies, refuses a request or hides its metrics.
    """
    server = session.server()
    prompts = cell_prompts(cell, _salt(cell))
    if cell.cache is Cache.PRIMED:
        checked(_send(cell, server, prompts))
    measured = _run(cell, server, prompts)
    if not measured.watch.snapshots:
        raise CellFailed("metrics_unreadable", measured.watch.gaps[-1])
    invalid, message = _validity(cell, measured)
    return CellOutput(
        observations=tuple(_observations(cell, measured)),
        effective={
            **settings(measured.watch.snapshots[-1]),
            **({"server_version": server.version} if server.version else {}),
        },
        assumptions=(f"/metrics was read every {cell.settings['sample_ms']} ms.",),
        warnings=_warnings(measured),
        invalid=invalid,
        invalid_message=message,
    )


def cell_prompts(cell: Cell, salt: str = "") -> list[Prompt]:
    """Prompts of the cell: its workload in real time, or ``requests`` of one length at once.

    With a ``salt`` they find no block of requests that were sent without it.
    """
    wanted = cell.settings
    if cell.workload is not None:
        return [
            Prompt(
                token_ids=prompt_token_ids(request, f"{cell.seed} {index}", _VOCABULARY),
                output_tokens=request.output_tokens,
                start_s=request.arrival_ms / 1000.0,
                cache_salt=cache_salt(request, salt),
            )
            for index, request in enumerate(workload_requests(cell))
        ]
    identity = wanted.get("prompt_id", f"cell {cell.seed}")
    return [
        Prompt(
            token_ids=tokens_of(f"{identity}/{index}", int(wanted["prompt_tokens"]), _VOCABULARY),
            output_tokens=int(wanted["output_tokens"]),
            cache_salt=salt,
        )
        for index in range(int(wanted["requests"]))
    ]


def _run(cell: Cell, server: Server, prompts: Sequence[Prompt]) -> Measured:
    wanted = cell.settings
    group = server.process.pid if server.process else None
    memory = (lambda: group_bytes(group)) if group else (lambda: None)
    with Watcher(server.endpoint, float(wanted["sample_ms"]) / 1000.0, memory) as watch:
        load = _send(cell, server, prompts)
        failed = any(response.error for response in load.responses)
        _keep_watching(server, _SETTLE_S if failed else max(_SETTLE_S, float(wanted["watch_s"])))
    # A dead server explains the failed requests better than they do.
    server.check_alive()
    return Measured(load=checked(load), watch=watch)


def _keep_watching(server: Server, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (left_s := deadline - time.monotonic()) > 0:
        server.check_alive()
        time.sleep(min(left_s, _SETTLE_S))


def _send(cell: Cell, server: Server, prompts: Sequence[Prompt]) -> Load:
    concurrency = int(cell.settings["concurrency"]) or max(1, len(prompts))
    return send_load(server.endpoint, prompts, concurrency)


def _salt(cell: Cell) -> str:
    """A salt of this run alone, unless the cell wants to find what earlier cells left."""
    return "" if cell.cache is Cache.WARM else secrets.token_hex(8)


def _validity(cell: Cell, measured: Measured) -> tuple[str, str]:
    if measured.load.responses and measured.load.client_bound:
        return "client_bound", (
            f"the client used {measured.load.client_cpu_s:.2f} CPU-seconds of "
            f"{measured.load.wall_s:.2f} s: it may be the bottleneck, not the server"
        )
    grown = differences(measured.watch.snapshots[0], measured.watch.snapshots[-1])
    hits, queries = grown.get("hit_tokens", 0), grown.get("query_tokens", 0)
    if cell.cache is Cache.COLD and queries and hits / queries >= 0.01 and cell.workload is None:
        return "cache_not_cold", (
            f"{hits:.0f} of {queries:.0f} prompt tokens were already cached in a cold cell"
        )
    if cell.cache is Cache.PRIMED and queries and not hits:
        return "cache_not_primed", (
            f"none of {queries:.0f} prompt tokens was cached although all had been sent before"
        )
    return "", ""


def _observations(cell: Cell, measured: Measured) -> Iterator[Observation]:
    yield from _client_figures(measured.load)
    yield from _server_series(measured.watch)
    yield from _server_totals(measured.watch)
    for offset_s, resident_bytes in measured.watch.memory_bytes:
        yield Observation(
            metric="process_used_bytes",
            value=resident_bytes,
            evidence=Evidence.DEVICE,
            t_offset_s=offset_s,
        )
    blocks = predicted_blocks(cell, measured)
    if blocks is not None:
        yield Observation(metric="predicted_peak_blocks", value=blocks, evidence=Evidence.ANALYTIC)


def _client_figures(load: Load) -> Iterator[Observation]:
    def engine(metric: str, value: float) -> Observation:
        return Observation(metric=metric, value=value, evidence=Evidence.ENGINE)

    for response in load.responses:
        yield engine("ttft_s", response.ttft_s)
        yield engine("latency_s", response.latency_s)
        yield engine("request_tokens", response.prompt_tokens + response.output_tokens)
        if response.output_tokens > 1 and response.latency_s > response.ttft_s:
            # Events may carry several tokens: the mean over events would not be that of tokens.
            spread_s = response.latency_s - response.ttft_s
            yield engine("inter_token_s", spread_s / (response.output_tokens - 1))
    if load.responses:
        output = sum(response.output_tokens for response in load.responses)
        yield engine("output_tokens_per_s", output / load.wall_s)
        yield engine("client_cpu_s", load.client_cpu_s / len(load.responses))
        yield engine("requests_count", len(load.responses))


def _server_series(watch: Watch) -> Iterator[Observation]:
    for snapshot in watch.snapshots:
        for name in _SERIES:
            if name in snapshot.values:
                yield Observation(
                    metric=name,
                    value=snapshot.values[name],
                    evidence=Evidence.ENGINE,
                    t_offset_s=max(0.0, snapshot.at_s - watch.started_s),
                )


def _server_totals(watch: Watch) -> Iterator[Observation]:
    first, last = watch.snapshots[0], watch.snapshots[-1]
    totals: dict[str, float] = dict(differences(first, last))
    for name, peak in (
        ("usage_ratio", "peak_usage_ratio"),
        ("running_requests", "peak_running_requests"),
        ("waiting_requests", "peak_waiting_requests"),
    ):
        seen = [shot.values[name] for shot in watch.snapshots if name in shot.values]
        if seen:
            totals[peak] = max(seen)
    blocks = _usable_blocks(last)
    if blocks and "peak_usage_ratio" in totals:
        totals["peak_used_blocks"] = round(totals["peak_usage_ratio"] * blocks)
    for name in sorted(totals):
        yield Observation(metric=name, value=totals[name], evidence=Evidence.ENGINE)


def predicted_blocks(cell: Cell, measured: Measured) -> int | None:
    """Blocks that the requests need at their full lengths if all run at once.

    One request holds ceil((prompt + output - 1) / block size) blocks at its end: the last
    sampled token is never fed back. ``None`` for models of several cache groups.
    """
    config = measured.watch.snapshots[-1].cache_config
    block_size = int(config.get("block_size", 0) or 0)
    if cell.model is None or not block_size or len({layer.kind for layer in cell.model.layers}) > 1:
        return None
    return sum(
        -(-(response.prompt_tokens + response.output_tokens - 1) // block_size)
        for response in measured.load.responses
    )


def _usable_blocks(snapshot: Snapshot) -> int:
    """Blocks that usage is a share of: all but the null block."""
    stated = snapshot.cache_config.get("num_gpu_blocks", "")
    return int(stated) - 1 if stated.isdigit() else 0


def _warnings(measured: Measured) -> tuple[str, ...]:
    gaps, last = measured.watch.gaps, measured.watch.snapshots[-1]
    failed = [f"{len(gaps)} readings of /metrics failed: {gaps[-1]}"] if gaps else []
    return (*failed, *(f"{name} is unknown: {why}" for name, why in last.missing.items()))
