"""``kvbench simulate``: replay a trace or a workload through a simulated pool."""

from __future__ import annotations

import datetime as dt
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvbench.cli.output import emit, emit_json, format_option
from kvbench.cli.quantities import ByteSize
from kvbench_pool.options import POLICY_NAMES
from kvbench_pool.simulate_checks import Finite, check_options, stated
from kvbench_pool.simulate_clock import check_step_time, step_time_options

if TYPE_CHECKING:
    from kvbench.workload.load import RequestStream
    from kvbench_pool.simulate_memory import PoolMemory
    from kvbench_pool.step_time import StepTime
    from kvbench_pool.vllm_policy.config import PoolConfig

_FORMATS = ("azure", "burstgpt", "mooncake", "bailian", "sharegpt", "kvbench", "parquet")

#: Names that people try, and the format that is meant.
_ALIASES = {"jsonl": "kvbench"}

_COUNT = click.IntRange(min=1)


@click.command("simulate")
@click.argument("source", metavar="TRACE|WORKLOAD")
@click.option(
    "--policy",
    type=click.Choice(POLICY_NAMES),
    default="vllm",
    show_default=True,
    help="Who holds which memory, and what is shared.",
)
@click.option("--blocks", type=click.IntRange(min=2), help="Blocks of the pool.")
@click.option("--block-size", type=_COUNT, help="Tokens per block [default: 16, or the layout's].")
@click.option("--model", help="Model whose cache fills the blocks: adds bytes and cache groups.")
@click.option(
    "--layout", help="How the model is arranged [default: vllm for its policy, else paged]."
)
@click.option("--kv-dtype", default="auto", show_default=True, help="Cache element type.")
@click.option("--tp", type=_COUNT, default=1, show_default=True, help="Tensor-parallel ranks.")
@click.option("--budget", type=ByteSize(), help="Bytes of the pool (8GiB) instead of --blocks.")
@click.option("--max-num-seqs", type=_COUNT, default=256, show_default=True)
@click.option("--max-num-batched-tokens", type=_COUNT, default=8192, show_default=True)
@click.option(
    "--watermark",
    type=Finite(min=0, max=1, max_open=True),
    default=0.0,
    show_default=True,
    help="Share of the blocks that an admission leaves free while others run.",
)
@click.option("--no-prefix-caching", is_flag=True, help="Share and keep nothing.")
@click.option("--no-reserve-full-prompt", is_flag=True, help="Admit on the first chunk alone.")
@click.option("--async-scheduling", is_flag=True, help="Schedule ahead of the last output.")
@click.option(
    "--max-concurrent-batches",
    type=_COUNT,
    default=1,
    show_default=True,
    help="Steps in flight that the admission cap of windows counts; 2 on a GPU with async.",
)
@click.option("--num-lookahead-tokens", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--sliding-window", type=_COUNT, help="One group of sliding layers, window W.")
@click.option("--hybrid-window", type=_COUNT, help="A full group and a sliding one, window W.")
@click.option(
    "--prefix-cache-retention-interval",
    type=click.IntRange(min=0),
    help="Tokens between kept prefixes of windows [default: 0 with --model as vLLM, else all].",
)
@click.option("--limit", type=_COUNT, help="First rows of the trace only.")
@step_time_options
@click.option("--trace-format", type=click.Choice((*_FORMATS, *_ALIASES)), help="Else detected.")
@click.option(
    "--bad-lines",
    type=click.Choice(("refuse", "count")),
    default="refuse",
    show_default=True,
    help="What to do with a line that is no request.",
)
@click.option(
    "--rate-scale",
    type=Finite(min=0, min_open=True),
    default=1.0,
    show_default=True,
    help="Arrivals so many times as fast as stated.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of a generator.")
@click.option(
    "--max-model-len",
    type=_COUNT,
    help="Tokens that contiguous, buddy and static reserve for a request [default: the model's "
    "longest context, without a model the workload's longest request].",
)
@click.option("--digest", is_flag=True, help="Digest every decision (vllm policy; slower).")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="New or empty folder of the run: results, report, summary.json; vllm: requests.parquet.",
)
@format_option
def simulate(source: str, output_format: str, output: Path | None, **options: Any) -> None:
    """Replay a trace or a workload through a simulated pool, as vLLM would run it.

    The summary has the fields of vLLM's own decision logs; every figure is simulated. A step
    lasts --step-ms whatever it computes, or what --step-time says; wall_s is what the simulation
    took on this machine, reading the trace (load_s) apart.

    WORKLOAD is FILE.toml#NAME for a suite's table, or a generator as in
    lognormal:requests=1000,arrival=poisson,rate_per_s=5.

    Requests that can never fit the pool are left out and counted as dropped; the exit code is 4
    when no request is left.
    """
    from kvbench_pool.simulate_source import find_workload

    check_options(options)
    check_step_time(options)
    workload = find_workload(source, _trace_params(options))
    if output is not None:
        from kvbench_pool.simulate_output import claim_folder

        claim_folder(output)
    from kvbench.workload.load import open_workload
    from kvbench_pool.studies.requests import at_rate

    requests = at_rate(open_workload(workload, options["seed"]), options["rate_scale"])
    from kvbench_pool.simulate_other import run_other

    run = _run_vllm if options["policy"] == "vllm" else run_other
    summary = run(requests, {**options, "source": source, "workload": workload}, output)
    _print(summary, output_format)
    _warn(requests, summary)
    if not summary["requests"]:
        sys.exit(4)


