"""Sharing by fork and copy-on-write, on the teaching pool: for workloads that state parents."""

from __future__ import annotations

from collections import Counter

from kvbench_pool.manager import BlockManager, PoolExhausted
from kvbench_pool.policies.base import Job, PoolShape


class Forked:
    """A child forks from its finished parent, as long as that one's blocks are still there.

    Finished sequences are parked; those that nobody forked from for longest are freed when blocks
    are short. The first write of
    a child into its parent's partly filled last block copies that block.
    """

    name = "fork"
    preallocates = False
    promised_slots = 0

    def __init__(self, shape: PoolShape) -> None:
        self._shape = shape
        self._manager = BlockManager(shape.num_blocks, shape.block_size, content=False)
        self._parked: dict[int, None] = {}
        self._holders: Counter[int] = Counter()
        self._children: Counter[int] = Counter()
        self._sources: dict[int, int] = {}
        self._ancestors: dict[int, int | None] = {}
        self._table_slots = 0
        self._written = 0
        self._evicted = 0

    @property
    def allocated_slots(self) -> int:
        """Slots of the blocks that running jobs hold."""
        return len(self._holders) * self._shape.block_size

    @property
    def live_slots(self) -> int:
        """Allocated slots without the unused rest of each job's own last block."""
        return self.allocated_slots - (self._table_slots - self._written)

    @property
    def cached_slots(self) -> int:
        """Slots of the blocks that only parked sequences hold."""
        return self._manager.used_blocks * self._shape.block_size - self.allocated_slots

    @property
    def unshared_slots(self) -> int:
        """Slots that the running jobs' tables count more than once."""
        return self._table_slots - self.allocated_slots

    @property
    def evicted_slots(self) -> int:
        """Slots that came free when parked sequences were dropped."""
        return self._evicted * self._shape.block_size

    def fits(self, job: Job) -> bool:
        """Whether the final blocks are no more than the pool's."""
        return self._manager.blocks_for(job.final_tokens) <= self._shape.num_blocks

    def admit(self, job: Job) -> int | None:
        """Fork from the parent, or allocate, dropping parked sequences while blocks are short."""
        self._ancestors.setdefault(job.index, job.request.parent)
        if self._manager.blocks_for(job.known) > self._manager.num_blocks - self._pinned(job):
            return None
        while True:
            try:
                cached = self._place(job, self._source(job))
            except PoolExhausted:
                if not self._drop_oldest():
                    return None
                continue
            self._hold(job.index)
            self._written += cached
            return cached

    def _source(self, job: Job) -> int | None:
        """Return the nearest ancestor that can be forked."""
        source = job.request.parent
        while source is not None and source not in self._parked:
            source = self._ancestors.get(source)
        return source

    def _pinned(self, job: Job) -> int:
        """Blocks that running jobs hold and that ``job`` would not share with them."""
        source = self._source(job)
        table = () if source is None else self._manager.block_table(source)
        return len(self._holders) - sum(block in self._holders for block in table)

    def room(self, job: Job) -> int:
        """Return the free slots of the last block."""
        blocks = self._manager.blocks_for(self._manager.num_tokens(job.index))
        return blocks * self._shape.block_size - job.known

    def grow(self, job: Job) -> bool:
        """Take one block, dropping parked sequences while there is none."""
        while not self._manager.free_blocks:
            if not self._drop_oldest():
                return False
        change = self._manager.append(job.index, job.known - self._manager.num_tokens(job.index))
        self._holders.update(change.new_blocks)
        self._table_slots += len(change.new_blocks) * self._shape.block_size
        return True

    def wrote(self, slots: int) -> None:
        """Count the tokens."""
        self._written += slots

    def computed(self, job: Job) -> None:
        """A sequence can be forked when it is finished, not before."""

    def release(self, job: Job) -> None:
        """Park a finished sequence; free a preempted one."""
        table = self._manager.block_table(job.index)
        for block in table:
            self._let_go(block)
        self._table_slots -= len(table) * self._shape.block_size
        self._written -= job.computed
        if job.computed < job.final_tokens:
            self._free(job.index)
            return
        missing = job.final_tokens - self._manager.num_tokens(job.index)
        if missing:
            self._manager.append(job.index, missing)
        self._parked[job.index] = None

    def wasted_outside(self, job: Job) -> int:
        """Any free block serves anybody."""
        return 0

    def _place(self, job: Job, source: int | None) -> int:
        shared = self._manager.num_tokens(source) if source is not None else job.known
        if source is None or shared >= job.known:
            self._manager.allocate(job.index, job.known)
            return 0
        self._manager.fork(source, job.index)
        try:
            self._manager.append(job.index, job.known - shared)
        except PoolExhausted:
            self._manager.free(job.index)
            raise
        self._parked[source] = self._parked.pop(source)
        self._sources[job.index] = source
        self._children[source] += 1
        return shared

    def _hold(self, index: int) -> None:
        table = self._manager.block_table(index)
        self._holders.update(table)
        self._table_slots += len(table) * self._shape.block_size

    def _let_go(self, block: int) -> None:
        self._holders[block] -= 1
        if not self._holders[block]:
            del self._holders[block]

    def _drop_oldest(self) -> bool:
        """Free one parked sequence; ``False`` when there is none."""
        if not self._parked:
            return False
        childless = (index for index in self._parked if not self._children[index])
        oldest = next(childless, next(iter(self._parked)))
        before = self._manager.free_blocks
        self._free(oldest)
        del self._parked[oldest]
        self._evicted += self._manager.free_blocks - before
        return True

    def _free(self, index: int) -> None:
        self._manager.free(index)
        source = self._sources.pop(index, None)
        if source is not None:
            self._children[source] -= 1
