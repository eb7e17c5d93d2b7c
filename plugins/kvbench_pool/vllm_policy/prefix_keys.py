"""Prefix identity of blocks as small integers: equal keys mean equal tokens from the start on.

An engine hashes every full block together with the hash of the block before it. Any injective
numbering of those chains makes the same decisions; this one numbers them 1, 2, 3 … so that a
key can index an array.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kvbench.workload.request import Request
from kvbench_pool.item_marks import Marks, item_marks

Keys = npt.NDArray[np.int64]

_NONE: Keys = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedPrefixes:
    """Prefix keys of a whole workload, for any number of simulations of one block size.

    Attributes:
        requests: The workload, in order of arrival.
        keys: Keys of each of its requests, by the identity of the request.
        next_key: Least number that no key has.
    """

    requests: Sequence[Request] = field(repr=False)
    keys: Mapping[int, Keys] = field(repr=False)
    next_key: int


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
        self.next_key = numbered.next_key if numbered else 1

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
