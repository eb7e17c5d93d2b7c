"""What the slots of a pool are used for, by hand and over whole runs."""

from __future__ import annotations

import pytest

from kvbench.workload.request import Request
from kvbench_pool.vllm_policy.config import FULL, CacheGroup, GroupKind, PoolConfig
from kvbench_pool.vllm_policy.job import Job
from kvbench_pool.vllm_policy.pool_split import PARTS, PoolSplit, SplitSeries
from kvbench_pool.vllm_policy.scheduler import Scheduler
from kvbench_pool.vllm_policy.stepwise import run_stepwise

WINDOW = CacheGroup(kind=GroupKind.SLIDING, window_tokens=4)
STATE = CacheGroup(kind=GroupKind.STATE, fixed_blocks=2)


def _job(index: int, prompt_tokens: int, keys: list[int], output_tokens: int = 9) -> Job:
    return Job(
        index=index,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        keys=[*keys, *range(100 * index, 100 * index + 9)],
        arrive_step=0,
        known=prompt_tokens,
    )


def _split(config: PoolConfig, *jobs: Job) -> PoolSplit:
    """Admit all jobs in one step; return how the pool is used."""
    scheduler = Scheduler(config)
    scheduler.waiting.extend(jobs)
    scheduler.schedule()
    assert len(scheduler.running) == len(jobs)
    return scheduler.cache.split(scheduler.running)


def test_a_shared_prefix_tails_and_lookahead() -> None:
    """11 and 9 tokens that share 8, two slots ahead: four blocks of 4, the shared two once."""
    config = PoolConfig(num_blocks=10, block_size=4, lookahead_tokens=2)
    split = _split(config, _job(1, 11, [1, 2]), _job(2, 9, [1, 2]))
    # Tables: [1, 2, 3, 4] for 11 + 2 tokens, [1, 2, 5] for 9 + 2.
    assert split == PoolSplit(
        live=3 + 1,
        shared=8,
        tail=(16 - 13) + (12 - 11),
        reserved=2 + 2,
        state=0,
        cached=0,
        free=4 * 4,
        null=4,
        null_entries=0,
        saved_blocks=2,
    )


def test_groups_and_what_left_the_window() -> None:
    """Ten tokens under full attention and a window of 4, computed 8 and then 2."""
    config = PoolConfig(
        num_blocks=12, block_size=4, max_num_seqs=1, max_num_batched_tokens=8, groups=(FULL, WINDOW)
    )
    scheduler = Scheduler(config)
    scheduler.waiting.append(_job(1, 10, []))
    scheduler.update(scheduler.schedule())
    scheduler.update(scheduler.schedule())
    # 8 tokens computed before: the window's next token sees the 5th on, so its first block goes;
    # the free block can still be found.
    assert scheduler.cache.table(scheduler.running[0]) == [[1, 2, 5], [0, 4, 6]]
    assert scheduler.cache.split(scheduler.running) == PoolSplit(
        live=10 + 6,
        shared=0,
        tail=2 + 2,
        reserved=0,
        state=0,
        cached=4,
        free=5 * 4,
        null=4,
        null_entries=1,
        saved_blocks=0,
    )


def test_state_pages_are_whole() -> None:
    config = PoolConfig(
        num_blocks=9, block_size=4, enable_prefix_caching=False, groups=(FULL, STATE)
    )
    split = _split(config, _job(1, 6, []))
    assert (split.live, split.tail, split.state, split.free) == (6, 2, 8, 16)


@pytest.mark.parametrize("groups", [(FULL,), (FULL, WINDOW), (WINDOW,)])
@pytest.mark.parametrize("is_async", [False, True])
def test_kept_moments_sum_to_the_pool_and_hold_the_peak(
    groups: tuple[CacheGroup, ...], is_async: bool
) -> None:
    requests = [
        Request(
            arrival_ms=200 * place,
            prompt_tokens=20 + place % 7,
            output_tokens=30,
            hash_ids=(1, place % 3, place),
            hash_tokens=10,
        )
        for place in range(60)
    ]
    config = PoolConfig(num_blocks=60, block_size=4, groups=groups, async_scheduling=is_async)
    simulation = run_stepwise(requests, config)
    split = simulation.split
    points = split.points()
    assert simulation.series.steps <= 512, "every step is kept"
    assert len(points) == simulation.series.steps
    assert all(sum(point.slots) == 60 * 4 for point in points)
    unused = [sum(point.slots[PARTS.index(name)] for name in PARTS[-3:]) for point in points]
    assert max(60 * 4 - one for one in unused) == 4 * simulation.series.peaks["used_blocks"]
    assert bool(split.saved_peak) is (FULL in groups)
    means = split.mean_slots()
    assert sum(means.values()) == pytest.approx(60 * 4)
    busy = means["live"] + means["shared"] + means["tail"] + means["reserved"]
    assert busy / 4 == pytest.approx(simulation.series.used_sum / simulation.series.busy_steps)


def test_a_long_series_keeps_whole_moments() -> None:
    series = SplitSeries(limit=4)
    for step in range(10):
        live = 3 if step in (2, 9) else step % 2
        series.add(step, PoolSplit(live=live, shared=0, tail=0, reserved=0, state=0, cached=1,
                                   free=8 - live, null=1, null_entries=step,
                                   saved_blocks=9 - step))  # fmt: skip
    # Ten steps in stretches of four: 0 to 3, 4 to 7, 8 and 9.
    assert [(point.step, point.slots[0]) for point in series.points()] == [(2, 3), (5, 1), (9, 3)]
    assert all(sum(point.slots) == 10 for point in series.points())
    assert series.busy_steps == len([1, 2, 3, 5, 7, 9])
    assert series.mean_slots()["live"] == (1 + 3 + 1 + 1 + 1 + 3) / 6
    assert series.mean_null_entries == (1 + 2 + 3 + 5 + 7 + 9) / 6
    assert series.mean_saved_blocks == (8 + 7 + 6 + 4 + 2 + 0) / 6
    assert series.saved_peak == 9
    assert series.mean_shares()["live"] == 1
