"""Which blocks of sliding groups stay findable (``prefix_cache_retention_interval``)."""

from __future__ import annotations

from typing import Any

import pytest

from kvbench.errors import KvbenchError
from kvbench_pool.vllm_policy.config import FULL, CacheGroup, GroupKind, PoolConfig
from tests.pool_vllm.test_semantics import Bench

#: A hit needs the two blocks of 4 before it.
WINDOW = CacheGroup(kind=GroupKind.SLIDING, window_tokens=9)


def _bench(interval: int | None, **options: Any) -> Bench:
    groups = options.pop("groups", (WINDOW,))
    return Bench(
        60, block_size=4, prefix_cache_retention_interval=interval, groups=groups, **options
    )


@pytest.mark.parametrize(
    ("interval", "findable"),
    [
        # The prompt again computes its 22nd token: it goes on behind 21 tokens, 5 blocks.
        (0, [4, 5]),
        # Two blocks before every third one, and those.
        (12, [2, 3, 4, 5]),
        # Two blocks before every fourth one, and those.
        (16, [3, 4, 5]),
        (20, [4, 5]),
        # A window of two blocks before every second one is all of them.
        (8, [1, 2, 3, 4, 5]),
        (4, [1, 2, 3, 4, 5]),
        (None, [1, 2, 3, 4, 5]),
    ],
)
def test_a_window_of_blocks_stays_before_every_place_that_is_kept(
    interval: int | None, findable: list[int]
) -> None:
    bench = _bench(interval)
    assert bench.admit(bench.job(range(22))) == [1, 2, 3, 4, 5, 6]
    assert sorted(next(iter(ids)) for ids in bench.cache.pool.by_key.values()) == findable
    assert bench.hit(bench.job(range(22))) == 20
    found = bench.cache.find(bench.job([*range(18), 99, 99, 99]))
    assert bool(found[0]) is (3 in findable)


def test_where_a_request_leaves_a_longer_known_prefix_the_next_one_finds_it() -> None:
    """Full attention knows 3 common blocks; the window kept none of them for the first."""
    bench = _bench(0, groups=(FULL, WINDOW))
    bench.admit(bench.job(range(22)))
    second = bench.job([*range(12), *range(100, 110)])
    assert bench.hit(second) == 0
    assert second.parting_tokens == 12
    bench.admit(second)
    third = bench.job([*range(12), *range(200, 210)])
    assert bench.hit(third) == 12
    assert third.parting_tokens == 0


def test_only_the_chunk_in_hand_has_to_be_found() -> None:
    """Chunks of 8 tokens, blocks of 4: the 14th token sees the block of the tokens 8 to 11."""
    chunked = CacheGroup(kind=GroupKind.CHUNKED, window_tokens=8)
    bench = _bench(0, groups=(FULL, chunked))
    bench.admit(bench.job(range(14)))
    again = bench.job(range(14))
    found = bench.cache.find(again)
    assert found == [[1, 2, 3], [0, 0, 7]]
    assert bench.cache.admit(again, 2, found, others=True)
    assert bench.cache.table(again) == [[1, 2, 3, 9], [0, 0, 7, 10]]


def test_chunks_are_whole_blocks() -> None:
    with pytest.raises(KvbenchError, match="a chunk is 6 tokens; expected whole blocks of 4"):
        _bench(0, groups=(CacheGroup(kind=GroupKind.CHUNKED, window_tokens=6),))


def test_full_attention_keeps_every_block() -> None:
    bench = _bench(0, groups=(FULL,))
    bench.admit(bench.job(range(22)))
    assert bench.cache.pool.num_cached == 5


@pytest.mark.parametrize("interval", [-4, 6])
def test_an_interval_is_whole_blocks(interval: int) -> None:
    with pytest.raises(KvbenchError, match=f"is {interval}; expected 0 or a multiple of the block"):
        PoolConfig(num_blocks=9, block_size=4, prefix_cache_retention_interval=interval)
