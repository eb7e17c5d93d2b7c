"""The batched simulator decides as the step-by-step one, and keeps its books right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvbench.workload.request import MultimodalItem, Request
from kvbench_pool.digest import StepDigest, first_difference
from kvbench_pool.vllm_policy import prefix_keys
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.free_blocks import FreeBlocks
from kvbench_pool.vllm_policy.prefix_keys import PrefixKeys, number_prefixes
from kvbench_pool.vllm_policy.simulate import run_batched
from kvbench_pool.vllm_policy.step_series import COLUMNS
from kvbench_pool.vllm_policy.stepwise import run_stepwise


@st.composite
def _cases(draw: st.DrawFn) -> tuple[PoolConfig, list[Request]]:
    size = draw(st.sampled_from((1, 3, 8, 16)))
    ahead = draw(st.sampled_from((0, 0, 2)))
    requests = [_request(draw, place) for place in range(draw(st.integers(1, 12)))]
    longest = max(request.prompt_tokens + request.output_tokens for request in requests)
    least = -(-(longest + ahead) // size)
    seats = draw(st.integers(1, 8))
    config = PoolConfig(
        num_blocks=1 + least + draw(st.integers(0, least)),
        block_size=size,
        max_num_seqs=seats,
        max_num_batched_tokens=seats + draw(st.integers(0, 60)),
        watermark=draw(st.sampled_from((0.0, 0.1))),
        enable_prefix_caching=draw(st.booleans()),
        reserve_full_prompt=draw(st.booleans()),
        lookahead_tokens=ahead,
    )
    return config, requests


def _request(draw: st.DrawFn, place: int) -> Request:
    prompt, output = draw(st.integers(1, 70)), draw(st.integers(1, 40))
    kind = draw(st.sampled_from(("private", "chunks", "tokens")))
    arrival_ms = place * draw(st.sampled_from((0, 0, 60)))
    if kind == "chunks":
        chunk = draw(st.sampled_from((8, 24)))
        ids = [draw(st.integers(0, 1)) for _ in range(-(-prompt // chunk))]
        return Request(
            arrival_ms=arrival_ms,
            prompt_tokens=prompt,
            output_tokens=output,
            hash_ids=ids,
            hash_tokens=chunk,
        )
    if kind == "tokens":
        return Request(
            arrival_ms=arrival_ms,
            prompt_tokens=prompt,
            output_tokens=output,
            prompt_ids=[draw(st.integers(0, 1))] * prompt,
            output_ids=[0] * output,
            multimodal=_items(draw, prompt),
        )
    return Request(arrival_ms=arrival_ms, prompt_tokens=prompt, output_tokens=output)


def _items(draw: st.DrawFn, prompt: int) -> tuple[MultimodalItem, ...]:
    start = draw(st.integers(0, 2 * prompt))
    if start >= prompt:
        return ()
    name = draw(st.sampled_from("ab"))
    return (MultimodalItem(identifier=name, offset_tokens=start, tokens=prompt - start),)


@settings(deadline=None, max_examples=150)
@given(_cases())
def test_same_decisions_as_step_by_step(case: tuple[PoolConfig, list[Request]]) -> None:
    config, requests = case
    expected: list[str] = []
    found: list[str] = []
    slow = run_stepwise(requests, config, digest=StepDigest(expected.append))
    fast = run_batched(requests, config, digest=StepDigest(found.append))
    for one, other in zip(expected, found, strict=False):
        assert one == other, first_difference(one, other)
    assert slow.summary() == fast.summary()
    assert sorted(slow.records, key=lambda record: record.index) == sorted(
        fast.records, key=lambda record: record.index
    )
    assert slow.evicted_blocks == fast.evicted_blocks
    assert slow.series.points("used_blocks") == fast.series.points("used_blocks")
    assert slow.split.points() == fast.split.points()
    assert slow.split.mean_slots() == fast.split.mean_slots()
    assert slow.split.saved_peak == fast.split.saved_peak
    assert {sum(point.slots) for point in fast.split.points()} == {
        config.num_blocks * config.block_size
    }
    # Without a digest, stretches of decoding are taken in one go.
    numbered = number_prefixes(requests, config.block_size)
    run_batched(requests, replace(config, num_blocks=2 * config.num_blocks), numbered=numbered)
    for swift in (run_batched(requests, config), run_batched(requests, config, numbered=numbered)):
        assert fast.summary() == {"digest": fast.digest} | swift.summary()
        assert swift.records == fast.records
        assert swift.evicted_blocks == fast.evicted_blocks
        assert swift.split.points() == fast.split.points()
        assert swift.split.mean_slots() == fast.split.mean_slots()
        for column in COLUMNS:
            assert swift.series.points(column) == fast.series.points(column)


@settings(deadline=None, max_examples=150)
@given(_cases())
def test_forgetting_changes_no_decision(case: tuple[PoolConfig, list[Request]]) -> None:
    config, requests = case
    expected: list[str] = []
    found: list[str] = []
    run_batched(requests, config, digest=StepDigest(expected.append))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prefix_keys, "MOST_NODES", 2)
        patch.setattr(prefix_keys, "MOST_KEYS", 4)
        run_batched(requests, config, digest=StepDigest(found.append))
    assert found == expected


def test_prefixes_that_nobody_has_are_forgotten() -> None:
    """One live block keeps what leads to it, under numbers that start again."""
    keys = PrefixKeys(4)
    first = Request(arrival_ms=0, prompt_tokens=12, output_tokens=1, prompt_ids=range(12))
    second = replace(first, prompt_ids=range(100, 112))
    assert keys.public(first).tolist() == [1, 2, 3]
    assert keys.public(second).tolist() == [4, 5, 6]
    stay = keys.forget(np.array([5]))
    assert stay.tolist() == [4, 5]
    assert keys.public(second).tolist() == [1, 2, 3]
    assert keys.public(first).tolist() == [4, 5, 6]


@settings(deadline=None, max_examples=100)
@given(_cases())
def test_every_block_is_back_at_the_end(case: tuple[PoolConfig, list[Request]]) -> None:
    config, requests = case
    simulation = run_batched(requests, config)
    assert sorted(simulation.free_queue) == list(range(1, config.num_blocks))
    assert len(simulation.records) == len(requests)
    for record in simulation.records:
        kept = record.prompt_tokens + record.output_tokens - 1 + config.lookahead_tokens
        assert record.blocks == -(-kept // config.block_size)
        assert record.arrive_step <= record.first_step <= record.finish_step


def test_equal_blocks_can_leave_in_one_batch() -> None:
    """Two copies of one prefix, evicted by one allocation."""
    twin = [7] * 16
    config = PoolConfig(num_blocks=6, block_size=4)
    requests = [
        Request(arrival_ms=0, prompt_tokens=8, output_tokens=1, prompt_ids=twin[:8]),
        Request(arrival_ms=1000, prompt_tokens=8, output_tokens=1, prompt_ids=twin[:8]),
        Request(arrival_ms=2000, prompt_tokens=19, output_tokens=1, prompt_ids=range(100, 119)),
    ]
    lines: list[str] = []
    run_batched(requests, config, digest=StepDigest(lines.append))
    expected: list[str] = []
    run_stepwise(requests, config, digest=StepDigest(expected.append))
    assert lines == expected


def test_series_is_bounded_and_its_peaks_are_exact() -> None:
    requests = [
        Request(arrival_ms=500 * place, prompt_tokens=30 + place % 50, output_tokens=300)
        for place in range(400)
    ]
    simulation = run_batched(requests, PoolConfig(num_blocks=2000))
    for column in ("used_blocks", "running", "live_tokens"):
        points = simulation.series.points(column)
        assert 1 < len(points) <= 512
        assert max(point.value for point in points) == simulation.series.peaks[column]
        assert [p.step for p in points] == sorted(p.step for p in points)


def test_long_prefixes_are_found_to_the_block() -> None:
    free = FreeBlocks(400)
    free.reserve_keys(1000)
    table, keys = np.empty(200, dtype=np.int64), np.arange(1, 201)
    free.take(table)
    free.register(table, keys)
    for length in (1, 63, 64, 65, 191, 192, 193, 200):
        assert free.find(keys[:length]).tolist() == table[:length].tolist()
        longer = np.concatenate((keys[:length], np.arange(900, 970)))
        assert free.find(longer).tolist() == table[:length].tolist()
    assert free.find(np.arange(900, 970)).tolist() == []
