"""The most prefix hits that any cache of a given size could have (Belady's MIN).

Knowing the future, the cache drops the block whose next use is farthest away, the one just read
included. A use is a read that a cache may serve: a block that is written anew before it is read
need not be kept until then. Whenever a continuation is read its prefix is, and is dropped later.
"""

from __future__ import annotations

import heapq

from kvbench_pool.prefix_history import PrefixHistory

_NEVER = 1 << 62


class OptimalCache:
    """Runs MIN over a workload's history, once per capacity."""

    def __init__(self, history: PrefixHistory) -> None:
        self._history = history
        self._runs: list[int] = history.runs.tolist()
        self._first: list[int] = history.first.tolist()
        self._starts: list[int] = history.starts.tolist()
        self._blocks: list[int] = history.blocks.tolist()
        self._readable: list[bool] = history.readable.tolist()
        self._next_use = self._next_uses()

    def hit_tokens(self, capacity_blocks: int) -> int:
        """Return the prompt tokens found by an optimal cache of a capacity."""
        resident = [0] * len(self._blocks)
        heap: list[tuple[int, int, int]] = []
        next_use = [_NEVER] * len(self._blocks)
        held = found = 0
        for begin, end in zip(self._first, self._first[1:], strict=False):
            found += self._found(begin, end, resident)
            for access in range(begin, end):
                run = self._runs[access]
                held += self._blocks[run] - resident[run]
                resident[run] = self._blocks[run]
                next_use[run] = self._next_use[access]
                heapq.heappush(heap, (-next_use[run], -self._starts[run], run))
            while held > capacity_blocks:
                use, _, run = heap[0]
                if -use != next_use[run] or not resident[run]:
                    heapq.heappop(heap)
                    continue
                dropped = min(resident[run], held - capacity_blocks)
                resident[run] -= dropped
                held -= dropped
        return found * self._history.block_size

    def hit_ratio(self, capacity_blocks: int) -> float:
        """Return the share of all prompt tokens that an optimal cache finds."""
        return self.hit_tokens(capacity_blocks) / max(1, self._history.prompt_tokens)

    def _found(self, begin: int, end: int, resident: list[int]) -> int:
        """Return the blocks that one request finds: an unbroken run from its start."""
        found = 0
        for access in range(begin, end):
            run = self._runs[access]
            if self._readable[access]:
                found += resident[run]
            if resident[run] < self._blocks[run]:
                break
        return found

    def _next_uses(self) -> list[int]:
        """Return the next request that each access's run serves, if none writes it anew before."""
        upcoming: dict[int, int] = {}
        uses = [_NEVER] * len(self._runs)
        for request in reversed(range(len(self._first) - 1)):
            for access in range(self._first[request], self._first[request + 1]):
                uses[access] = upcoming.get(self._runs[access], _NEVER)
                upcoming[self._runs[access]] = request if self._readable[access] else _NEVER
        return uses
