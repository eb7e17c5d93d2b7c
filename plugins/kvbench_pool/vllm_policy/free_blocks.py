"""The free queue and the prefix map of one full-attention group, as arrays worked on in batches.

The same decisions as ``block_pool.BlockPool``, for whole block tables at a time: an operation on
a request costs a few array passes, whatever its length.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kvbench_pool.vllm_policy.prefix_keys import KeyMap, Keys, renumbered

# 64 bits, since numpy scatters by indices of any other width ten times slower.
Blocks = npt.NDArray[np.int64]

#: Blocks handed out at once from which on arrays are faster than a loop.
_MANY = 8

#: Blocks of a prefix that are looked up at once at first; most prefixes end among them.
_FIRST_LOOK = 64

NO_BLOCKS: Blocks = np.empty(0, dtype=np.int64)


class FreeBlocks:
    """Free blocks in order of eviction, and blocks by prefix key.

    The queue is a stack of unfindable blocks before a ring of findable ones. A block that is
    touched leaves a hole (0) in the ring. ``position`` is a block's place in the ring; a place
    before the ring's head means that it is not there. ``owner`` names the block of a key, which
    holds only while that block still has the key: handing a block out clears its own key and
    leaves the far larger map alone. A block that only its own request could find, which holds it
    or has ended, has no key: nobody looks it up.

    Attributes:
        owner: The blocks by key.
        num_free: Blocks in the queue.
        num_findable: Findable ones among them, all of them in the ring.
        num_cached: Distinct prefixes that can be found.
        num_shared: Blocks with several holders.
        evicted: Findable blocks that were handed out so far.
    """

    def __init__(self, num_blocks: int, owner: KeyMap | None = None) -> None:
        """Start with every block free.

        Args:
            num_blocks: Blocks of the pool, the null block among them.
            owner: Zeros for every key that will be used; ``reserve_keys`` makes room without it.
        """
        self._stack = list(range(num_blocks - 1, 0, -1))
        self._ring: Blocks = np.zeros(max(4 * num_blocks, 1024), dtype=np.int64)
        self._head = self._tail = 1
        self._position: Blocks = np.zeros(num_blocks, dtype=np.int64)
        self._sharers: Blocks = np.zeros(num_blocks, dtype=np.int64)
        self._key: Keys = np.zeros(num_blocks, dtype=np.int64)
        self.owner = np.zeros(1 << 20, dtype=np.int32) if owner is None else owner
        # No block ever had a greater key.
        self._newest = 0
        self._twins: dict[int, list[int]] = {}
        self._has_twin = np.zeros(num_blocks, dtype=np.bool_)
        self.num_free = num_blocks - 1
        self.num_findable = 0
        self.num_cached = 0
        self.num_shared = 0
        self.evicted = 0
        self._views()

    def _views(self) -> None:
        # Single elements are read and written three times faster through a memoryview.
        self._ring_at = self._ring.data
        self._position_at = self._position.data
        self._key_at = self._key.data
        self._has_twin_at = self._has_twin.data
        self._owner_at = self.owner.data

    def reserve_keys(self, next_key: int) -> None:
        """Make room for keys below ``next_key``."""
        if next_key >= len(self.owner):
            grown = np.zeros(max(next_key + 1, 2 * len(self.owner)), dtype=np.int32)
            grown[: len(self.owner)] = self.owner
            self.owner = grown
            self._owner_at = grown.data

    def live_keys(self) -> Keys:
        """Return the keys of all blocks."""
        return self._key[self._key > 0]

    def renumber(self, stay: Keys) -> None:
        """Take over new numbers of the keys, as ``renumbered`` gives them."""
        owner = np.zeros(max(1 << 20, 2 * len(stay)), dtype=np.int32)
        owner[1 : len(stay) + 1] = self.owner[stay]
        self.owner = owner
        self._key[:] = renumbered(self._key, stay)
        self._newest = len(stay)
        shared = np.array(list(self._twins), dtype=np.int64)
        self._twins = dict(
            zip(renumbered(shared, stay).tolist(), self._twins.values(), strict=True)
        )
        self._views()

    def queue(self) -> list[int]:
        """Return the free blocks in the order in which they will be handed out."""
        ring = self._ring[self._head : self._tail]
        findable: list[int] = ring[ring > 0].tolist()
        return self._stack[::-1] + findable

    def find(self, keys: Keys) -> Blocks:
        """Return the blocks of the longest findable run of ``keys``."""
        if not len(keys) or not self._holder(int(keys[0])):
            return NO_BLOCKS
        found: list[Blocks] = []
        start, reach = 0, _FIRST_LOOK
        while start < len(keys):
            looked = keys[start : start + reach]
            blocks: Blocks = self.owner[looked].astype(np.int64)
            missing = self._key[blocks] != looked
            end = int(missing.argmax())
            if missing[end]:
                found.append(blocks[:end])
                break
            found.append(blocks)
            start, reach = start + reach, 2 * reach
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _holder(self, key: int) -> int:
        """Return the block that a key is found in, 0 if there is none."""
        block = self._owner_at[key]
        return block if self._key_at[block] == key else 0

    def count_free(self, blocks: Blocks) -> int:
        """Count the found blocks that wait in the queue."""
        return int(np.count_nonzero(self._position[blocks] >= self._head))

    def touch(self, blocks: Blocks) -> None:
        """Add a holder to found blocks."""
        places = self._position[blocks]
        waiting = places >= self._head
        woken = int(np.count_nonzero(waiting))
        if woken < len(blocks):
            held = blocks[~waiting] if woken else blocks
            sharers = self._sharers[held]
            self.num_shared += len(held) - int(np.count_nonzero(sharers))
            self._sharers[held] = sharers + 1
        if woken:
            self._ring[places[waiting]] = 0
            self._position[blocks] = 0
            self.num_free -= woken
            self.num_findable -= woken

    def takes_twins(self, count: int) -> bool:
        """Whether one of the next ``count`` blocks is not the only one with its prefix."""
        if not self._twins:
            return False
        return bool(self._has_twin[self._window(min(count, self.num_findable))].any())

    def take_few(self, count: int) -> list[int]:
        """Hand out blocks as a list."""
        self.num_free -= count
        stack = self._stack
        blocks: list[int] = []
        while count and stack:
            blocks.append(stack.pop())
            count -= 1
        if not count:
            return blocks
        if count > _MANY or self._twins:
            table = np.empty(count, dtype=np.int64)
            self._take_from_ring(table)
            return blocks + table.tolist()
        self.num_findable -= count
        self.num_cached -= count
        self.evicted += count
        head = self._head
        taken: list[int] = []
        while missing := count - len(taken):
            taken += [block for block in self._ring_at[head : head + missing] if block]
            head += missing
        self._head = head
        keys = self._key_at
        for block in taken:
            keys[block] = 0
        return blocks + taken if blocks else taken

    def take(self, table: Blocks) -> None:
        """Fill a part of a table with blocks from the head of the queue, which must have them."""
        self.num_free -= len(table)
        stack = self._stack
        if stack:
            unfindable = min(len(table), len(stack))
            table[:unfindable] = stack[-unfindable:][::-1]
            del stack[-unfindable:]
            table = table[unfindable:]
        if len(table):
            self._take_from_ring(table)

    def _take_from_ring(self, table: Blocks) -> None:
        count = len(table)
        window = self._window(count)
        table[:] = window if len(window) == count else window[window > 0][:count]
        self._head = self._position_at[table[-1]] + 1
        self.num_findable -= count
        self.evicted += count
        self._forget_all(table)

    def _window(self, count: int) -> Blocks:
        """Return a head of the ring with at least ``count`` blocks, holes included."""
        head, reach = self._head, count
        window = self._ring[head : head + reach]
        while (present := int(np.count_nonzero(window))) < count:
            reach += max(count - present, reach)
            window = self._ring[head : head + reach]
        return window

    def _forget_all(self, blocks: Blocks) -> None:
        if self._twins:
            alike = blocks[self._has_twin[blocks]]
            for block in alike.tolist():
                self._forget_twin(block, self._key_at[block])
            self.num_cached += len(alike)
        self._key[blocks] = 0
        self.num_cached -= len(blocks)

    def _forget_twin(self, block: int, key: int) -> None:
        """Drop one of several blocks of a prefix; the first of the others is found from now on."""
        twins = self._twins.get(key)
        if twins is None:
            # The others of a batch went before it.
            self.num_cached -= 1
            return
        twins.remove(block)
        self._has_twin[block] = False
        self._owner_at[key] = twins[0]
        if len(twins) == 1:
            self._has_twin[twins[0]] = False
            del self._twins[key]

    def register(self, blocks: Blocks, keys: Keys) -> None:
        """Let some held blocks be found; the first block of a prefix is the one that is found.

        Args:
            blocks: The blocks.
            keys: Their keys, which increase.
        """
        first, last = int(keys[0]), int(keys[-1])
        # The keys of new text follow each other, as in a slice.
        places = slice(first, last + 1) if last - first == len(keys) - 1 else keys
        if first <= self._newest:
            taken = self._key[self.owner[places].astype(np.int64)] == keys
            if np.count_nonzero(taken):
                self._register_twins(blocks[taken], keys[taken])
                blocks, keys = blocks[~taken], keys[~taken]
                places = keys
        self._newest = max(self._newest, last)
        self._key[blocks] = keys
        self.owner[places] = blocks
        self.num_cached += len(keys)

    def _register_twins(self, blocks: Blocks, keys: Keys) -> None:
        for block, key in zip(blocks.tolist(), keys.tolist(), strict=True):
            self._register_twin(block, key)

    def register_one(self, block: int, key: int) -> None:
        """Let one held block be found."""
        if self._holder(key):
            self._register_twin(block, key)
            return
        self._newest = max(self._newest, key)
        self._key_at[block] = key
        self._owner_at[key] = block
        self.num_cached += 1

    def _register_twin(self, block: int, key: int) -> None:
        self._key_at[block] = key
        first = int(self._owner_at[key])
        self._twins.setdefault(key, [first]).append(block)
        self._has_twin[first] = self._has_twin[block] = True

    def publish(self, blocks: Blocks, keys: Keys) -> None:
        """Give findable private blocks keys of their own; they were counted before."""
        self._key[blocks] = keys
        self.owner[keys] = blocks
        self._newest = max(self._newest, int(keys[-1]))

    def give_back(self, table: Blocks, findable: int, public: int) -> None:
        """Free a table, the tail first.

        Args:
            table: The blocks in order of their tokens.
            findable: Leading blocks that could be found, be it only by their own request.
            public: Leading blocks that are registered.
        """
        kept = self._unshared(table[:findable], public) if public else table[:findable]
        # The unfindable tail goes before everything else, its last block foremost.
        self._stack += table[findable:].tolist()
        self._append_reversed(kept)
        self.num_free += len(table) - findable + len(kept)

    def _unshared(self, table: Blocks, public: int) -> Blocks:
        """Drop a holder of every shared block; return the blocks that nobody else holds."""
        if self._twins:
            sharers = self._sharers[table[:public]]
            shared = sharers > 0
            self._drop_holder(table[:public][shared], sharers[shared])
            return np.concatenate((table[:public][~shared], table[public:]))
        # Who holds a block holds the one before it, or a twin of that.
        reach = min(public, _FIRST_LOOK)
        sharers = self._sharers[table[:reach]]
        while (count := int(np.count_nonzero(sharers))) == reach < public:
            reach = min(public, 2 * reach)
            sharers = self._sharers[table[:reach]]
        if count:
            self._drop_holder(table[:count], sharers[:count])
        return table[count:]

    def _drop_holder(self, blocks: Blocks, sharers: Blocks) -> None:
        fewer = sharers - 1
        self.num_shared -= len(blocks) - int(np.count_nonzero(fewer))
        self._sharers[blocks] = fewer

    def _append_reversed(self, blocks: Blocks) -> None:
        count = len(blocks)
        if self._tail + count > len(self._ring):
            self._compact()
        tail = self._tail
        end = self._tail = tail + count
        self._ring[tail:end] = blocks[::-1]
        # An index that runs backwards costs numpy three times as much as one that does not.
        self._position[blocks] = np.arange(end - 1, tail - 1, -1, dtype=np.int64)
        self.num_findable += count

    def _compact(self) -> None:
        """Move the ring's blocks to its start, without the holes."""
        ring = self._ring[self._head : self._tail]
        blocks = ring[ring > 0]
        self._ring[:] = 0
        self._position[:] = 0
        self._ring[1 : len(blocks) + 1] = blocks
        self._position[blocks] = np.arange(1, len(blocks) + 1, dtype=np.int64)
        self._head, self._tail = 1, len(blocks) + 1
