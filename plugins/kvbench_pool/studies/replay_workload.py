"""A workload replayed under one memory policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kvbench.engine import Cell, CellOutput, Observation
from kvbench.errors import CellFailed
from kvbench.workload.request import Request
from kvbench_pool.observe import simulated, simulated_series
from kvbench_pool.occupancy import Occupancy
from kvbench_pool.one_table import check_one_table, reserve_assumption, table_assumptions
from kvbench_pool.policies import POLICIES, PoolShape
from kvbench_pool.replay import Replay, SchedulerLimits
from kvbench_pool.replay_clock import ReplayClock
from kvbench_pool.settings import Memory, arrangement_of, memory_of, optional_int, setting
from kvbench_pool.step_time.choose import choose_step_time
from kvbench_pool.step_time.models import clock_model
from kvbench_pool.studies.requests import requests_of, warnings_of


def run(cell: Cell) -> CellOutput:
    """Replay the cell's workload.

    Raises:
        CellFailed: An option is missing or out of place.
        TraceError: The workload's trace cannot be read.
    """
    memory = memory_of(cell)
    if setting(cell, "policy", str) == "vllm":
        from kvbench_pool.studies.replay_vllm import replay_vllm

        return replay_vllm(cell, memory)
    requests = requests_of(cell)
    replay = replay_cell(cell, memory, requests, setting(cell, "max_num_seqs", int))
    return CellOutput(
        observations=tuple(replay_observations(replay, memory)),
        effective={
            "policy": setting(cell, "policy", str),
            "block_size": memory.block_size,
            "pool_blocks": memory.num_blocks,
            "layout": memory.layout,
            "max_model_len": _max_model_len(cell, memory),
            "step_time": setting(cell, "step_time", str),
        },
        assumptions=(*memory.assumptions, *_assumptions(cell, memory, replay)),
        warnings=tuple(warnings_of(requests, replay.totals.dropped)),
    )


def preemption_ratios(cell: Cell, memory: Memory) -> Callable[[int], float]:
    """Return a replay of a cell with a number of seats: its preemptions per request.

    The workload is read once, for all replays.

    Raises:
        CellFailed: An option is missing or out of place.
        TraceError: The workload's trace cannot be read.
    """
    requests = list(requests_of(cell))
    if setting(cell, "policy", str) == "vllm":
        from kvbench_pool.studies.replay_vllm import vllm_preemption_ratios

        return vllm_preemption_ratios(cell, memory, requests)

    def ratio(max_num_seqs: int) -> float:
        totals = replay_cell(cell, memory, requests, max_num_seqs).totals
        return totals.preemptions / max(1, totals.requests)

    return ratio


def clock_assumptions(cell: Cell) -> tuple[str, ...]:
    """Return what the seconds of a cell's steps rest on."""
    return choose_step_time(cell.settings, cell.model, cell.device).assumptions()


def replay_cell(
    cell: Cell, memory: Memory, requests: Iterable[Request], max_num_seqs: int
) -> Replay:
    """Replay requests with a given number of seats; return the finished replay.

    Raises:
        CellFailed: The token budget is below the seats, or the model cannot be replayed so.
    """
    check_one_table(cell, f"policy {setting(cell, 'policy', str)!r}")
    budget = setting(cell, "max_num_batched_tokens", int)
    if budget < max_num_seqs:
        raise CellFailed(
            "option_conflict",
            f"max_num_batched_tokens {budget} is below max_num_seqs {max_num_seqs}",
        )
    shape = PoolShape(
        num_blocks=memory.num_blocks - memory.null_blocks,
        block_size=memory.block_size,
        max_model_len=_max_model_len(cell, memory),
        reserve=setting(cell, "reserve", str),
    )
    limits = SchedulerLimits(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=budget,
        step_ms=setting(cell, "step_ms", float),
    )
    policy = POLICIES[setting(cell, "policy", str)](shape)
    step_time = clock_model(choose_step_time(cell.settings, cell.model, cell.device))
    clock = None if step_time is None else ReplayClock(step_time)
    replay = Replay(policy, limits, Occupancy(memory.block_size), clock)
    replay.run(requests)
    return replay


def _max_model_len(cell: Cell, memory: Memory) -> int:
    stated = optional_int(cell, "max_model_len")
    known = cell.model.max_context_tokens if cell.model else None
    return stated or known or memory.num_blocks * memory.block_size


