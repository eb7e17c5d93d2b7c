"""Block tables of one cache group, for each kind of group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from kvbench_pool.vllm_policy.block_pool import NULL, BlockPool
from kvbench_pool.vllm_policy.config import PoolConfig

#: Blocks found for a prefix: one tuple per block of the prefix, one id per group.
Hits: TypeAlias = list[tuple[int, ...]]


def ceil_div(value: int, divisor: int) -> int:
    """Return ``value / divisor`` rounded up."""
    return -(-value // divisor)


class FullTables:
    """Tables of layers that attend to every token; also the base of the other kinds.

    Attributes:
        tables: Blocks by job, in order of their tokens.
        registered: Leading blocks of each job that were offered to the prefix cache; a job is
            here from its first hit or its first full block on.
        num_entries: Entries of all tables together.
        num_nulls: Those of them that name the null block.
        admission_cap: Most blocks that the admission gate asks for, ``None`` for no limit.
    """

    admission_cap: int | None = None

    def __init__(self, pool: BlockPool, place: int, config: PoolConfig) -> None:
        self._pool = pool
        self._place = place
        self._block_size = config.block_size
        self.tables: dict[int, list[int]] = {}
        self.registered: dict[int, int] = {}
        self.num_entries = 0
        self.num_nulls = 0

    def start_step(self) -> None:
        """Take note that a new step is being decided."""

    def required(self, tokens: int) -> int:
        """Blocks that hold ``tokens`` tokens."""
        return ceil_div(tokens, self._block_size)

    def skipped(self, computed: int) -> int:
        """Leading blocks that no later token can see after ``computed`` tokens."""
        return 0

    def longest_hit(self, keys: Sequence[int], limit: int, places: Sequence[int]) -> Hits:
        """Return the blocks of the longest findable prefix of at most ``limit`` blocks.

        Args:
            keys: The request's prefix keys.
            limit: Most blocks to find.
            places: Groups of the same kind and window; a block counts if all of them have it.

        Returns:
            For every block of the prefix its ids, one per group.
        """
        hits: Hits = []
        for key in keys[:limit]:
            blocks = self._find(key, places)
            if blocks is None:
                break
            hits.append(blocks)
        return hits

    def _find(self, key: int, places: Sequence[int]) -> tuple[int, ...] | None:
        blocks: list[int] = []
        for place in places:
            block = self._pool.find((key, place))
            if block is None:
                return None
            blocks.append(block)
        return tuple(blocks)

    def need(
        self,
        job: int,
        tokens: int,
        hits: Sequence[int],
        computed: int,
        *,
        gate: bool = False,
        prefill_end: int = 0,
    ) -> int:
        """Blocks that leave the free queue if ``job`` gets room for ``tokens`` tokens.

        Found blocks that nobody holds wait in that queue, so adopting them costs too.

        Args:
            job: The job.
            tokens: Tokens that need slots, those it has slots for included.
            hits: Its found blocks, none once it runs.
            computed: Tokens computed before.
            gate: Whether this is the admission gate, which does not commit to anything.
            prefill_end: Tokens from which on a chunk may export a state.
        """
        required = self.required(tokens)
        if gate and self.admission_cap is not None:
            required = min(required, self.admission_cap)
        held = len(self.tables.get(job, ()))
        if job in self.registered:
            return max(required - held, 0)
        skipped = self.skipped(computed)
        new = max(required - max(skipped, len(hits) + held), 0)
        kept = hits[max(0, skipped - held) :]
        return new + sum(1 for block in kept if block and not self._pool.holders(block))

    def adopt(self, job: int, hits: Sequence[int], computed: int) -> None:
        """Start a job's table with found blocks, those outside its window as null blocks."""
        skipped = self.skipped(computed)
        kept = list(hits[skipped:])
        self._pool.touch(kept)
        table = self.tables[job] = [NULL] * skipped + kept
        self.registered[job] = len(table)
        self.num_entries += len(table)
        self.num_nulls += skipped

    def grow(self, job: int, tokens: int) -> None:
        """Give a job room for ``tokens`` tokens."""
        table = self.tables.setdefault(job, [])
        missing = self.required(tokens) - len(table)
        if missing > 0:
            table += self._pool.take(missing)
            self.num_entries += missing

    def drop_skipped(self, job: int, computed: int) -> None:
        """Free what has left the window: from the newest block down to what is already null."""
        table = self.tables.get(job)
        if table is None:
            return
        freed: list[int] = []
        for place in range(min(self.skipped(computed), len(table)) - 1, -1, -1):
            if table[place] == NULL:
                break
            freed.append(table[place])
            table[place] = NULL
        self.num_nulls += len(freed)
        self._pool.give_back(freed)

    def register(
        self, job: int, keys: Sequence[int], tokens: int, resumes: Sequence[int] = ()
    ) -> None:
        """Offer the full blocks among the first ``tokens`` tokens to the prefix cache.

        Args:
            job: The job.
            keys: Its prefix keys.
            tokens: Its tokens that are computed by the end of the step.
            resumes: Tokens after which a later request is likely to go on by itself.
        """
        done, full = self.registered.get(job, 0), tokens // self._block_size
        if done >= full:
            return
        table = self.tables[job]
        for place in self.kept(done, full, resumes):
            if table[place] != NULL:
                self._pool.register(table[place], (keys[place], self._place))
        self.registered[job] = full

    def kept(self, first: int, end: int, resumes: Sequence[int]) -> Iterable[int]:
        """Return which blocks from ``first`` on, before ``end``, are to be found later."""
        return range(first, end)

    def release(self, job: int) -> None:
        """Free a job's blocks, the tail first."""
        table = self.tables.pop(job, [])
        self.num_entries -= len(table)
        self.num_nulls -= table.count(NULL)
        self._pool.give_back(table[::-1])
        self.registered.pop(job, None)