def _trace_params(options: dict[str, Any]) -> dict[str, Any]:
    """Return what was stated of a trace, by the keys of a workload table."""
    trace_format = options["trace_format"]
    params = {
        "format": _ALIASES.get(trace_format, trace_format),
        "limit": options["limit"],
        "on_bad_line": options["bad_lines"] if stated(("bad_lines",)) else None,
    }
    return {key: value for key, value in params.items() if value is not None}


def _config(options: dict[str, Any], memory: PoolMemory, step_time: StepTime) -> PoolConfig:
    from kvbench_pool.step_time.models import clock_model
    from kvbench_pool.vllm_policy.config import FULL, CacheGroup, GroupKind, PoolConfig
    from kvbench_pool.vllm_policy.layout_groups import cache_groups

    groups = cache_groups(memory.arrangement)
    window = options["sliding_window"] or options["hybrid_window"]
    interval = options["prefix_cache_retention_interval"]
    if window:
        sliding = CacheGroup(kind=GroupKind.SLIDING, window_tokens=window)
        groups = (sliding,) if options["sliding_window"] else (FULL, sliding)
    elif interval is None:
        interval = 0
    # vLLM turns prefix caching off by itself for models with state layers.
    has_state = any(group.kind is GroupKind.STATE for group in groups)
    return PoolConfig(
        num_blocks=memory.num_blocks,
        block_size=memory.block_size,
        max_num_seqs=options["max_num_seqs"],
        max_num_batched_tokens=options["max_num_batched_tokens"],
        watermark=options["watermark"],
        enable_prefix_caching=not options["no_prefix_caching"] and not has_state,
        reserve_full_prompt=not options["no_reserve_full_prompt"],
        async_scheduling=options["async_scheduling"],
        max_concurrent_batches=options["max_concurrent_batches"],
        lookahead_tokens=options["num_lookahead_tokens"],
        prefix_cache_retention_interval=interval,
        groups=groups,
        step_ms=options["step_ms"],
        step_time=clock_model(step_time),
    )


def _run_vllm(
    requests: RequestStream, options: dict[str, Any], output: Path | None
) -> dict[str, Any]:
    from kvbench_pool.digest import StepDigest
    from kvbench_pool.simulate_clock import seconds_of, step_time
    from kvbench_pool.simulate_memory import byte_figures, pool_memory
    from kvbench_pool.simulate_output import RecordWriter, discard, write_run
    from kvbench_pool.simulate_source import TimedRequests
    from kvbench_pool.studies.replay_vllm import replay_observations
    from kvbench_pool.vllm_policy.config import MIRRORS
    from kvbench_pool.vllm_policy.simulate import simulate as run

    memory = pool_memory(options)
    model = step_time(options, memory.model)
    config = _config(options, memory, model)
    writer = RecordWriter(output, config) if output is not None else None
    timed = TimedRequests(requests)
    started, start = dt.datetime.now(dt.UTC), time.perf_counter()
    simulation = run(
        timed,
        config,
        digest=StepDigest() if options["digest"] else None,
        sink=writer.add if writer is not None else discard,
    )
    wall_s = time.perf_counter() - start - timed.spent_s
    summary: dict[str, Any] = {
        **simulation.summary(),
        **seconds_of(simulation.timing),
        "wall_s": round(wall_s, 3),
        "load_s": round(timed.spent_s, 3),
        "req_per_s": round(simulation.counts.requests / max(wall_s, 1e-9), 1),
        "requests": simulation.counts.requests,
        "dropped_requests": simulation.counts.dropped,
        "evicted_blocks": simulation.evicted_blocks,
        "peak_shared_saved_blocks": simulation.split.saved_peak,
        "policy": "vllm",
        "step_time": model.name,
        "mirrors": MIRRORS,
        "evidence": "simulated",
        **byte_figures(memory, simulation.series.peaks["used_blocks"]),
        "assumptions": list(_assumptions(memory, model)),
    }
    if writer is not None and output is not None:
        writer.close()
        per_block = summary.get("bytes_per_block")
        observations = replay_observations(simulation, per_block, writer.cached_tokens)
        write_run(output, options["source"], summary, observations, started)
    return summary


def _assumptions(memory: PoolMemory, model: StepTime) -> Iterator[str]:
    from kvbench_pool.vllm_policy.config import MIRRORS

    if memory.arrangement is not None:
        yield from memory.arrangement.assumptions
    yield f"Decisions are those of {MIRRORS}; every request generates its stated output."
    yield from model.assumptions()


def _print(summary: dict[str, Any], output_format: str) -> None:
    if output_format == "json":
        emit_json(summary)
    elif output_format == "csv":
        emit([summary], [name for name in summary if name != "assumptions"], "csv")
    else:
        figures = {name: value for name, value in summary.items() if name != "assumptions"}
        rows = [{"figure": name, "value": value} for name, value in figures.items()]
        emit(rows, ("figure", "value"), output_format)
        # A line right after a Markdown table would be one of its rows.
        click.echo("\nAssumptions:\n")
        for line in summary["assumptions"]:
            click.echo(f"- {line}")


def _warn(requests: RequestStream, summary: dict[str, Any]) -> None:
    """Say on stderr what was not taken as it stands."""
    remarks = list(requests.trace.remarks()) if requests.trace is not None else []
    if summary["dropped_requests"]:
        remarks.append(_dropped(summary))
    for remark in remarks:
        click.echo(f"kvbench: {remark}", err=True)


def _dropped(summary: dict[str, Any]) -> str:
    """Say how many requests are left out, and what they were too large for."""
    from kvbench.names import counted

    reserved = summary.get("max_model_len")
    longer = f"longer than {reserved} tokens (--max-model-len), or " if reserved else ""
    dropped = counted(summary["dropped_requests"], "request")
    return f"{dropped} left out, {longer}too large for {summary['num_blocks']} blocks."
