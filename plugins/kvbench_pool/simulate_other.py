"""``kvbench simulate`` under a policy other than vLLM's."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvbench_pool.simulate_checks import PREALLOCATING
from kvbench_pool.simulate_clock import seconds_of, step_time
from kvbench_pool.simulate_memory import PoolMemory, byte_figures, pool_memory
from kvbench_pool.simulate_source import TimedRequests

if TYPE_CHECKING:
    from kvbench.workload.load import RequestStream
    from kvbench.workload.spec import WorkloadSpec
    from kvbench_pool.replay import Replay
    from kvbench_pool.step_time import StepTime


def run_other(
    requests: RequestStream, options: dict[str, Any], output: Path | None
) -> dict[str, Any]:
    """Replay under a policy other than vLLM's; return the summary.

    Raises:
        KvbenchError: The model or the step-time model lacks a figure, or one table per request
            cannot hold the model's cache.
        ResultsError: The output folder cannot be written.
        TraceError: The trace cannot be read.
    """
    memory = pool_memory(options)
    max_model_len = _max_model_len(options, memory)
    model = step_time(options, memory.model)
    replay = _replay(options, memory, max_model_len, model)
    timed = TimedRequests(requests)
    started, start = dt.datetime.now(dt.UTC), time.perf_counter()
    replay.run(timed)
    wall_s = time.perf_counter() - start - timed.spent_s
    summary: dict[str, Any] = {
        **_figures(replay, memory),
        "wall_s": round(wall_s, 3),
        "load_s": round(timed.spent_s, 3),
        "req_per_s": round(replay.totals.requests / max(wall_s, 1e-9), 1),
        "requests": replay.totals.requests,
        "dropped_requests": replay.totals.dropped,
        "policy": options["policy"],
        "step_time": model.name,
        "evidence": "simulated",
        **byte_figures(memory, replay.occupancy.peak_used_slots / memory.block_size),
        **({"max_model_len": max_model_len} if options["policy"] in PREALLOCATING else {}),
        "assumptions": list(_assumptions(options["policy"], memory, max_model_len, model)),
    }
    if output is not None:
        from kvbench_pool.simulate_output import write_run
        from kvbench_pool.studies.replay_workload import replay_observations

        observations = replay_observations(replay, memory.as_of_a_cell())
        write_run(output, options["source"], summary, observations, started)
    return summary


def _max_model_len(options: dict[str, Any], memory: PoolMemory) -> int:
    """Return what a preallocating policy provides for; the others never ask."""
    if options["policy"] not in PREALLOCATING:
        return memory.num_blocks * memory.block_size
    known = memory.model.max_context_tokens if memory.model else None
    return options["max_model_len"] or known or _longest(options["workload"], options["seed"])


def _longest(workload: WorkloadSpec, seed: int) -> int:
    from kvbench.workload.load import open_workload

    requests = open_workload(workload, seed)
    return max(request.prompt_tokens + request.output_tokens for request in requests)


def _replay(
    options: dict[str, Any], memory: PoolMemory, max_model_len: int, step_time: StepTime
) -> Replay:
    from kvbench.errors import KvbenchError
    from kvbench_pool.occupancy import Occupancy
    from kvbench_pool.one_table import table_problem
    from kvbench_pool.policies import POLICIES, PoolShape
    from kvbench_pool.replay import Replay, SchedulerLimits
    from kvbench_pool.replay_clock import ReplayClock
    from kvbench_pool.step_time.models import clock_model

    problem = table_problem(memory.arrangement, f"policy {options['policy']!r}")
    if problem:
        raise KvbenchError(problem)
    shape = PoolShape(
        num_blocks=memory.num_blocks, block_size=memory.block_size, max_model_len=max_model_len
    )
    limits = SchedulerLimits(
        max_num_seqs=options["max_num_seqs"],
        max_num_batched_tokens=options["max_num_batched_tokens"],
        step_ms=options["step_ms"],
    )
    clock = None if clock_model(step_time) is None else ReplayClock(step_time)
    policy = POLICIES[options["policy"]](shape)
    return Replay(policy, limits, Occupancy(memory.block_size), clock)


def _figures(replay: Replay, memory: PoolMemory) -> dict[str, Any]:
    from kvbench_pool.studies.replay_workload import waste_figures

    totals, occupancy, size = replay.totals, replay.occupancy, memory.block_size
    waste = waste_figures(replay, memory.num_blocks * size)
    return {
        "steps": totals.steps,
        "hit_tokens": totals.hit_tokens,
        "query_tokens": totals.query_tokens,
        "hit_rate": totals.hit_tokens / max(1, totals.query_tokens),
        "preemptions": totals.preemptions,
        "recomputed_tokens": totals.recomputed_tokens,
        "sched_tokens": totals.scheduled_tokens,
        "peak_used_blocks": occupancy.peak_used_slots / size,
        "mean_used_blocks": occupancy.mean_used_slots.value / size,
        "mean_live_ratio": waste.pop("live_ratio"),
        "mean_internal_frag": waste.pop("fragmentation_ratio"),
        **waste,
        "evicted_blocks": replay.policy.evicted_slots / size,
        "peak_shared_saved_blocks": occupancy.peak_saved_slots / size,
        "peak_running": occupancy.peak_running,
        "peak_waiting": occupancy.peak_waiting,
        **seconds_of(replay.clock.timing if replay.clock is not None else None),
    }


def _assumptions(
    policy: str, memory: PoolMemory, max_model_len: int, step_time: StepTime
) -> Iterator[str]:
    from kvbench_pool.one_table import reserve_assumption, table_assumptions

    yield from memory.arrangement.assumptions if memory.arrangement else ()
    yield "Decisions are those of kvbench's plain scheduler: first come, first served."
    yield from table_assumptions(memory.arrangement)
    if policy in PREALLOCATING:
        yield reserve_assumption(max_model_len)
    yield from step_time.assumptions()
