"""Paged memory without sharing: every sequence has its own blocks."""

from __future__ import annotations

from kvbench_pool.policies.base import Job, PoolShape


class NoSharing:
    """Blocks on demand, each held by one sequence, nothing kept after the end."""

    name = "no_sharing"
    preallocates = False
    cached_slots = 0
    promised_slots = 0
    unshared_slots = 0
    evicted_slots = 0

    def __init__(self, shape: PoolShape) -> None:
        self._shape = shape
        self._free_blocks = shape.num_blocks
        self._blocks: dict[int, int] = {}
        self.live_slots = 0

    @property
    def allocated_slots(self) -> int:
        """Slots of the blocks in use."""
        return (self._shape.num_blocks - self._free_blocks) * self._shape.block_size

    def fits(self, job: Job) -> bool:
        """Whether the final blocks are no more than the pool's."""
        return self._blocks_for(job.final_tokens) <= self._shape.num_blocks

    def admit(self, job: Job) -> int | None:
        """Take the blocks of all known tokens."""
        blocks = self._blocks_for(job.known)
        if blocks > self._free_blocks:
            return None
        self._free_blocks -= blocks
        self._blocks[job.index] = blocks
        return 0

    def room(self, job: Job) -> int:
        """Return the free slots of the last block."""
        return self._blocks[job.index] * self._shape.block_size - job.known

    def grow(self, job: Job) -> bool:
        """Take one block."""
        if not self._free_blocks:
            return False
        self._free_blocks -= 1
        self._blocks[job.index] += 1
        return True

    def wrote(self, slots: int) -> None:
        """Count the tokens."""
        self.live_slots += slots

    def computed(self, job: Job) -> None:
        """Nothing can be reused."""

    def release(self, job: Job) -> None:
        """Return the blocks."""
        self._free_blocks += self._blocks.pop(job.index)
        self.live_slots -= job.computed

    def wasted_outside(self, job: Job) -> int:
        """Any free block serves anybody."""
        return 0

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self._shape.block_size)
