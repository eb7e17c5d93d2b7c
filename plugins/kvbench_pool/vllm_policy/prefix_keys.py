"""Prefix identity of blocks as small integers: equal keys mean equal tokens from the start on.

An engine hashes every full block together with the hash of the block before it. Any injective
numbering of those chains makes the same decisions; this one numbers them 1, 2, 3 … so that a
key can index an array.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kvbench.workload.request import Request
from kvbench_pool.item_marks import Marks, item_marks

Keys = npt.NDArray[np.int64]

#: A block per key, by the key. Half as wide as the keys: it is as long as the workload has blocks,
#: and most of it is written once.
KeyMap = npt.NDArray[np.int32]

_NONE: Keys = np.empty(0, dtype=np.int64)

# Remembered prefixes and numbers in use from which on forgetting pays: some 250 MiB of them.
MOST_NODES = 1 << 19
MOST_KEYS = 1 << 24

#: What a prefix is known by (the number of the one before it comes first), and its first number.
_Node: TypeAlias = tuple[tuple[Any, ...], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedPrefixes:
    """Prefix keys of a whole workload, for any number of simulations of one block size.

    Attributes:
        requests: The workload, in order of arrival.
        keys: Keys of each of its requests, by the identity of the request.
        next_key: Least number that no key has.
        spare_maps: Maps over the keys that no simulation uses now.
    """

    requests: Sequence[Request] = field(repr=False)
    keys: Mapping[int, Keys] = field(repr=False)
    next_key: int
    spare_maps: list[KeyMap] = field(default_factory=list, repr=False, compare=False)

    def zeros(self) -> KeyMap:
        """Return a map over the keys, to be put among ``spare_maps`` after use.

        Clearing a used one takes a fraction of the time in which the system hands out so much
        memory.
        """
        if not self.spare_maps:
            return np.zeros(self.next_key + 1, dtype=np.int32)
        spare = self.spare_maps.pop()
        spare[:] = 0
        return spare


def number_prefixes(requests: Sequence[Request], block_size: int) -> NumberedPrefixes:
    """Number the prefixes of a workload once, for simulations that take its very requests."""
    numbers = PrefixKeys(block_size)
    keys = {id(request): numbers.public(request) for request in requests}
    return NumberedPrefixes(requests=requests, keys=keys, next_key=numbers.next_key)


class PrefixKeys:
    """Numbers the full blocks of requests; one instance per simulation.

    The keys of a request cover the blocks whose tokens somebody else could also have: those of
    the prompt, and those of the output where the workload states its tokens. The other blocks
    are private, and ``fresh`` numbers them when somebody wants a number.
    """

    def __init__(self, block_size: int, numbered: NumberedPrefixes | None = None) -> None:
        self._block_size = block_size
        self._numbered = numbered
        self._chunks: dict[int, dict[tuple[int, int], int]] = {}
        self._nodes: dict[tuple[int, bytes], int] = {}
        self._roots: dict[tuple[str, str], int] = {}
        self._marked_nodes: dict[tuple[int, int, Marks], int] = {}
        self._most_nodes, self._most_keys = MOST_NODES, MOST_KEYS
        self.next_key = numbered.next_key if numbered else 1

    @property
    def is_full(self) -> bool:
        """Whether more is remembered than a workload without end should leave behind."""
        if self._numbered is not None:
            return False
        return self.next_key > self._most_keys or self._num_nodes > self._most_nodes

    @property
    def _num_nodes(self) -> int:
        return len(self._marked_nodes) + sum(len(nodes) for nodes, _ in self._plain())

    def _plain(self) -> Iterator[tuple[dict[Any, int], int]]:
        """Yield what is remembered of texts, with the numbers that a prefix takes there."""
        yield self._nodes, 1
        for chunk, nodes in self._chunks.items():
            yield nodes, max(1, -(-chunk // self._block_size))

    def forget(self, live: Keys) -> Keys:
        """Forget the prefixes that lead to no live key, and number the others anew.

        Args:
            live: Keys that a block or a request has, sorted and distinct.

        Returns:
            The numbers that stay, sorted, for ``renumbered``.
        """
        marked = _leading_to(live, self._marked_nodes, 1)
        live = np.union1d(live, [plain for (_, plain, _), _ in marked]).astype(np.int64)
        stay = np.union1d(live, [key for _, key in marked]).astype(np.int64)
        plain = [(nodes, _leading_to(live, nodes, span), span) for nodes, span in self._plain()]
        for _, kept, span in plain:
            firsts = np.array([first for _, first in kept], dtype=np.int64)
            stay = np.union1d(stay, firsts[:, None] + np.arange(span))
        for nodes, kept, _ in plain:
            _replace(nodes, kept, stay)
        plains = renumbered(np.array([plain for (_, plain, _), _ in marked], dtype=np.int64), stay)
        moved = [
            ((before, plain, marks), key)
            for ((before, _, marks), key), plain in zip(marked, plains.tolist(), strict=True)
        ]
        _replace(self._marked_nodes, moved, stay)
        self.next_key = len(stay) + 1
        self._most_nodes = max(MOST_NODES, 2 * self._num_nodes)
        self._most_keys = max(MOST_KEYS, 2 * self.next_key)
        return stay

    def fresh(self, count: int) -> Keys:
        """Return ``count`` new keys that nobody else has."""
        first = self.next_key
        self.next_key += count
        return np.arange(first, first + count, dtype=np.int64)

    def public(self, request: Request) -> Keys:
        """Return the keys of a request's leading full blocks that others could share."""
        if self._numbered is not None:
            return self._numbered.keys[id(request)]
        if request.prompt_ids is not None:
            return self._from_tokens(request)
        if len(request.hash_ids):
            return self._from_chunks(request)
        return _NONE

    def _root(self, request: Request) -> int:
        """Distinct negative parents keep adapters and salts apart."""
        if not request.salt and not request.lora:
            return 0
        return self._roots.setdefault((request.lora, request.salt), -1 - len(self._roots))

    def _from_chunks(self, request: Request) -> Keys:
        """Key blocks by the chunks that they end in.

        Block ``j`` ends in chunk ``c`` when ``c * H < (j + 1) * B <= (c + 1) * H``; its tokens
        are known from the ids of the chunks 0 to ``c``.
        """
        chunk = request.hash_tokens
        nodes = self._chunks.setdefault(chunk, {})
        node = self._root(request)
        known: list[int] = []
        for identity in request.hash_ids:
            found = nodes.get((node, identity))
            if found is None:
                break
            known.append(found)
            node = found
        # Behind a chunk that nobody had, every chunk is new: they are numbered in one go.
        new = request.hash_ids[len(known) :]
        firsts = self._number(chunk, len(known), len(new))
        parents = itertools.chain((node,), firsts)
        nodes.update(zip(zip(parents, new, strict=False), firsts, strict=True))
        keys = self._spread(chunk, [*known, *firsts] if known else firsts)
        return self._marked(request, keys[: request.prompt_tokens // self._block_size])

    def _number(self, chunk: int, before: int, count: int) -> Sequence[int]:
        """Return the first key of each of ``count`` new chunks behind ``before`` others."""
        first = self.next_key
        if chunk % self._block_size == 0:
            per_chunk = chunk // self._block_size
            self.next_key += count * per_chunk
            return range(first, self.next_key, per_chunk) if count else ()
        firsts: list[int] = []
        for place in range(before, before + count):
            firsts.append(self.next_key)
            # A chunk in which no block ends still needs an identity of its own.
            self.next_key += max(1, self._ends_in(chunk, place))
        return firsts

    def _ends_in(self, chunk: int, place: int) -> int:
        """Blocks that end in the ``place``-th chunk."""
        return (place + 1) * chunk // self._block_size - place * chunk // self._block_size

    def _spread(self, chunk: int, firsts: Sequence[int]) -> Keys:
        """Return the keys of all blocks that end in chunks with these first keys."""
        if chunk % self._block_size == 0:
            per_chunk = chunk // self._block_size
            if isinstance(firsts, range):
                return np.arange(firsts.start, firsts.start + len(firsts) * per_chunk)
            heads = np.array(firsts, dtype=np.int64)
            return (heads[:, None] + np.arange(per_chunk)).ravel()
        keys: list[int] = []
        for place, first in enumerate(firsts):
            keys += range(first, first + self._ends_in(chunk, place))
        return np.array(keys, dtype=np.int64)

    def _from_tokens(self, request: Request) -> Keys:
        """Key blocks by their tokens and the key before them."""
        assert request.prompt_ids is not None
        tokens = array("q", request.prompt_ids)
        if request.output_ids is not None:
            tokens.extend(array("q", request.output_ids))
        data = tokens.tobytes()
        width = self._block_size * tokens.itemsize
        nodes, node = self._nodes, self._root(request)
        keys: list[int] = []
        for start in range(0, len(data) - width + 1, width):
            step = (node, data[start : start + width])
            found = nodes.get(step)
            if found is None:
                found = nodes[step] = self.next_key
                self.next_key += 1
            keys.append(found)
            node = found
        return self._marked(request, np.array(keys, dtype=np.int64))

    def _marked(self, request: Request, keys: Keys) -> Keys:
        """Number the blocks anew from the first one that a multimodal item reaches into."""
        marks = item_marks(request.multimodal, self._block_size)
        if not marks:
            return keys
        keys, node = keys.copy(), 0
        for place in range(min(marks), len(keys)):
            step = (node, int(keys[place]), marks.get(place, ()))
            found = self._marked_nodes.get(step)
            if found is None:
                found = self._marked_nodes[step] = self.next_key
                self.next_key += 1
            keys[place] = node = found
        return keys


def renumbered(keys: Keys, stay: Keys) -> Keys:
    """Return the numbers that keys have after ``PrefixKeys.forget``; those below 1 never change."""
    return np.where(keys > 0, np.searchsorted(stay, keys) + 1, keys)


def _leading_to(live: Keys, nodes: Mapping[tuple[Any, ...], int], span: int) -> list[_Node]:
    """Return the nodes with a live number among their ``span``, and all that lead to them."""
    firsts = np.fromiter(nodes.values(), np.int64, len(nodes))
    alive = np.searchsorted(live, firsts) < np.searchsorted(live, firsts + span)
    needed: set[int] = set()
    kept: list[_Node] = []
    # Whatever leads to a node was numbered before it.
    for (step, first), is_alive in zip(
        reversed(list(nodes.items())), reversed(alive.tolist()), strict=True
    ):
        if is_alive or first in needed:
            kept.append((step, first))
            needed.add(step[0])
    kept.reverse()
    return kept


def _replace(nodes: dict[Any, int], kept: Sequence[_Node], stay: Keys) -> None:
    """Let ``nodes`` hold only what is kept, under its new numbers."""
    before = np.array([step[0] for step, _ in kept], dtype=np.int64)
    firsts = np.array([first for _, first in kept], dtype=np.int64)
    parents, numbers = renumbered(before, stay).tolist(), renumbered(firsts, stay).tolist()
    nodes.clear()
    for (step, _), parent, number in zip(kept, parents, numbers, strict=True):
        nodes[(parent, *step[1:])] = number
