"""Requests that the pool can never hold are left out and counted; the others run on."""

from __future__ import annotations

from typing import Any

import pytest

from kvbench.workload.request import Request
from kvbench_pool.vllm_policy.config import CacheGroup, GroupKind, PoolConfig
from kvbench_pool.vllm_policy.stepwise import run_stepwise

#: Blocks of 8 under full attention, of the pool's 4 under a window of 5.
GROUPS = (CacheGroup(block_size=8), CacheGroup(kind=GroupKind.SLIDING, window_tokens=5))
SMALL, LARGE = (12, 2), (40, 1)


def _config(usable: int, **options: Any) -> PoolConfig:
    known = {"block_size": 4, "groups": GROUPS, "max_num_seqs": 2, "max_num_batched_tokens": 8}
    return PoolConfig(num_blocks=1 + usable, **known | options)


def _requests(*sizes: tuple[int, int]) -> list[Request]:
    return [
        Request(arrival_ms=0, prompt_tokens=prompt, output_tokens=output)
        for prompt, output in sizes
    ]


@pytest.mark.parametrize(
    ("tokens", "ahead", "least"),
    [
        # The last step computes the 24th of 25 tokens: 3 wide blocks; 23 tokens computed before,
        # of which it sees the 4 last ones, in narrow blocks 4 and 5.
        ((20, 5), 0, 3 + 2),
        # Three slots more end in the 4th wide and the 7th narrow block.
        ((20, 5), 3, 4 + 3),
        # One step computes the 40 tokens' last one at most: its window begins in block 8.
        (LARGE, 0, 5 + 2),
    ],
)
def test_what_no_schedule_can_do_without(tokens: tuple[int, int], ahead: int, least: int) -> None:
    assert _config(least, lookahead_tokens=ahead).fits(*tokens)
    assert not _config(least - 1, lookahead_tokens=ahead).fits(*tokens)


def test_one_that_no_schedule_can_hold_never_joins() -> None:
    simulation = run_stepwise(_requests(SMALL, LARGE, SMALL), _config(6))
    assert (simulation.counts.requests, simulation.counts.dropped) == (2, 1)
    assert [record.index for record in simulation.records] == [0, 2]
    assert simulation.counts.preemptions == 0


def test_one_that_an_empty_pool_does_not_admit_leaves_the_queue() -> None:
    """The gate asks for 5 wide blocks and ceil((4 + 8) / 4) + 1 narrow ones, one too many."""
    simulation = run_stepwise(_requests(SMALL, LARGE, SMALL), _config(8))
    assert (simulation.counts.requests, simulation.counts.dropped) == (2, 1)
    # The second small one waits until the pool is empty and the large one has left.
    first, last = simulation.records
    assert (first.index, last.index) == (0, 2)
    assert last.first_step == first.finish_step + 2
    assert sorted(simulation.free_queue) == list(range(1, 9))


def test_admitted_once_it_fits_exactly() -> None:
    simulation = run_stepwise(_requests(SMALL, LARGE, SMALL), _config(9))
    assert (simulation.counts.requests, simulation.counts.dropped) == (3, 0)


@pytest.mark.parametrize("is_async", [False, True])
def test_one_that_fails_alone_again_and_again_is_given_up(is_async: bool) -> None:
    """32 of 40 tokens fill 4 wide and 3 narrow blocks; the last 8 need a fifth wide one."""
    config = _config(
        7,
        reserve_full_prompt=False,
        enable_prefix_caching=False,
        async_scheduling=is_async,
    )
    simulation = run_stepwise(_requests(LARGE, SMALL), config)
    assert (simulation.counts.requests, simulation.counts.dropped) == (1, 1)
    assert [record.index for record in simulation.records] == [1]
    assert simulation.counts.preemptions == 3
