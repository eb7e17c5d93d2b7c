"""The plain scheduler: worked examples, and vLLM's own figures where nothing is shared."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from kvbench.workload.request import Request
from kvbench.workload.traces import open_trace
from kvbench_pool.occupancy import Occupancy
from kvbench_pool.policies import POLICIES, PoolShape
from kvbench_pool.replay import Replay, SchedulerLimits
from tests.conftest import shared_path


def run(
    requests: Iterable[Request],
    *,
    num_blocks: int,
    block_size: int = 4,
    policy: str = "no_sharing",
    seats: int = 256,
    budget: int = 8192,
) -> Replay:
    shape = PoolShape(num_blocks=num_blocks, block_size=block_size, max_model_len=1 << 20)
    limits = SchedulerLimits(max_num_seqs=seats, max_num_batched_tokens=budget)
    replay = Replay(POLICIES[policy](shape), limits, Occupancy(block_size))
    replay.run(requests)
    return replay


def request(prompt: int, output: int, arrival_ms: float = 0) -> Request:
    return Request(arrival_ms=arrival_ms, prompt_tokens=prompt, output_tokens=output)


def test_one_request_takes_a_step_per_token() -> None:
    replay = run([request(6, 4)], num_blocks=4)
    assert replay.totals.steps == 4
    assert replay.totals.scheduled_tokens == 9
    assert replay.occupancy.peak_used_slots == 12


def test_a_prompt_is_computed_in_chunks_of_the_budget() -> None:
    replay = run([request(20, 1)], num_blocks=5, budget=8)
    assert replay.totals.steps == 3


def test_decoding_goes_before_prompts() -> None:
    replay = run([request(4, 5), request(9, 1)], num_blocks=9, budget=5, seats=5)
    assert [point.value for point in replay.occupancy.running.points()] == [2, 2, 2, 1]
    assert replay.totals.steps == 5


def test_the_youngest_starts_over_when_memory_is_short() -> None:
    replay = run([request(4, 6), request(4, 6)], num_blocks=3)
    assert replay.totals.preemptions == 1
    assert replay.totals.recomputed_tokens == 4
    assert replay.totals.scheduled_tokens == 9 + 9 + 4
    assert replay.totals.steps == 6 + 5


def test_the_head_of_the_queue_blocks_those_behind_it() -> None:
    replay = run([request(8, 2), request(8, 1), request(1, 1)], num_blocks=3)
    assert replay.occupancy.peak_waiting == 3
    assert replay.totals.blocked_steps == 2
    assert replay.totals.queued_steps == 4


def test_requests_that_never_fit_are_dropped_and_counted() -> None:
    replay = run([request(8, 2), request(8, 10)], num_blocks=4)
    assert (replay.totals.requests, replay.totals.dropped) == (1, 1)


def test_time_without_requests_is_no_step() -> None:
    replay = run([request(4, 2), request(4, 2, arrival_ms=1e6)], num_blocks=4)
    assert replay.totals.steps == 4


def test_means_are_over_every_step_even_those_not_visited() -> None:
    replay = run([request(1, 8)], num_blocks=2)
    occupancy = replay.occupancy
    assert occupancy.mean_used_slots.value == pytest.approx((4 * 4 + 8 * 4) / 8)
    live = [1 / 4, 2 / 4, 3 / 4, 1, 5 / 8, 6 / 8, 7 / 8, 1]
    assert occupancy.mean_live_ratio.value == pytest.approx(sum(live) / 8)


def test_where_nothing_is_shared_the_figures_are_vllms() -> None:
    log = shared_path("truth/vllm_scheduler/azure_conv_b8000.jsonl").read_text().splitlines()
    truth = json.loads(log[-1])
    trace = open_trace(shared_path("traces/azure2023/AzureLLMInferenceTrace_conv.csv"))
    replay = run(trace, num_blocks=7999, block_size=16)
    totals, occupancy = replay.totals, replay.occupancy
    assert totals.steps == truth["steps"]
    assert totals.query_tokens == truth["query_tokens"]
    assert totals.preemptions == truth["preemptions"]
    # vLLM's preempted requests find part of what they had; without sharing nobody does.
    assert totals.scheduled_tokens - truth["recompute_hit"] == truth["sched_tokens"]
    assert occupancy.peak_used_slots == truth["peak_used_blocks"] * 16
    assert occupancy.peak_running == truth["peak_running"]
    assert occupancy.peak_waiting == truth["peak_waiting"]
    assert occupancy.mean_used_slots.value / 16 == pytest.approx(
        truth["mean_used_blocks"], abs=0.05
    )
    assert 1 - occupancy.mean_live_ratio.value == pytest.approx(
        truth["mean_internal_frag"], abs=1e-5
    )
