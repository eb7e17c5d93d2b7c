"""Prefix identity of blocks as small integers: equal keys mean equal tokens from the start on.

An engine hashes every full block together with the hash of the block before it. Any injective
numbering of those chains makes the same decisions; this one numbers them 1, 2, 3 … so that a
key can index an array.
"""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from kvbench.workload.request import Request

Keys = npt.NDArray[np.int64]

_NONE: Keys = np.empty(0, dtype=np.int64)


class PrefixKeys:
    """Numbers the full blocks of requests; one instance per simulation.

    The keys of a request cover the blocks whose tokens somebody else could also have: those of
    the prompt, and those of the output where the workload states its tokens. The other blocks
    are private, and ``fresh`` numbers them when somebody wants a number.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._chunks: dict[tuple[int, int, int], int] = {}
        self._nodes: dict[tuple[int, bytes], int] = {}
        self._roots: dict[tuple[str, str], int] = {}
        self.next_key = 1

    def fresh(self, count: int) -> Keys:
        """Return ``count`` new keys that nobody else has."""
        first = self.next_key
        self.next_key += count
        return np.arange(first, first + count, dtype=np.int64)

    def public(self, request: Request) -> Keys:
        """Return the keys of a request's leading full blocks that others could share."""
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
        size, chunk = self._block_size, request.hash_tokens
        full = request.prompt_tokens // size
        chunks = self._chunks
        node, ends = self._root(request), 0
        parts: list[int] = []
        counts: list[int] = []
        for place, identity in enumerate(request.hash_ids):
            ends_after = (place + 1) * chunk // size
            step = (node, identity, chunk)
            found = chunks.get(step)
            if found is None:
                # A chunk in which no block ends still needs an identity of its own.
                found = chunks[step] = self.next_key
                self.next_key += max(1, ends_after - ends)
            parts.append(found)
            counts.append(ends_after - ends)
            node, ends = found, ends_after
        return _ranges(parts, counts)[:full]

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
        return np.array(keys, dtype=np.int64)


def _ranges(firsts: list[int], counts: list[int]) -> Keys:
    """Concatenate ``range(first, first + count)`` for every pair."""
    if len(set(counts)) == 1:
        return (np.array(firsts)[:, None] + np.arange(counts[0])).ravel()
    lengths = np.array(counts)
    starts = np.repeat(np.array(firsts) - np.cumsum(lengths) + lengths, lengths)
    return starts + np.arange(len(starts))
