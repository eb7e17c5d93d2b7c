"""Hit ratio of an LRU prefix cache at every capacity, from one pass over the workload.

LRU keeps the most recently used blocks whatever the capacity, so a block is found at capacity C
exactly if fewer than C other blocks were used since (Mattson's stack distance). Within a request
the blocks count as used from the last one to the first, so that a prefix outlives its
continuation, as when an engine frees a sequence's blocks tail first.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from kvbench_pool.prefix_history import PrefixHistory


class LruCurve:
    """Blocks found as a function of capacity; nothing is pinned, requests take no time.

    Args:
        history: The workload.
        warmup: First requests that fill the cache and are not counted.
    """

    def __init__(self, history: PrefixHistory, warmup: int = 0) -> None:
        distances = _distances(history)
        known = (distances >= 0) & history.readable
        known[: history.first[warmup]] = False
        self._before = distances[known]
        self._blocks = history.blocks[history.runs[known]]
        self._block_size = history.block_size
        self._prompt_tokens = int(history.prompts[warmup:].sum())

    def hit_tokens(self, capacity_blocks: float) -> int:
        """Return the prompt tokens found at a capacity, ``inf`` for no limit."""
        found = np.minimum(self._blocks, np.maximum(0, capacity_blocks - self._before))
        return int(found.sum()) * self._block_size

    def hit_ratio(self, capacity_blocks: float) -> float:
        """Return the share of the prompt tokens that is found at a capacity."""
        return self.hit_tokens(capacity_blocks) / max(1, self._prompt_tokens)


def _distances(history: PrefixHistory) -> npt.NDArray[np.int64]:
    """Return, for each access, the blocks used since its run's last use; -1 for the first use.

    A request reads all it can before it writes anything: its own accesses do not count.
    """
    runs: list[int] = history.runs.tolist()
    first: list[int] = history.first.tolist()
    recency = _Recency(history.blocks.tolist(), uses=len(runs))
    found: list[int] = []
    for begin, end in itertools.pairwise(first):
        found.extend(recency.used_since(run) for run in runs[begin:end])
        for run in reversed(runs[begin:end]):
            recency.use(run)
    return np.asarray(found, np.int64)


class _Recency:
    """How many blocks were used since a run's last use.

    A Fenwick tree over the time of uses holds the size of every run at its latest use.
    """

    def __init__(self, blocks: list[int], uses: int) -> None:
        self._blocks = blocks
        self._tree = [0] * (uses + 1)
        self._latest = [-1] * len(blocks)
        self._total = self._clock = 0

    def used_since(self, run: int) -> int:
        """Return the blocks of other runs used since, -1 when the run was never used."""
        latest = self._latest[run]
        return -1 if latest < 0 else self._total - _sum_until(self._tree, latest)

    def use(self, run: int) -> None:
        """Note a use."""
        size, latest = self._blocks[run], self._latest[run]
        if latest < 0:
            self._total += size
        else:
            _add(self._tree, latest, -size)
        _add(self._tree, self._clock, size)
        self._latest[run] = self._clock
        self._clock += 1


def _add(tree: list[int], at: int, amount: int) -> None:
    at += 1
    while at < len(tree):
        tree[at] += amount
        at += at & -at


def _sum_until(tree: list[int], at: int) -> int:
    """Return the sum of the entries 0 to ``at``."""
    at += 1
    found = 0
    while at:
        found += tree[at]
        at &= at - 1
    return found


def capacities(largest: int, points: int) -> list[int]:
    """Return ``points`` capacities up to ``largest``, each half of the next, none below 1."""
    return sorted({max(1, largest >> shift) for shift in range(points)})
