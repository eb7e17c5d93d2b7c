"""A paged KV block manager to learn from: reference counts, fork, copy-on-write.

The public operations are the field's: ``allocate`` a sequence, ``append`` tokens to it, ``fork``
it, ``free`` it. Blocks that two sequences share are never written; the first write into a shared,
partly filled last block copies it (copy-on-write). Nothing here knows a scheduler or bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from kvbench.errors import CellFailed, KvbenchError
from kvbench.names import counted


class PoolError(KvbenchError, ValueError):
    """An operation that makes no sense: a wrong size, an unknown or a duplicate sequence."""


class PoolExhausted(CellFailed):
    """Fewer free blocks than an operation needs; the operation changed nothing."""


def positive_int(name: str, value: object) -> int:
    """Return ``value`` if it is an ``int`` of at least 1, and not a ``bool``.

    Raises:
        PoolError: It is not; the message names the argument.
    """
    if type(value) is not int or value < 1:
        raise PoolError(f"{name} is {value!r}; expected a positive integer")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an engine has to do for one operation.

    Attributes:
        new_blocks: Blocks added to the table, copies included.
        copies: (source, destination) of blocks to copy before anything is written.
    """

    new_blocks: tuple[int, ...] = ()
    copies: tuple[tuple[int, int], ...] = ()


@dataclass(slots=True)
class _Sequence:
    tokens: int
    table: list[int]


