"""Simulated seconds under memory policies: by hand, and equal to vLLM's where both do the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvbench.workload.request import Request
from kvbench_pool.occupancy import Occupancy
from kvbench_pool.policies import POLICIES, PoolShape
from kvbench_pool.replay import Replay, SchedulerLimits
from kvbench_pool.replay_clock import ReplayClock
from kvbench_pool.step_time import MeasuredConstants, StepTime
from kvbench_pool.step_time.timing import Timing
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.simulate import simulate
from tests.pool.cells import allocate, value, values

SECOND = MeasuredConstants(step_base_s=1.0)
MODEL = MeasuredConstants(
    step_base_s=0.002, prefill_token_s=0.0005, decode_request_s=0.001, context_token_s=1e-5
)


def replay(
    requests: list[Request],
    model: StepTime,
    policy: str = "no_sharing",
    blocks: int = 100,
    seats: int = 8,
    budget: int = 64,
) -> Replay:
    shape = PoolShape(num_blocks=blocks, block_size=16, max_model_len=128)
    limits = SchedulerLimits(max_num_seqs=seats, max_num_batched_tokens=budget)
    found = Replay(POLICIES[policy](shape), limits, Occupancy(16), ReplayClock(model))
    found.run(requests)
    return found


def timing_of(found: Replay) -> Timing:
    assert found.clock is not None
    return found.clock.timing


def request(arrival_ms: float, prompt: int = 4, output: int = 2) -> Request:
    return Request(arrival_ms=arrival_ms, prompt_tokens=prompt, output_tokens=output)


def test_timeline_by_hand() -> None:
    """Steps of a second; the third request comes when all is over."""
    found = replay([request(0), request(500), request(10_250)], SECOND)
    timing = timing_of(found)
    assert list(timing.step_starts_s) == [0, 1, 2, 10.25, 11.25]
    figures = timing.figures()
    assert (figures["simulated_s"], figures["busy_ratio"]) == (12.25, 5 / 12.25)
    assert [figures[f"p{share}_queue_s"] for share in (50, 90)] == [0, 0.5]
    assert [figures[f"p{share}_ttft_s"] for share in (50, 90)] == [1, 1.5]
    assert [figures[f"p{share}_latency_s"] for share in (50, 90)] == [2, 2.5]
    assert found.mean_queue_s == 0.5 / 3
    assert [found.seconds_at(point.step) for point in found.occupancy.running.points()] == [
        0, 1, 2, 10.25, 11.25,
    ]  # fmt: skip


def test_steps_last_by_what_they_compute() -> None:
    """4 prompt tokens at 0.5 s, then two decodes at 0.25 s and 1/16 s per token read."""
    model = MeasuredConstants(prefill_token_s=0.5, decode_request_s=0.25, context_token_s=1 / 16)
    timing = timing_of(replay([request(0, 4, 3)], model))
    starts = [0, 2 + 4 / 16, 2 + 4 / 16 + 0.25 + 5 / 16]
    assert list(timing.step_starts_s) == starts
    assert timing.total_s == starts[-1] + 0.25 + 6 / 16


_REQUESTS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 90), st.integers(1, 30)), min_size=1, max_size=10
)


def _workload(rows: list[tuple[int, int, int]]) -> list[Request]:
    arrivals = sorted(row[0] for row in rows)
    return [
        request(arrival, prompt, output)
        for arrival, (_, prompt, output) in zip(arrivals, rows, strict=True)
    ]


@settings(deadline=None)
@given(_REQUESTS, st.integers(2, 8), st.integers(8, 200))
def test_equal_seconds_where_memory_does_not_matter(
    rows: list[tuple[int, int, int]], seats: int, budget: int
) -> None:
    """In a roomy pool without sharing both schedulers run the same steps."""
    requests = _workload(rows)
    config = PoolConfig(
        num_blocks=101,
        max_num_seqs=seats,
        max_num_batched_tokens=budget,
        enable_prefix_caching=False,
        step_time=MODEL,
    )
    expected = simulate(requests, config).timing
    assert expected is not None
    timing = timing_of(replay(requests, MODEL, seats=seats, budget=budget))
    assert timing.figures() == pytest.approx(expected.figures(), rel=1e-9)
    assert list(timing.step_starts_s) == pytest.approx(list(expected.step_starts_s), rel=1e-9)


@settings(deadline=None)
@given(_REQUESTS, st.sampled_from(sorted(set(POLICIES))), st.integers(8, 20))
def test_time_only_moves_on(rows: list[tuple[int, int, int]], policy: str, blocks: int) -> None:
    found = replay(_workload(rows), MODEL, policy=policy, blocks=blocks, seats=4)
    timing = timing_of(found)
    starts = list(timing.step_starts_s)
    assert starts == sorted(starts)
    assert len(starts) == found.totals.steps
    figures = timing.figures()
    if found.totals.requests:
        assert 0 <= figures["p99_queue_s"] < figures["p99_ttft_s"] <= figures["p99_latency_s"]
        assert timing.busy_s <= timing.total_s * (1 + 1e-9)


def test_preallocation_waits_longer() -> None:
    """Slabs of the longest length hold fewer requests at once than pages do."""
    workload = {"kind": "constant", "requests": 40, "prompt_tokens": 60, "output_tokens": 40}
    waits = {
        policy: value(
            allocate(
                workload=workload, policy=policy, pool_blocks=64, block_size=16,
                max_model_len=512, step_time="measured", step_base_s=0.01,
            ),
            "mean_queue_s",
        )
        for policy in ("no_sharing", "static")
    }  # fmt: skip
    assert waits["no_sharing"] < waits["static"]


def test_counted_steps_have_no_seconds() -> None:
    workload = {"kind": "constant", "requests": 3, "prompt_tokens": 60, "output_tokens": 4}
    output = allocate(workload=workload, policy="radix", pool_blocks=64)
    assert values(output, "simulated_s") == []
    assert "A step is 50 ms whatever it computes." in output.assumptions
