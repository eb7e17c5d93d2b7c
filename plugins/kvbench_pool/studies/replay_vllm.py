"""A workload replayed under vLLM's own policy, decision by decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from kvbench.engine import Cell, CellOutput, Observation
from kvbench.workload.request import Request
from kvbench_pool.observe import simulated, simulated_series
from kvbench_pool.series import Point
from kvbench_pool.settings import Memory, arrangement_of, setting
from kvbench_pool.step_time.choose import choose_step_time
from kvbench_pool.step_time.models import StepTime, clock_model
from kvbench_pool.studies.requests import requests_of, warnings_of
from kvbench_pool.vllm_policy.config import FULL, MIRRORS, GroupKind, PoolConfig
from kvbench_pool.vllm_policy.layout_groups import cache_groups
from kvbench_pool.vllm_policy.pool_split import PARTS, SplitSeries
from kvbench_pool.vllm_policy.prefix_keys import number_prefixes
from kvbench_pool.vllm_policy.simulate import simulate
from kvbench_pool.vllm_policy.simulation import RequestRecord, Simulation

_SERIES = {
    "used_blocks": "used_blocks",
    "live_tokens": "live_tokens",
    "cached_blocks": "cached_free_blocks",
    "running_requests": "running",
    "waiting_requests": "waiting",
}


class _Ends:
    """Sums over the requests that ended; a replay of any length keeps no more of them."""

    def __init__(self) -> None:
        self.cached_tokens = 0

    def __call__(self, record: RequestRecord) -> None:
        self.cached_tokens += record.prompt_tokens + record.output_tokens - 1


def replay_vllm(cell: Cell, memory: Memory) -> CellOutput:
    """Replay the cell's workload as vLLM would.

    Raises:
        CellFailed: An option is missing or out of place.
        ModelError: The simulator does not know such layers.
        TraceError: The workload's trace cannot be read.
    """
    config = pool_config(cell, memory, setting(cell, "max_num_seqs", int))
    requests, ends, step_time = requests_of(cell), _Ends(), step_time_of(cell)
    simulation = simulate(requests, config, sink=ends)
    return CellOutput(
        observations=tuple(
            replay_observations(simulation, memory.bytes_per_block, ends.cached_tokens)
        ),
        effective={
            "policy": f"vllm ({MIRRORS})",
            "block_size": config.block_size,
            "pool_blocks": config.num_blocks,
            "layout": memory.layout,
            "enable_prefix_caching": config.enable_prefix_caching,
            "prefix_cache_retention_interval": config.prefix_cache_retention_interval or 0,
            "step_time": step_time.name,
        },
        assumptions=(
            *memory.assumptions,
            f"Decisions are those of {MIRRORS}; every request generates its stated output.",
            *step_time.assumptions(),
        ),
        warnings=tuple(warnings_of(requests, simulation.counts.dropped)),
    )


def step_time_of(cell: Cell) -> StepTime:
    """Return the step-time model of a cell.

    Raises:
        KvbenchError: A constant out of range, or a model or device that lacks a figure.
    """
    return choose_step_time(cell.settings, cell.model, cell.device)


def vllm_preemption_ratios(
    cell: Cell, memory: Memory, requests: Sequence[Request]
) -> Callable[[int], float]:
    """Return a replay of requests with a number of seats: the preemptions per request."""
    single = pool_config(cell, memory, 1)
    numbered = number_prefixes(requests, single.hash_block_size)

    def ratio(max_num_seqs: int) -> float:
        config = replace(single, max_num_seqs=max_num_seqs)
        counts = simulate(requests, config, sink=_Ends(), numbered=numbered).counts
        return counts.preemptions / max(1, counts.requests)

    return ratio


def pool_config(cell: Cell, memory: Memory, max_num_seqs: int) -> PoolConfig:
    """Return the simulator's configuration of a cell.

    Raises:
        ModelError: The simulator does not know such layers, or the layout is not vLLM's.
        KvbenchError: The simulator refuses a value.
    """
    groups = cache_groups(arrangement_of(cell))
    caching = cell.settings.get("enable_prefix_caching")
    if caching is None:
        caching = all(group.kind is not GroupKind.STATE for group in groups)
    return PoolConfig(
        num_blocks=memory.num_blocks,
        block_size=memory.block_size,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=setting(cell, "max_num_batched_tokens", int),
        watermark=setting(cell, "watermark", float),
        enable_prefix_caching=bool(caching),
        reserve_full_prompt=setting(cell, "scheduler_reserve_full_isl", bool),
        async_scheduling=setting(cell, "async_scheduling", bool),
        lookahead_tokens=setting(cell, "num_lookahead_tokens", int),
        prefix_cache_retention_interval=setting(cell, "prefix_cache_retention_interval", int),
        groups=groups,
        step_ms=setting(cell, "step_ms", float),
        step_time=clock_model(step_time_of(cell)),
    )


def replay_observations(
    simulation: Simulation, bytes_per_block: int | None, cached_tokens: int
) -> Iterator[Observation]:
    """Yield every figure of a replay.

    Args:
        simulation: The replay.
        bytes_per_block: Pool bytes of one block, ``None`` for a pool without a model.
        cached_tokens: Tokens in the cache at the end of each request, summed over requests.
    """
    yield from simulated(_memory_figures(simulation, bytes_per_block))
    yield from simulated(_scheduler_figures(simulation, cached_tokens))
    if simulation.timing is not None:
        yield from simulated(simulation.timing.figures())
    for metric, column in _SERIES.items():
        yield from simulated_series(metric, simulation.series.points(column), simulation.seconds_at)
    yield from _split_figures(simulation)


def _split_figures(simulation: Simulation) -> Iterator[Observation]:
    """Yield what the slots of the pool were used for; the parts of a moment sum to the pool."""
    split, size = simulation.split, simulation.config.scheduler_block_size
    blocks = simulation.config.num_blocks
    means = {name: value / (blocks * size) for name, value in split.mean_slots().items()}
    yield from simulated({f"part_{name}_ratio": value for name, value in means.items()})
    yield from simulated({"mean_null_entries_count": split.mean_null_entries})
    for place, name in enumerate(PARTS):
        points = [Point(kept.step, kept.slots[place] / size) for kept in split.points()]
        yield from simulated_series(f"part_{name}_blocks", points, simulation.seconds_at)


def _memory_figures(simulation: Simulation, per_block: int | None) -> dict[str, float]:
    series, config = simulation.series, simulation.config
    busy = max(1, series.busy_steps)
    blocks = {
        "peak_used": series.peaks["used_blocks"],
        "mean_used": series.used_sum / busy,
        "shared_saved": simulation.split.saved_peak,
    }
    waste = series.waste_sum / busy
    values: dict[str, float] = {f"{name}_blocks": value for name, value in blocks.items()}
    values |= {
        "pool_blocks": config.num_blocks,
        "null_blocks": config.num_blocks - config.usable_blocks,
        "block_size_tokens": config.block_size,
        "mean_shared_saved_blocks": simulation.split.mean_saved_blocks,
        "peak_cached_blocks": series.peaks["cached_free_blocks"],
        "evicted_blocks": simulation.evicted_blocks,
        "peak_usage_ratio": blocks["peak_used"] / config.usable_blocks,
        "fragmentation_ratio": waste,
        "live_ratio": 1 - waste,
        "tail_waste_ratio": waste,
    }
    if config.groups != (FULL,):
        values |= _group_figures(simulation.split)
    if per_block is not None:
        values |= {f"{name}_bytes": value * per_block for name, value in blocks.items()}
        values |= {"block_bytes": per_block, "pool_bytes": config.num_blocks * per_block}
    return values


def _group_figures(split: SplitSeries) -> dict[str, float]:
    """Return what the series of one full-attention group cannot tell of other groups."""
    share = split.mean_shares()
    return {
        "fragmentation_ratio": share["tail"] + share["reserved"],
        "live_ratio": share["live"] + share["shared"],
        "tail_waste_ratio": share["tail"],
        "reserved_waste_ratio": share["reserved"],
        "state_pages_ratio": share["state"],
    }


def _scheduler_figures(simulation: Simulation, cached_tokens: int) -> dict[str, float]:
    counts, series = simulation.counts, simulation.series
    once = cached_tokens - counts.hit_tokens
    requests = max(1, counts.requests)
    return {
        "peak_running_requests": series.peaks["running"],
        "peak_waiting_requests": series.peaks["waiting"],
        "hit_tokens": counts.hit_tokens,
        "query_tokens": counts.query_tokens,
        "prefix_hit_ratio": counts.hit_tokens / max(1, counts.query_tokens),
        "preemptions_count": counts.preemptions,
        "preemption_ratio": counts.preemptions / requests,
        "recomputed_tokens": series.computed_sum - once,
        "recompute_hit_tokens": counts.rehit_tokens,
        "computed_tokens": series.computed_sum,
        "steps_count": series.steps,
        "requests_count": counts.requests,
        "dropped_requests_count": counts.dropped,
        "mean_queue_s": simulation.mean_queue_s,
    }
