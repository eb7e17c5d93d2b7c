"""``kvbench simulate`` under a policy other than vLLM's."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvbench_pool.simulate_clock import seconds_of, step_time
from kvbench_pool.simulate_memory import byte_figures, pool_memory
from kvbench_pool.simulate_source import TimedRequests

if TYPE_CHECKING:
    from kvbench.workload.load import RequestStream


def run_other(
    requests: RequestStream, options: dict[str, Any], output: Path | None
) -> dict[str, Any]:
    """Replay under a policy other than vLLM's; return the summary.

    Raises:
        KvbenchError: The model or the step-time model lacks a figure.
        ResultsError: The output folder cannot be written.
        TraceError: The trace cannot be read.
    """
    from kvbench_pool.occupancy import Occupancy
    from kvbench_pool.policies import POLICIES, PoolShape
    from kvbench_pool.replay import Replay, SchedulerLimits
    from kvbench_pool.replay_clock import ReplayClock
    from kvbench_pool.step_time.models import clock_model

    memory = pool_memory(options)
    size = memory.block_size
    shape = PoolShape(
        num_blocks=memory.num_blocks,
        block_size=size,
        max_model_len=options["max_model_len"] or memory.num_blocks * size,
    )
    limits = SchedulerLimits(
        max_num_seqs=options["max_num_seqs"],
        max_num_batched_tokens=options["max_num_batched_tokens"],
        step_ms=options["step_ms"],
    )
    model = step_time(options, memory.model)
    clock = None if clock_model(model) is None else ReplayClock(model)
    replay = Replay(POLICIES[options["policy"]](shape), limits, Occupancy(size), clock)
    timed = TimedRequests(requests)
    started, start = dt.datetime.now(dt.UTC), time.perf_counter()
    replay.run(timed)
    wall_s = time.perf_counter() - start - timed.spent_s
    totals, occupancy = replay.totals, replay.occupancy
    peak = occupancy.peak_used_slots / size
    summary: dict[str, Any] = {
        "steps": totals.steps,
        "hit_tokens": totals.hit_tokens,
        "query_tokens": totals.query_tokens,
        "hit_rate": totals.hit_tokens / max(1, totals.query_tokens),
        "preemptions": totals.preemptions,
        "sched_tokens": totals.scheduled_tokens,
        "peak_used_blocks": peak,
        "mean_used_blocks": occupancy.mean_used_slots.value / size,
        "mean_live_ratio": occupancy.mean_live_ratio.value,
        "peak_running": occupancy.peak_running,
        "peak_waiting": occupancy.peak_waiting,
        **seconds_of(clock.timing if clock is not None else None),
        "wall_s": round(wall_s, 3),
        "load_s": round(timed.spent_s, 3),
        "req_per_s": round(totals.requests / max(wall_s, 1e-9), 1),
        "requests": totals.requests,
        "dropped_requests": totals.dropped,
        "policy": options["policy"],
        "step_time": model.name,
        "evidence": "simulated",
        **byte_figures(memory, peak),
        "assumptions": [
            *(memory.arrangement.assumptions if memory.arrangement else ()),
            "Decisions are those of kvbench's plain scheduler: first come, first served.",
            *model.assumptions(),
        ],
    }
    if output is not None:
        from kvbench_pool.simulate_output import write_run
        from kvbench_pool.studies.replay_workload import replay_observations

        observations = replay_observations(replay, memory.as_of_a_cell())
        write_run(output, options["source"], summary, observations, started)
    return summary
