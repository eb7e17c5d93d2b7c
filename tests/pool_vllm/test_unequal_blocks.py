"""Groups whose blocks hold different numbers of tokens, by hand (Gemma 4, MiMo, DeepSeek V4)."""

from __future__ import annotations

from typing import Any

import pytest

from kvbench.errors import KvbenchError
from kvbench_pool.vllm_policy.config import FULL, CacheGroup, GroupKind, PoolConfig
from kvbench_pool.vllm_policy.pool_split import PoolSplit
from kvbench_pool.vllm_policy.scheduler import Scheduler
from tests.pool_vllm.test_semantics import Bench

#: Blocks of 8 under full attention, of the pool's 4 under a window that needs one block before it.
WIDE = CacheGroup(block_size=8)
NARROW = CacheGroup(kind=GroupKind.SLIDING, window_tokens=5)


def _bench(interval: int | None = None, **options: Any) -> Bench:
    known: dict[str, Any] = {"block_size": 4, "groups": (WIDE, NARROW)}
    return Bench(60, prefix_cache_retention_interval=interval, **known | options)


def _findable(bench: Bench) -> list[int]:
    return sorted(block for ids in bench.cache.pool.by_key.values() for block in ids)


def test_every_group_has_tables_of_its_own_size() -> None:
    bench = _bench()
    job = bench.job(range(21))
    bench.admit(job)
    assert bench.cache.table(job) == [[1, 2, 3], [4, 5, 6, 7, 8, 9]]


@pytest.mark.parametrize(
    ("interval", "findable"),
    [
        # 21 tokens: two blocks of 8 end in both groups, with one narrow block before each end.
        (None, [1, 2, 5, 7]),
        # The prompt again goes on behind 20 tokens, of which 16 end blocks of both.
        (0, [1, 2, 7]),
        (8, [1, 2, 5, 7]),
        (16, [1, 2, 7]),
        # 24 tokens never come together; the end of the prompt is kept all the same.
        (24, [1, 2, 7]),
    ],
)
def test_found_is_what_ends_blocks_of_every_group(
    interval: int | None, findable: list[int]
) -> None:
    bench = _bench(interval)
    bench.admit(bench.job(range(21)))
    assert _findable(bench) == findable
    again = bench.job(range(21))
    found = bench.cache.find(again)
    assert found == [[1, 2], [0, 0, 0, 7]]
    assert bench.cache.found_tokens(found) == 16
    common = bench.job([*range(15), 99, 99, 99])
    assert bench.hit(common) == (8 if 5 in findable else 0)
    assert common.parting_tokens == (0 if 5 in findable else 8)


def test_full_attention_in_narrow_blocks_ends_where_wide_windows_do() -> None:
    """21 tokens fill 5 blocks of 4; a window of 9 in blocks of 8 needs one, and knows of 16."""
    wide_window = CacheGroup(kind=GroupKind.SLIDING, window_tokens=9, block_size=8)
    bench = _bench(0, groups=(FULL, wide_window))
    bench.admit(bench.job(range(21)))
    # Tables: 1 to 6 and 7 to 9. Of the window only the block before the prompt's end stays.
    assert _findable(bench) == [1, 2, 3, 4, 8]
    assert bench.cache.find(bench.job(range(21))) == [[1, 2, 3, 4], [0, 8]]
    # 12 tokens are known in narrow blocks, of which 8 end a wide one that nobody kept.
    common = bench.job([*range(12), *range(99, 108)])
    assert (bench.hit(common), common.parting_tokens) == (0, 8)
    bench.admit(common)
    again = bench.job([*range(12), *range(200, 209)])
    assert (bench.hit(again), again.parting_tokens) == (8, 0)


def test_a_window_is_not_found_before_an_end_that_not_all_groups_have() -> None:
    """Ten tokens of window need 3 blocks of 4: those before token 20 do not count, 16 do."""
    wide_window = CacheGroup(kind=GroupKind.SLIDING, window_tokens=10)
    bench = _bench(groups=(wide_window, WIDE))
    job = bench.job(range(25))
    bench.admit(job)
    assert bench.cache.table(job) == [[1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11]]
    bench.cache.release(job)
    # Free queue: tails that nobody finds, the blocks never used, then each group's blocks from
    # its tail on: the window's sixth goes first.
    bench.cache.pool.take(len(bench.free) - 8)
    assert _findable(bench) == [1, 2, 3, 4, 5, 8, 9, 10]
    assert bench.cache.find(bench.job(range(25))) == [[0, 2, 3, 4], [8, 9]]


