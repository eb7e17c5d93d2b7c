"""The block pool as vLLM keeps it: free queue, reference counts, blocks by prefix."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

#: Prefix key and cache group: the same tokens have one block per group.
GroupKey: TypeAlias = tuple[int, int]

NULL = 0


class BlockPool:
    """Blocks 1 to ``num_blocks - 1``; block 0 is the null block that pads tables.

    The free queue is in order of eviction. Blocks without a prefix go back to its front, the
    others to its back, where they stay findable until they are handed out again: eviction
    happens on hand-out and nowhere else.

    Attributes:
        by_key: Blocks of every findable prefix, the first registered first. Equal blocks are
            kept, not merged.
        num_cached_free: Findable blocks in the free queue.
        num_shared: Blocks with more than one holder.
        evicted: Findable blocks that were handed out so far.
    """

    def __init__(self, num_blocks: int) -> None:
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(1, num_blocks))
        self._holders = [0] * num_blocks
        self._key_of: list[GroupKey | None] = [None] * num_blocks
        self.by_key: dict[GroupKey, dict[int, None]] = {}
        self.num_cached_free = 0
        self.num_shared = 0
        self.evicted = 0

    @property
    def num_free(self) -> int:
        """Blocks in the free queue, findable ones included."""
        return len(self._free)

    def free_queue(self) -> list[int]:
        """Return the free blocks in the order in which they will be handed out."""
        return list(self._free)

    @property
    def num_cached(self) -> int:
        """Prefixes that can be found."""
        return len(self.by_key)

    def holders(self, block: int) -> int:
        """Return how many tables hold a block."""
        return self._holders[block]

    def key_of(self, block: int) -> GroupKey | None:
        """Return the prefix by which a block can be found."""
        return self._key_of[block]

    def find(self, key: GroupKey) -> int | None:
        """Return a block with that prefix."""
        blocks = self.by_key.get(key)
        return None if blocks is None else next(iter(blocks))

    def take(self, count: int) -> list[int]:
        """Hand out blocks from the head of the queue; whoever still finds them forgets them.

        Raises:
            KeyError: The queue is shorter.
        """
        blocks = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in blocks:
            self._forget(block)
            self._holders[block] = 1
        return blocks

    def touch(self, blocks: Iterable[int]) -> None:
        """Add a holder to found blocks, wherever they are in the queue."""
        for block in blocks:
            if block == NULL:
                continue
            if self._holders[block] == 0:
                del self._free[block]
                self.num_cached_free -= 1
            self._holders[block] += 1
            self.num_shared += self._holders[block] == 2

    def give_back(self, blocks: Sequence[int]) -> None:
        """Drop one holder of each block; ``blocks`` are in the order of their eviction."""
        unfindable: list[int] = []
        for block in blocks:
            if block == NULL:
                continue
            self._holders[block] -= 1
            self.num_shared -= self._holders[block] == 1
            if self._holders[block] == 0:
                self._free[block] = None
                if self._key_of[block] is None:
                    unfindable.append(block)
                else:
                    self.num_cached_free += 1
        for block in reversed(unfindable):
            self._free.move_to_end(block, last=False)

    def register(self, block: int, key: GroupKey) -> None:
        """Let a held block be found by its prefix."""
        self._key_of[block] = key
        self.by_key.setdefault(key, {})[block] = None

    def _forget(self, block: int) -> None:
        key = self._key_of[block]
        if key is None:
            return
        self._key_of[block] = None
        self.num_cached_free -= 1
        self.evicted += 1
        blocks = self.by_key[key]
        del blocks[block]
        if not blocks:
            del self.by_key[key]