class BlockManager:
    """Hands out fixed-size blocks of one pool to sequences.

    Args:
        num_blocks: Blocks in the pool.
        block_size: Tokens per block.
        content: Keep what every slot holds, so that ``read`` can show it; a replay of lengths
            needs none.

    Raises:
        PoolError: A size is not a positive integer.
    """

    def __init__(self, num_blocks: int, block_size: int, *, content: bool = True) -> None:
        self.num_blocks = positive_int("num_blocks", num_blocks)
        self.block_size = positive_int("block_size", block_size)
        self._free = list(range(num_blocks - 1, -1, -1))
        self._refs = [0] * num_blocks
        self._filled = [0] * num_blocks
        self._sequences: dict[Hashable, _Sequence] = {}
        self._slots = array("q", bytes(8 * num_blocks * block_size)) if content else None
        self._written = 0
        self.filled_slots = 0
        self.copied_blocks = 0
        self.peak_used_blocks = 0

    # --- operations ---------------------------------------------------------------------------

    def allocate(self, seq_id: Hashable, tokens: int) -> tuple[int, ...]:
        """Give a new sequence the blocks of its first ``tokens`` tokens; return its table.

        Raises:
            PoolError: ``tokens`` is not a positive integer, or the sequence exists.
            PoolExhausted: Too few free blocks; nothing changed.
        """
        positive_int("tokens", tokens)
        self._refuse_known(seq_id)
        self._require(self.blocks_for(tokens), f"allocate {seq_id!r}")
        sequence = self._sequences[seq_id] = _Sequence(0, [])
        self._extend(sequence, tokens)
        return tuple(sequence.table)

    def append(self, seq_id: Hashable, tokens: int) -> Change:
        """Write ``tokens`` more tokens, adding only the blocks that are needed.

        A last block that is partly filled and shared is copied first, so that no other
        sequence sees the write.

        Raises:
            PoolError: ``tokens`` is not a positive integer, or the sequence is unknown.
            PoolExhausted: Too few free blocks; nothing changed.
        """
        positive_int("tokens", tokens)
        sequence = self._known(seq_id)
        copy = self._tail_is_shared(sequence)
        needed = self.blocks_for(sequence.tokens + tokens) - len(sequence.table)
        self._require(needed + copy, f"append to {seq_id!r}")
        copies = (self._copy_tail(sequence),) if copy else ()
        added = self._extend(sequence, tokens)
        return Change(new_blocks=(*(to for _, to in copies), *added), copies=copies)

    def fork(self, parent_id: Hashable, child_id: Hashable) -> None:
        """Let a new sequence share everything that ``parent_id`` holds; no block is taken.

        Raises:
            PoolError: The parent is unknown or the child exists.
        """
        parent = self._known(parent_id)
        self._refuse_known(child_id)
        for block in parent.table:
            self._refs[block] += 1
        self._sequences[child_id] = _Sequence(parent.tokens, parent.table[:])

    def free(self, seq_id: Hashable) -> None:
        """Drop a sequence; its blocks return to the pool when nobody else holds them.

        Raises:
            PoolError: The sequence is unknown.
        """
        for block in reversed(self._known(seq_id).table):
            self._release(block)
        del self._sequences[seq_id]

    # --- figures ------------------------------------------------------------------------------

    def blocks_for(self, tokens: int) -> int:
        """Return the blocks that ``tokens`` tokens fill or start."""
        return -(-tokens // self.block_size)

    def block_table(self, seq_id: Hashable) -> tuple[int, ...]:
        """Return the physical blocks of a sequence, in token order.

        Raises:
            PoolError: The sequence is unknown.
        """
        return tuple(self._known(seq_id).table)

    def num_tokens(self, seq_id: Hashable) -> int:
        """Return the tokens that a sequence holds.

        Raises:
            PoolError: The sequence is unknown.
        """
        return self._known(seq_id).tokens

    def sequences(self) -> tuple[Hashable, ...]:
        """Return the ids of all sequences, oldest first."""
        return tuple(self._sequences)

    def ref_counts(self) -> dict[int, int]:
        """Return how many sequences hold each block in use."""
        return {block: refs for block, refs in enumerate(self._refs) if refs}

    def free_block_ids(self) -> tuple[int, ...]:
        """Return the free blocks, the next one to be handed out first."""
        return tuple(reversed(self._free))

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    @property
    def used_blocks(self) -> int:
        """Physical blocks in use; a shared block counts once."""
        return self.num_blocks - len(self._free)

    @property
    def shared_saved_blocks(self) -> int:
        """Blocks that the same sequences would take in addition if nothing were shared."""
        return sum(len(seq.table) for seq in self._sequences.values()) - self.used_blocks

    def fragmentation(self) -> float:
        """Return the unused share of the slots in the blocks in use, 0 when none is in use."""
        slots = self.used_blocks * self.block_size
        return 1 - self.filled_slots / slots if slots else 0.0

    def read(self, seq_id: Hashable) -> tuple[int, ...]:
        """Return what a sequence's slots hold: the serial number of each token's write.

        Raises:
            PoolError: The sequence is unknown, or the manager keeps no content.
        """
        sequence = self._known(seq_id)
        if self._slots is None:
            raise PoolError("this manager keeps no content; make it with content=True")
        found: list[int] = []
        for block in sequence.table:
            start = block * self.block_size
            found.extend(self._slots[start : start + self.block_size])
        return tuple(found[: sequence.tokens])

    # --- blocks -------------------------------------------------------------------------------

    def _known(self, seq_id: Hashable) -> _Sequence:
        try:
            return self._sequences[seq_id]
        except KeyError:
            raise PoolError(f"sequence {seq_id!r} is unknown; allocate or fork it first") from None

    def _refuse_known(self, seq_id: Hashable) -> None:
        if seq_id in self._sequences:
            raise PoolError(f"sequence {seq_id!r} exists already; free it first")

    def _require(self, blocks: int, what: str) -> None:
        if blocks > len(self._free):
            raise PoolExhausted(
                "pool_exhausted",
                f"{what}: needs {counted(blocks, 'block')}, {len(self._free)} of "
                f"{self.num_blocks} are free",
            )

    def _take(self) -> int:
        block = self._free.pop()
        self._refs[block] = 1
        self.peak_used_blocks = max(self.peak_used_blocks, self.used_blocks)
        return block

    def _release(self, block: int) -> None:
        self._refs[block] -= 1
        if not self._refs[block]:
            self.filled_slots -= self._filled[block]
            self._filled[block] = 0
            self._free.append(block)

    def _tail_is_shared(self, sequence: _Sequence) -> bool:
        partial = sequence.tokens % self.block_size != 0
        return partial and self._refs[sequence.table[-1]] > 1

    def _copy_tail(self, sequence: _Sequence) -> tuple[int, int]:
        source, copy = sequence.table[-1], self._take()
        self._fill(copy, self._filled[source])
        self._copy_slots(source, copy)
        sequence.table[-1] = copy
        self._release(source)
        self.copied_blocks += 1
        return source, copy

    def _extend(self, sequence: _Sequence, tokens: int) -> Sequence[int]:
        """Write tokens into the private tail and into new blocks; return the new blocks."""
        wanted = self.blocks_for(sequence.tokens + tokens) - len(sequence.table)
        added = [self._take() for _ in range(wanted)]
        first = sequence.tokens // self.block_size
        sequence.table.extend(added)
        self._write(sequence, tokens, sequence.table[first:])
        sequence.tokens += tokens
        return added

    def _write(self, sequence: _Sequence, tokens: int, blocks: Iterable[int]) -> None:
        offset = sequence.tokens % self.block_size
        for block in blocks:
            count = min(self.block_size - offset, tokens)
            self._fill(block, count)
            self._store(block, offset, count)
            tokens, offset = tokens - count, 0

    def _fill(self, block: int, slots: int) -> None:
        self._filled[block] += slots
        self.filled_slots += slots

    def _store(self, block: int, offset: int, count: int) -> None:
        if self._slots is not None:
            start = block * self.block_size + offset
            serials = range(self._written, self._written + count)
            self._slots[start : start + count] = array("q", serials)
            self._written += count

    def _copy_slots(self, source: int, copy: int) -> None:
        if self._slots is not None:
            size = self.block_size
            self._slots[copy * size : (copy + 1) * size] = self._slots[
                source * size : (source + 1) * size
            ]