def test_blocks_that_do_not_divide_each_other_meet_at_their_common_multiple() -> None:
    """Blocks of 6 and 4 tokens meet every 12; a prefix key covers 2 tokens."""
    bench = _bench(groups=(CacheGroup(block_size=6), NARROW))
    assert (bench.config.scheduler_block_size, bench.config.hash_block_size) == (12, 2)
    bench.admit(bench.job(range(14)))
    assert bench.cache.find(bench.job([*range(12), 99, 99])) == [[1, 2], [0, 0, 6]]
    assert bench.hit(bench.job([*range(11), 99, 99, 99])) == 0


def test_a_window_wider_than_a_common_block_keeps_all_its_blocks() -> None:
    """Ten tokens of window need three blocks of 4, and two of them lie between common ends."""
    wide_window = CacheGroup(kind=GroupKind.SLIDING, window_tokens=10)
    bench = _bench(groups=(WIDE, wide_window))
    bench.admit(bench.job(range(25)))
    # Tables: 1 to 4 and 5 to 11; 24 tokens end blocks of both.
    assert _findable(bench) == [1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert bench.cache.find(bench.job(range(25))) == [[1, 2, 3], [0, 0, 0, 8, 9, 10]]


def test_the_gate_asks_for_a_window_in_blocks_of_its_group() -> None:
    """40 tokens: 5 wide blocks, and of the window ceil((4 + 8) / 4) + 1 = 4 narrow ones."""
    options = {"max_num_seqs": 1, "max_num_batched_tokens": 8}
    for num_blocks, fits in ((1 + 5 + 4, True), (5 + 4, False)):
        bench = Bench(num_blocks, block_size=4, groups=(WIDE, NARROW), **options)
        job = bench.job(range(40))
        assert bench.cache.admit(job, 8, bench.cache.find(job), others=False) is fits


def test_a_token_takes_more_slots_where_a_block_holds_fewer() -> None:
    """A block is 8 slots: 10 tokens are 10 in two wide blocks and 20 in three narrow ones."""
    scheduler = Scheduler(PoolConfig(num_blocks=12, block_size=4, groups=(WIDE, NARROW)))
    bench = _bench()
    scheduler.waiting.append(bench.job(range(10)))
    scheduler.schedule()
    assert scheduler.cache.split(scheduler.running) == PoolSplit(
        live=10 + 20,
        shared=0,
        tail=6 + 4,
        reserved=0,
        state=0,
        cached=0,
        free=6 * 8,
        null=8,
        null_entries=0,
        saved_blocks=0,
    )


@pytest.mark.parametrize(
    ("groups", "options", "message"),
    [
        (
            (WIDE, CacheGroup(kind=GroupKind.CHUNKED, window_tokens=8)),
            {},
            r"blocks of \[4, 8\] tokens in one pool is simulated for full and sliding",
        ),
        (
            (WIDE, CacheGroup(kind=GroupKind.STATE), NARROW),
            {},
            r"blocks of \[4, 8\] tokens in one pool is simulated for full and sliding",
        ),
        ((FULL, CacheGroup(block_size=8)), {"prefix_cache_retention_interval": 12}, r"size \(8\)"),
    ],
)
def test_what_is_not_simulated(
    groups: tuple[CacheGroup, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(KvbenchError, match=message):
        PoolConfig(num_blocks=9, block_size=4, groups=groups, **options)


def test_without_prefix_caching_states_and_chunks_go_with_any_block() -> None:
    groups = (WIDE, CacheGroup(kind=GroupKind.STATE, fixed_blocks=2), NARROW)
    bench = _bench(groups=groups, enable_prefix_caching=False)
    job = bench.job(range(9))
    bench.admit(job)
    assert bench.cache.table(job) == [[1, 2], [3, 4], [5, 6, 7]]


def test_a_block_is_at_least_one_token() -> None:
    with pytest.raises(KvbenchError, match="a group's block is at least 1 token, got 0"):
        CacheGroup(block_size=0)