def replay_observations(replay: Replay, memory: Memory) -> Iterator[Observation]:
    """Yield every figure of a finished replay."""
    occupancy = replay.occupancy
    usable = memory.num_blocks - memory.null_blocks
    yield from simulated(_memory_figures(replay, memory))
    yield from simulated(_scheduler_figures(replay))
    if replay.clock is not None:
        yield from simulated(replay.clock.timing.figures())
    yield from simulated(waste_figures(replay, usable * memory.block_size))
    series = {
        "used_blocks": occupancy.used,
        "live_tokens": occupancy.live,
        "cached_blocks": occupancy.cached,
        "running_requests": occupancy.running,
        "waiting_requests": occupancy.waiting,
    }
    for metric, kept in series.items():
        yield from simulated_series(metric, kept.points(), replay.seconds_at)


def _memory_figures(replay: Replay, memory: Memory) -> dict[str, float]:
    occupancy, size = replay.occupancy, memory.block_size
    blocks = {
        "peak_used": occupancy.peak_used_slots / size,
        "mean_used": occupancy.mean_used_slots.value / size,
        "shared_saved": occupancy.peak_saved_slots / size,
    }
    values: dict[str, float] = {f"{name}_blocks": value for name, value in blocks.items()}
    values |= {
        "pool_blocks": memory.num_blocks,
        "null_blocks": memory.null_blocks,
        "block_size_tokens": size,
        "mean_shared_saved_blocks": occupancy.mean_saved_slots.value / size,
        "peak_cached_blocks": occupancy.peak_cached_slots / size,
        "evicted_blocks": replay.policy.evicted_slots / size,
        "peak_usage_ratio": blocks["peak_used"] / (memory.num_blocks - memory.null_blocks),
    }
    if memory.bytes_per_block is not None:
        per_block = memory.bytes_per_block
        values |= {f"{name}_bytes": value * per_block for name, value in blocks.items()}
        values |= {"block_bytes": per_block, "pool_bytes": memory.num_blocks * per_block}
    return values


def _scheduler_figures(replay: Replay) -> dict[str, float]:
    totals, occupancy = replay.totals, replay.occupancy
    return {
        "peak_running_requests": occupancy.peak_running,
        "peak_waiting_requests": occupancy.peak_waiting,
        "hit_tokens": totals.hit_tokens,
        "query_tokens": totals.query_tokens,
        "prefix_hit_ratio": totals.hit_tokens / max(1, totals.query_tokens),
        "preemptions_count": totals.preemptions,
        "preemption_ratio": totals.preemptions / max(1, totals.requests),
        "recomputed_tokens": totals.recomputed_tokens,
        "computed_tokens": totals.scheduled_tokens,
        "steps_count": totals.steps,
        "requests_count": totals.requests,
        "dropped_requests_count": totals.dropped,
        "blocked_steps_count": totals.blocked_steps,
        "mean_queue_s": replay.mean_queue_s,
    }


def waste_figures(replay: Replay, slots: int) -> dict[str, float]:
    """Return what the allocated slots were not used for, and the free ones out of reach.

    Args:
        replay: A finished replay.
        slots: Tokens that the pool holds.
    """
    occupancy, totals = replay.occupancy, replay.totals
    live = occupancy.mean_live_ratio.value
    reserved, padding = occupancy.mean_reserved_ratio.value, occupancy.mean_padding_ratio.value
    blocked = max(1, totals.blocked_steps)
    # What is neither live nor reserved nor padding; -0.0 and rounding noise are none.
    tail = max(0.0, 1 - live - reserved - padding) if totals.requests else 0.0
    return {
        "live_ratio": live,
        "tail_waste_ratio": 0.0 if replay.policy.preallocates else tail,
        "reserved_waste_ratio": reserved,
        "padding_waste_ratio": padding,
        "outside_waste_ratio": totals.outside_slot_steps / blocked / slots,
        "fragmentation_ratio": 1 - live if totals.requests else 0.0,
    }


def _assumptions(cell: Cell, memory: Memory, replay: Replay) -> Iterator[str]:
    policy = setting(cell, "policy", str)
    yield (
        f"Policy {policy!r} under kvbench's plain scheduler: first come, first served, the "
        "youngest is preempted."
    )
    yield from clock_assumptions(cell)
    yield from table_assumptions(arrangement_of(cell))
    if replay.policy.preallocates:
        most = _max_model_len(cell, memory)
        yield {
            "max": reserve_assumption(most),
            "final": "Each request reserves its final length, as if it were known.",
        }["max" if policy == "static" else setting(cell, "reserve", str)]
