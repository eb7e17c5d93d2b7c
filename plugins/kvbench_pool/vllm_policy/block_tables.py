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
        block_size: Tokens per block of this group.
    """

    admission_cap: int | None = None

    def __init__(self, pool: BlockPool, place: int, config: PoolConfig) -> None:
        self._pool = pool
        self._place = place
        self._group = config.groups[place]
        self.block_size = config.block_sizes[place]
        # A prefix is found up to where blocks of every group end, and registered up to there.
        self._hit_tokens = config.scheduler_block_size
        self._hit_blocks = self._hit_tokens // self.block_size
        self._keys_per_block = self.block_size // config.hash_block_size
        self.tables: dict[int, list[int]] = {}
        self.registered: dict[int, int] = {}
        self.num_entries = 0
        self.num_nulls = 0

    def start_step(self) -> None:
        """Take note that a new step is being decided."""

    def required(self, tokens: int) -> int:
        """Blocks that hold ``tokens`` tokens."""
        return ceil_div(tokens, self.block_size)

    def skipped(self, computed: int) -> int:
        """Leading blocks that no later token can see after ``computed`` tokens."""
        return 0

    def block_keys(self, keys: Sequence[int]) -> Sequence[int]:
        """The keys of this group's blocks: a prefix is known by the last key in it."""
        each = self._keys_per_block
        return keys if each == 1 else keys[each - 1 :: each]

    def longest_hit(self, keys: Sequence[int], limit: int, places: Sequence[int]) -> Hits:
        """Return the blocks of the longest findable prefix of at most ``limit`` tokens.

        Args:
            keys: The request's prefix keys.
            limit: Most tokens to find.
            places: Groups of the same kind, window and block; a block counts if all have it.

        Returns:
            For every block of the prefix its ids, one per group.
        """
        hits = self._leading(self.block_keys(keys)[: limit // self.block_size], places)
        del hits[len(hits) // self._hit_blocks * self._hit_blocks :]
        return hits

    def _leading(self, keys: Sequence[int], places: Sequence[int]) -> Hits:
        hits: Hits = []
        for key in keys:
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
        done = self.registered.get(job, 0)
        # Beside narrower blocks the engine also keys the last one of a prompt where the prompt
        # ends inside it, which no search of whole blocks ever asks for.
        full = tokens // self._hit_tokens * self._hit_blocks
        if done >= full:
            return
        table, each = self.tables[job], self._keys_per_block
        for place in self.kept(done, full, resumes):
            if table[place] != NULL:
                self._pool.register(table[place], (keys[each * (place + 1) - 1], self._place))
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

    def __init__(self, pool: BlockPool, place: int, config: PoolConfig) -> None:
        super().__init__(pool, place, config)
        most = self._group.window_tokens + config.max_in_flight_tokens
        self.admission_cap = ceil_div(most, self.block_size)

    def skipped(self, computed: int) -> int:
        """Blocks of the chunks before the one of the next token."""
        return self._group.skipped_tokens(computed) // self.block_size

    def longest_hit(self, keys: Sequence[int], limit: int, places: Sequence[int]) -> Hits:
        """Return what the last chunk has findable; chunks before it need not be found at all."""
        unseen, end = self.skipped(limit), limit // self.block_size
        return [(NULL,) * len(places)] * unseen + self._leading(keys[unseen:end], places)


class SlidingTables(FullTables):
    """Tables of layers that see the last ``window_tokens`` tokens, the current one included."""

    def __init__(self, pool: BlockPool, place: int, config: PoolConfig) -> None:
        super().__init__(pool, place, config)
        before = self._group.window_tokens - 1
        # One more, since a window need not start with a block.
        self.admission_cap = ceil_div(before + config.max_in_flight_tokens, self.block_size) + 1
        self._run = ceil_div(before, self.block_size)
        interval = config.prefix_cache_retention_interval
        # In blocks. Without an interval a window stays before every place where a hit may end.
        self._interval = self._hit_blocks if interval is None else interval // self.block_size

    def skipped(self, computed: int) -> int:
        """Blocks wholly before the window of the next token."""
        return self._group.skipped_tokens(computed) // self.block_size

    def longest_hit(self, keys: Sequence[int], limit: int, places: Sequence[int]) -> Hits:
        """Return the longest prefix whose last window of blocks is findable.

        The search runs from the right for a run long enough to fill a window; a shorter run
        serves only where it starts with the first block. A run ends where blocks of every group
        do.
        """
        own = self.block_keys(keys)
        hits: Hits = [(NULL,) * len(places)] * min(limit // self.block_size, len(own))
        run = 0
        for at in range(len(hits) - 1, -1, -1):
            if not run and (at + 1) % self._hit_blocks:
                continue
            blocks = self._find(own[at], places)
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
        ends = (tokens // self._hit_tokens * self._hit_blocks for tokens in resumes)
        return any(end - self._run <= block < end for end in ends)
