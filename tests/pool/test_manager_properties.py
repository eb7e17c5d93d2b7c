"""The teaching pool against an independent model, for any sequence of operations."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    precondition,
    rule,
)

from kvbench_pool.manager import BlockManager, PoolExhausted

NUM_BLOCKS = 12


class PoolMachine(RuleBasedStateMachine):
    """Drives a pool and, beside it, a plain list of token serials for every sequence."""

    sequences = Bundle("sequences")

    def __init__(self) -> None:
        super().__init__()
        self.pool: BlockManager | None = None
        self.model: dict[int, list[int]] = {}
        self.names = itertools.count()
        self.serials = itertools.count()

    @precondition(lambda self: self.pool is None)
    @rule(block_size=st.integers(1, 5))
    def make(self, block_size: int) -> None:
        self.pool = BlockManager(NUM_BLOCKS, block_size)

    def _ready(self) -> BlockManager:
        assert self.pool is not None
        return self.pool

    def _say(self, tokens: int) -> list[int]:
        return list(itertools.islice(self.serials, tokens))

    def _snapshot(self) -> object:
        pool = self._ready()
        tables = [(seq, pool.block_table(seq)) for seq in pool.sequences()]
        return tables, pool.ref_counts(), pool.free_block_ids()

    @precondition(lambda self: self.pool is not None)
    @rule(target=sequences, tokens=st.integers(1, 20))
    def allocate(self, tokens: int) -> int:
        name, before = next(self.names), self._snapshot()
        try:
            self._ready().allocate(name, tokens)
        except PoolExhausted:
            assert self._snapshot() == before
            return -1
        self.model[name] = self._say(tokens)
        return name

    @rule(name=sequences, tokens=st.integers(1, 12))
    def append(self, name: int, tokens: int) -> None:
        if name not in self.model:
            return
        before = self._snapshot()
        try:
            self._ready().append(name, tokens)
        except PoolExhausted:
            assert self._snapshot() == before
            return
        self.model[name].extend(self._say(tokens))

    @rule(target=sequences, parent=sequences)
    def fork(self, parent: int) -> int:
        if parent not in self.model:
            return -1
        name, used = next(self.names), self._ready().used_blocks
        self._ready().fork(parent, name)
        assert self._ready().used_blocks == used
        self.model[name] = self.model[parent][:]
        return name

    @rule(name=consumes(sequences))
    def free(self, name: int) -> None:
        if name in self.model:
            self._ready().free(name)
            del self.model[name]

    @invariant()
    def content_equals_the_model(self) -> None:
        if self.pool is not None:
            for name, tokens in self.model.items():
                assert list(self.pool.read(name)) == tokens
                assert len(self.pool.block_table(name)) == self.pool.blocks_for(len(tokens))

    @invariant()
    def no_block_is_both_free_and_referenced(self) -> None:
        if self.pool is not None:
            free, held = set(self.pool.free_block_ids()), set(self.pool.ref_counts())
            assert not free & held
            assert free | held == set(range(NUM_BLOCKS))
            assert len(free) == self.pool.free_blocks

    @invariant()
    def references_equal_table_occurrences(self) -> None:
        if self.pool is not None:
            tables = [self.pool.block_table(name) for name in self.model]
            counts = Counter(itertools.chain.from_iterable(tables))
            assert self.pool.ref_counts() == counts
            assert self.pool.used_blocks == len(counts)
            assert self.pool.shared_saved_blocks == counts.total() - len(counts)
            assert self.pool.peak_used_blocks >= self.pool.used_blocks

    @invariant()
    def filled_slots_equal_distinct_slots(self) -> None:
        if self.pool is not None:
            size = self.pool.block_size
            held = {
                (self.pool.block_table(name)[at // size], at % size)
                for name, tokens in self.model.items()
                for at in range(len(tokens))
            }
            assert self.pool.filled_slots == len(held)
            slots = self.pool.used_blocks * size
            assert self.pool.fragmentation() == (1 - len(held) / slots if slots else 0)

    def teardown(self) -> None:
        if self.pool is not None:
            for name in list(self.model):
                self.pool.free(name)
            assert self.pool.used_blocks == 0
            assert self.pool.ref_counts() == {}
            assert self.pool.filled_slots == 0


PoolMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, database=None
)
TestPool = PoolMachine.TestCase
