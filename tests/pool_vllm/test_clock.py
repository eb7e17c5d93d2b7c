"""Simulated seconds: hand-worked timelines, and what holds on every clock."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvbench.workload.request import Request
from kvbench_pool.digest import StepDigest
from kvbench_pool.step_time import MeasuredConstants, StepWork
from kvbench_pool.step_time.timing import RequestTimes, Timing
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.simulate import can_batch, simulate
from kvbench_pool.vllm_policy.simulation import Simulation

SECOND = MeasuredConstants(step_base_s=1.0)


@dataclasses.dataclass(frozen=True)
class Instant:
    """Steps that take no time: a model that a third party could bring."""

    name: str = "instant"

    def seconds(self, work: StepWork) -> float:
        return 0.0

    def assumptions(self) -> tuple[str, ...]:
        return ("Steps take no time.",)


def request(arrival_ms: float, prompt: int = 4, output: int = 2) -> Request:
    return Request(arrival_ms=arrival_ms, prompt_tokens=prompt, output_tokens=output)


def timing_of(simulation: Simulation) -> Timing:
    assert simulation.timing is not None
    return simulation.timing


def times_of(simulation: Simulation) -> dict[int, RequestTimes | None]:
    return {record.index: record.times for record in simulation.records}


def moments(arrive: float, scheduled: float, first: float, finish: float) -> RequestTimes:
    return RequestTimes(
        arrive_s=arrive, scheduled_s=scheduled, first_token_s=first, finish_s=finish
    )


def test_timeline_by_hand() -> None:
    """Steps of a second; the third request comes when all is over."""
    config = PoolConfig(num_blocks=100, step_time=SECOND)
    simulation = simulate([request(0), request(500), request(10_250)], config)
    assert times_of(simulation) == {
        0: moments(0, 0, 1, 2),
        1: moments(0.5, 1, 2, 3),
        2: moments(10.25, 10.25, 11.25, 12.25),
    }
    timing = timing_of(simulation)
    assert list(timing.step_starts_s) == [0, 1, 2, 10.25, 11.25]
    figures = timing.figures()
    assert (figures["simulated_s"], figures["busy_ratio"]) == (12.25, 5 / 12.25)
    assert figures["output_tokens_per_s"] == 6 / 12.25
    assert figures["tokens_per_s"] == 18 / 12.25
    assert simulation.mean_queue_s == 0.5 / 3
    assert [figures[f"p{share}_queue_s"] for share in (50, 90, 99)] == [0, 0.5, 0.5]
    assert [figures[f"p{share}_ttft_s"] for share in (50, 90, 99)] == [1, 1.5, 1.5]
    assert [figures[f"p{share}_latency_s"] for share in (50, 90)] == [2, 2.5]
    assert figures["p50_inter_token_s"] == 1
    assert timing.assumptions == SECOND.assumptions()


def test_steps_last_by_what_they_compute() -> None:
    """Half a second per prefill token, a quarter per decode: 2 s, then 0.25 s each."""
    model = MeasuredConstants(prefill_token_s=0.5, decode_request_s=0.25)
    simulation = simulate([request(0, 4, 3)], PoolConfig(num_blocks=9, step_time=model))
    assert times_of(simulation) == {0: moments(0, 0, 2, 2.5)}
    assert timing_of(simulation).figures()["p99_inter_token_s"] == 0.25


def test_async_timeline_by_hand() -> None:
    """A step is decided when the output before the last one is there, and runs in its turn.

    Step 1 is decided at 0 and runs from 1 to 2. Step 2, decided at 1, is the first that knows
    the second request; it runs from 2 to 3, and that request's last step from 3 to 4.
    """
    config = PoolConfig(num_blocks=100, step_time=SECOND, async_scheduling=True)
    simulation = simulate([request(0), request(500)], config)
    assert times_of(simulation) == {0: moments(0, 0, 1, 2), 1: moments(0.5, 1, 3, 4)}
    assert timing_of(simulation).busy_s == 4


def test_a_single_token_has_no_gap() -> None:
    simulation = simulate([request(0, 4, 1)], PoolConfig(num_blocks=9, step_time=SECOND))
    figures = timing_of(simulation).figures()
    assert "p50_inter_token_s" not in figures
    assert figures["p50_latency_s"] == figures["p50_ttft_s"] == 1


def test_no_requests_no_figures() -> None:
    simulation = simulate([], PoolConfig(num_blocks=9, step_time=SECOND))
    assert timing_of(simulation).figures() == {"simulated_s": 0.0}


def test_a_clock_runs_step_by_step() -> None:
    config = PoolConfig(num_blocks=9)
    assert can_batch(config)
    assert not can_batch(dataclasses.replace(config, step_time=SECOND))


def test_counted_steps_have_no_seconds() -> None:
    for is_async in (False, True):
        simulation = simulate([request(0)], PoolConfig(num_blocks=9, async_scheduling=is_async))
        assert simulation.timing is None
        assert [record.times for record in simulation.records] == [None]


_REQUESTS = st.lists(
    st.tuples(st.integers(0, 400), st.integers(1, 60), st.integers(1, 30)), min_size=1, max_size=10
)


def _workload(rows: list[tuple[int, int, int]], unit_ms: float = 1.0) -> list[Request]:
    arrivals = sorted(row[0] for row in rows)
    return [
        request(arrival * unit_ms, prompt, output)
        for arrival, (_, prompt, output) in zip(arrivals, rows, strict=True)
    ]


@settings(deadline=None)
@given(_REQUESTS, st.booleans())
def test_infinitely_fast_steps_start_everything_on_arrival(
    rows: list[tuple[int, int, int]], is_async: bool
) -> None:
    config = PoolConfig(num_blocks=200, step_time=Instant(), async_scheduling=is_async)
    simulation = simulate(_workload(rows), config)
    assert len(simulation.records) == len(rows)
    for times in times_of(simulation).values():
        assert times is not None
        assert times.arrive_s == times.scheduled_s == times.first_token_s == times.finish_s


@settings(deadline=None)
@given(_REQUESTS, st.booleans(), st.integers(0, 8))
def test_time_only_moves_on(
    rows: list[tuple[int, int, int]], is_async: bool, extra_blocks: int
) -> None:
    """In a pool so small that requests are preempted, whatever the order of events."""
    model = MeasuredConstants(
        step_base_s=0.002, prefill_token_s=0.0005, decode_request_s=0.001, context_token_s=1e-5
    )
    config = PoolConfig(
        num_blocks=13 + extra_blocks,
        block_size=8,
        max_num_seqs=4,
        max_num_batched_tokens=32,
        async_scheduling=is_async,
        step_time=model,
    )
    simulation = simulate(_workload(rows), config)
    timing = timing_of(simulation)
    assert len(simulation.records) == len(rows)
    assert all(one <= next_one for one, next_one in pairwise(timing.step_starts_s))
    assert len(timing.step_starts_s) == simulation.series.steps
    assert timing.busy_s <= timing.total_s * (1 + 1e-9)
    for times in times_of(simulation).values():
        assert times is not None
        assert times.arrive_s <= times.scheduled_s < times.first_token_s <= times.finish_s


@settings(deadline=None)
@given(_REQUESTS)
def test_equal_steps_decide_as_counted_ones(rows: list[tuple[int, int, int]]) -> None:
    """A clock of 62.5 ms steps and arrivals on its ticks make the decisions of logical steps."""
    requests = _workload(rows, unit_ms=125.0)
    counted = PoolConfig(num_blocks=60, max_num_batched_tokens=256, step_ms=62.5)
    clocked = dataclasses.replace(counted, step_time=MeasuredConstants(step_base_s=0.0625))
    expected, found = _decisions(requests, counted), _decisions(requests, clocked)
    assert [line.split("|", 1)[1] for line in found] == [line.split("|", 1)[1] for line in expected]


def _decisions(requests: list[Request], config: PoolConfig) -> list[str]:
    lines: list[str] = []
    simulate(requests, config, digest=StepDigest(lines.append))
    return lines


def test_a_series_has_the_seconds_of_its_steps() -> None:
    config = PoolConfig(num_blocks=100, step_time=SECOND)
    simulation = simulate([request(250), request(8000)], config)
    running = simulation.series.points("running")
    assert [simulation.seconds_at(point.step) for point in running] == [0.25, 1.25, 8, 9]
    counted = simulate([request(250), request(8000)], PoolConfig(num_blocks=100))
    steps = [point.step for point in counted.series.points("running")]
    assert [counted.seconds_at(step) for step in steps] == pytest.approx([0.25, 0.3, 8, 8.05])
