"""The teaching pool: worked examples, refusals, exhaustion."""

from __future__ import annotations

import pytest

from kvbench.errors import KvbenchError
from kvbench_pool.manager import BlockManager, Change, PoolError, PoolExhausted

BAD_SIZES = [True, False, 1.0, 2.5, 0, -1, "8", None, [4]]


def test_a_fork_is_free_until_the_first_divergent_write() -> None:
    pool = BlockManager(8, 4)
    assert pool.allocate("A", 6) == (0, 1)
    before = pool.read("A")

    pool.fork("A", "B")
    assert (pool.block_table("A"), pool.block_table("B")) == ((0, 1), (0, 1))
    assert pool.ref_counts() == {0: 2, 1: 2}
    assert pool.used_blocks == 2
    assert pool.shared_saved_blocks == 2

    assert pool.append("B", 1) == Change(new_blocks=(2,), copies=((1, 2),))
    assert (pool.block_table("A"), pool.block_table("B")) == ((0, 1), (0, 2))
    assert pool.ref_counts() == {0: 2, 1: 1, 2: 1}
    assert pool.used_blocks == 3
    assert pool.read("A") == before
    assert pool.read("B")[:6] == before
    assert pool.num_tokens("B") == 7

    pool.free("A")
    assert pool.ref_counts() == {0: 1, 2: 1}
    assert pool.used_blocks == 2
    pool.free("B")
    assert pool.ref_counts() == {}
    assert pool.used_blocks == 0
    assert pool.free_blocks == 8
    assert pool.filled_slots == 0


def test_a_fork_on_a_block_boundary_copies_nothing() -> None:
    pool = BlockManager(8, 4)
    pool.allocate("A", 8)
    pool.fork("A", "B")
    assert pool.append("B", 1) == Change(new_blocks=(2,))
    assert pool.append("A", 1) == Change(new_blocks=(3,))
    assert pool.ref_counts() == {0: 2, 1: 2, 2: 1, 3: 1}
    assert pool.copied_blocks == 0


def test_the_last_owner_of_a_tail_writes_in_place() -> None:
    pool = BlockManager(8, 4)
    pool.allocate("A", 6)
    pool.fork("A", "B")
    pool.append("B", 1)
    assert pool.append("A", 1) == Change()
    assert pool.copied_blocks == 1


def test_4100_tokens_in_blocks_of_16() -> None:
    pool = BlockManager(300, 16)
    assert len(pool.allocate("A", 4100)) == 257
    assert pool.used_blocks * 16 == 4112
    assert pool.filled_slots == 4100
    assert pool.fragmentation() == pytest.approx(12 / 4112)


def test_append_adds_only_the_blocks_that_are_needed() -> None:
    pool = BlockManager(300, 16)
    pool.allocate("A", 4100)
    assert pool.append("A", 12) == Change()
    assert pool.fragmentation() == 0
    assert len(pool.append("A", 1).new_blocks) == 1
    assert len(pool.append("A", 128).new_blocks) == 8


def test_shared_blocks_count_once_in_fragmentation() -> None:
    pool = BlockManager(8, 4)
    pool.allocate("A", 6)
    pool.fork("A", "B")
    assert pool.fragmentation() == pytest.approx(2 / 8)
    pool.append("B", 1)
    assert pool.fragmentation() == pytest.approx(3 / 12)


def test_an_empty_pool_has_no_fragmentation() -> None:
    assert BlockManager(4, 4).fragmentation() == 0


@pytest.mark.parametrize("bad", BAD_SIZES)
@pytest.mark.parametrize("name", ["num_blocks", "block_size"])
def test_pool_sizes_are_refused_by_name(name: str, bad: object) -> None:
    sizes: dict[str, object] = {"num_blocks": 4, "block_size": 4, name: bad}
    with pytest.raises(PoolError, match=name):
        BlockManager(sizes["num_blocks"], sizes["block_size"])  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", BAD_SIZES)
def test_token_counts_are_refused_by_name(bad: object) -> None:
    pool = BlockManager(4, 4)
    with pytest.raises(PoolError, match="tokens"):
        pool.allocate("A", bad)  # type: ignore[arg-type]
    assert pool.sequences() == ()
    pool.allocate("A", 3)
    with pytest.raises(PoolError, match="tokens"):
        pool.append("A", bad)  # type: ignore[arg-type]
    assert pool.num_tokens("A") == 3


def _state(pool: BlockManager) -> tuple[object, ...]:
    tables = {seq: (pool.block_table(seq), pool.read(seq)) for seq in pool.sequences()}
    return tables, pool.ref_counts(), pool.free_block_ids(), pool.filled_slots


def test_exhaustion_changes_nothing() -> None:
    pool = BlockManager(3, 4)
    pool.allocate("A", 6)
    pool.fork("A", "B")
    before = _state(pool)
    with pytest.raises(PoolExhausted, match="needs 2 blocks, 1 of 3 are free") as caught:
        pool.allocate("C", 5)
    assert caught.value.reason == "pool_exhausted"
    with pytest.raises(PoolExhausted, match="append to 'B': needs 2 blocks"):
        pool.append("B", 3)
    assert _state(pool) == before
    pool.append("B", 2)
    with pytest.raises(PoolExhausted):
        pool.append("A", 3)
    assert pool.num_tokens("A") == 6


def test_a_copy_needs_a_free_block() -> None:
    pool = BlockManager(2, 4)
    pool.allocate("A", 6)
    pool.fork("A", "B")
    with pytest.raises(PoolExhausted, match="needs 1 block, 0 of 2 are free"):
        pool.append("B", 1)


@pytest.mark.parametrize("operation", ["append", "free", "block_table", "num_tokens", "read"])
def test_unknown_sequences_are_refused(operation: str) -> None:
    pool = BlockManager(4, 4)
    arguments = ("ghost", 1) if operation == "append" else ("ghost",)
    with pytest.raises(PoolError, match="'ghost' is unknown"):
        getattr(pool, operation)(*arguments)


def test_duplicates_and_unknown_parents_are_refused() -> None:
    pool = BlockManager(4, 4)
    pool.allocate("A", 1)
    with pytest.raises(PoolError, match="'A' exists already"):
        pool.allocate("A", 1)
    with pytest.raises(PoolError, match="'A' exists already"):
        pool.fork("A", "A")
    with pytest.raises(PoolError, match="'ghost' is unknown"):
        pool.fork("ghost", "B")
    assert pool.ref_counts() == {0: 1}


def test_a_freed_sequence_is_gone() -> None:
    pool = BlockManager(4, 4)
    pool.allocate("A", 1)
    pool.free("A")
    with pytest.raises(PoolError, match="'A' is unknown"):
        pool.free("A")


def test_content_is_optional() -> None:
    pool = BlockManager(4, 4, content=False)
    pool.allocate("A", 6)
    with pytest.raises(PoolError, match="keeps no content"):
        pool.read("A")


def test_errors_belong_to_the_family() -> None:
    assert issubclass(PoolError, KvbenchError)
    assert issubclass(PoolExhausted, KvbenchError)