class ChunkedTables(FullTables):
    """Tables of layers that see the tokens of their own chunk (chunked local attention)."""

    def __init__(self, pool: BlockPool, place: int, config: PoolConfig, chunk: int) -> None:
        super().__init__(pool, place, config)
        self._chunk = chunk
        self.admission_cap = ceil_div(chunk + config.max_in_flight_tokens, config.block_size)

    def skipped(self, computed: int) -> int:
        """Blocks of the chunks before the one of the next token."""
        return computed // self._chunk * self._chunk // self._block_size

    def longest_hit(self, keys: Sequence[int], limit: int, places: Sequence[int]) -> Hits:
        """Return what the last chunk has findable; chunks before it need not be found at all."""
        limit = min(limit, len(keys))
        unseen = self.skipped(limit * self._block_size)
        seen = super().longest_hit(keys[unseen:limit], limit - unseen, places)
        return [(NULL,) * len(places)] * unseen + seen


class SlidingTables(FullTables):
    """Tables of layers that see the last ``window`` tokens, the current one included."""

    def __init__(self, pool: BlockPool, place: int, config: PoolConfig, window: int) -> None:
        super().__init__(pool, place, config)
        self._window = window
        in_flight = window - 1 + config.max_in_flight_tokens
        # One more, since a window need not start with a block.
        self.admission_cap = ceil_div(in_flight, config.block_size) + 1
        self._run = ceil_div(window - 1, config.block_size)
        interval = config.prefix_cache_retention_interval
        # In blocks; keeping everything is a window of blocks before every block.
        self._interval = 1 if interval is None else interval // config.block_size

    def skipped(self, computed: int) -> int:
        """Blocks wholly before the window of the next token."""
        return max(0, computed - self._window + 1) // self._block_size

    def longest_hit(self, keys: Sequence[int], limit: int, places: Sequence[int]) -> Hits:
        """Return the longest prefix whose last window of blocks is findable.

        The search runs from the right for a run long enough to fill a window; a shorter run
        serves only where it starts with the first block.
        """
        hits: Hits = [(NULL,) * len(places)] * min(limit, len(keys))
        run = 0
        for at in range(len(hits) - 1, -1, -1):
            blocks = self._find(keys[at], places)
            if blocks is None:
                run = 0
                continue
            hits[at] = blocks
            run += 1
            if run >= self._run:
                return hits[: at + run]
        return hits[:run]

    def kept(self, first: int, end: int, resumes: Sequence[int]) -> Iterable[int]:
        """Return the blocks that a hit could need: a window of them before where it may end.

        A window of one token never looks at an earlier block, so it needs none.
        """
        if not self._run:
            return ()
        if self._run >= self._interval > 0:
            return range(first, end)
        return [at for at in range(first, end) if self._is_kept(at, resumes)]

    def _is_kept(self, block: int, resumes: Sequence[int]) -> bool:
        interval = self._interval
        if interval and block % interval >= interval - self._run:
            return True
        ends = (tokens // self._block_size for tokens in resumes)
        return any(end - self._run <= block < end for end in ends)
