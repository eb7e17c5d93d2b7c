"""Block tables of layers whose state has a fixed size, without and with prefix caching."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kvbench_pool.vllm_policy.block_pool import NULL, BlockPool, GroupKey
from kvbench_pool.vllm_policy.block_tables import FullTables, Hits, ceil_div
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.job import Job

#: More blocks than any pool has: the request has to wait for the next step.
_NOT_NOW = 1 << 60


class StateTables(FullTables):
    """Pages of layers with a state of fixed size; they know no prefixes.

    Attributes:
        held: How many tables name each page.
    """

    def __init__(self, pool: BlockPool, place: int, config: PoolConfig) -> None:
        super().__init__(pool, place, config)
        self.held: Counter[int] = Counter()

    def required(self, tokens: int) -> int:
        """The same whatever the length."""
        return self._group.fixed_blocks

    def grow(self, job: int, tokens: int) -> None:
        """Give a job its pages."""
        before = len(self.tables.get(job, ()))
        super().grow(job, tokens)
        self.held.update(self.tables[job][before:])

    def release(self, job: int) -> None:
        """Free a job's pages, the tail first."""
        self._let_go(block for block in self.tables.get(job, ()) if block != NULL)
        super().release(job)

    def _let_go(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            self.held[block] -= 1
            if not self.held[block]:
                del self.held[block]


class AlignedStateTables(StateTables):
    """Pages of states that are kept at ends of blocks (vLLM's ``mamba_cache_mode`` "align").

    Entry j of a table is the state after block j or, as the last one, the running state. What
    lies between two chunks' ends has no state and is a null block. A state is kept until the
    step that copies from it is settled. Some kernels also export, from inside a chunk that ends
    a prompt, the state after its last full block.
    """

    def __init__(self, pool: BlockPool, place: int, config: PoolConfig) -> None:
        super().__init__(pool, place, config)
        self._can_export = self._group.exports_states
        self._exporting: set[int] = set()
        self._ahead = config.lookahead_tokens
        self._is_alone = len(config.groups) == 1
        interval = config.prefix_cache_retention_interval
        self._interval = 1 if interval is None else interval // config.block_size
        self._copied_from: dict[int, int] = {}
        self._dropped: dict[int, int] = {}
        self._registered_now: set[GroupKey] = set()

    def start_step(self) -> None:
        """States registered from now on exist only after the step."""
        self._registered_now.clear()

    def required(self, tokens: int) -> int:
        """Entries of a table for ``tokens`` tokens."""
        return ceil_div(tokens, self.block_size)

    def skipped(self, computed: int) -> int:
        """Blocks before the one with the state after ``computed`` tokens."""
        return max(0, computed - 1) // self.block_size

    def longest_hit(self, keys: Sequence[int], limit: int, places: Sequence[int]) -> Hits:
        """Return the longest prefix whose state is findable: null blocks, then the state."""
        for at in range(limit // self.block_size - 1, -1, -1):
            blocks = self._find(keys[at], places)
            if blocks is not None:
                return [(NULL,) * len(places)] * at + [blocks]
        return []

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
        """Blocks that leave the free queue: a new state, an exported and a found one.

        A state that another request computes in this very step cannot be copied yet.
        """
        if hits and self._pool.key_of(hits[-1]) in self._registered_now:
            return _NOT_NOW
        tokens -= 0 if gate else self._ahead
        table = self.tables.get(job, ())
        new = self.required(tokens) - len(hits) - len(table)
        exports = self._can_export and tokens >= prefill_end
        exports = exports and can_export(computed, tokens, self.block_size)
        if not gate:
            (self._exporting.add if exports else self._exporting.discard)(job)
        free = sum(1 for block in hits if block != NULL and not self._pool.holders(block))
        return min(new, 1 + exports) + free

    def adopt(self, job: int, hits: Sequence[int], computed: int) -> None:
        """Start a job's table with the found state."""
        super().adopt(job, hits, computed)
        self.held.update(block for block in self.tables[job] if block != NULL)

    def grow(self, job: int, tokens: int) -> None:
        """Give a job a block for the state after ``tokens`` tokens and for what it exports."""
        table = self.tables.setdefault(job, [])
        required = self.required(tokens - self._ahead)
        if required <= len(table):
            return
        if table:
            self._copied_from[job] = len(table) - 1
        states = 1 + (job in self._exporting)
        between = max(0, required - states - len(table))
        new = self._pool.take(required - between - len(table))
        table += [NULL] * between + new
        self.num_nulls += between
        self.num_entries += between + len(new)
        self.held.update(new)

    def drop_skipped(self, job: int, computed: int) -> None:
        """Free the states that no step in flight copies from any more."""
        table = self.tables.get(job)
        if table is None:
            return
        first, end = self._dropped.get(job, 0), min(self.skipped(computed), len(table))
        if first < end:
            self._drop(table, range(end - 1, first - 1, -1))
            self._dropped[job] = end
        copied = self._copied_from.get(job)
        if copied is not None and copied < self.required(computed) - 1:
            self._drop(table, (copied,))

    def _drop(self, table: list[int], places: Iterable[int]) -> None:
        freed: list[int] = []
        for place in places:
            if table[place] != NULL:
                freed.append(table[place])
                table[place] = NULL
        self.num_nulls += len(freed)
        self._let_go(freed)
        self._pool.give_back(freed)

    def register(
        self, job: int, keys: Sequence[int], tokens: int, resumes: Sequence[int] = ()
    ) -> None:
        """Offer the states at the ends of the blocks to the prefix cache.

        The first of ``resumes`` is where the same prompt would go on. Until a further block is
        full, the engine offers the state before it again in every step, unless it exported one.
        """
        done = self.registered.get(job, 0)
        super().register(job, keys, tokens, resumes)
        self._note_registered(self.tables[job][done : self.registered.get(job, 0)])
        if job in self._exporting:
            return
        at = tokens // self.block_size - 1
        is_whole = not (self._is_alone and tokens % self.block_size)
        if is_whole and at >= 0 and resumes and at == resumes[0] // self.block_size - 1:
            self._note_registered(self.tables[job][at : at + 1])

    def _note_registered(self, blocks: Iterable[int]) -> None:
        keys = (self._pool.key_of(block) for block in blocks)
        self._registered_now.update(key for key in keys if key is not None)

    def kept(self, first: int, end: int, resumes: Sequence[int]) -> Iterable[int]:
        """Return the blocks after which a later request is likely to go on."""
        if self._interval == 1:
            return range(first, end)
        ends = {tokens // self.block_size - 1 for tokens in resumes}
        interval = self._interval
        return [
            at for at in range(first, end) if at in ends or (interval and not (at + 1) % interval)
        ]

    def release(self, job: int) -> None:
        """Free a job's states, the tail first."""
        super().release(job)
        self._copied_from.pop(job, None)
        self._dropped.pop(job, None)
        self._exporting.discard(job)


def can_export(start: int, end: int, block_size: int) -> bool:
    """Whether a chunk computes a state at a block's end inside it, from a block's end on."""
    return start % block_size == 0 and start + block_size <= (end - 1) // block_size * block_size


def aligned_chunk(job: Job, start: int, tokens: int, config: PoolConfig) -> int:
    """Return how many of ``tokens`` to compute so that a chunk ends where its state can be kept.

    Args:
        job: The job.
        start: Tokens computed before.
        tokens: Tokens that the budget allows.
        config: Pool and scheduler.
    """
    size, prefill_end = config.block_size, max(job.prompt_tokens, job.known - 1)
    if start >= prefill_end:
        return tokens
    end = start + tokens
    if end < prefill_end:
        aligned = end // size * size
        # A block wider than the budget is computed in several chunks.
        if aligned > start or size <= config.max_num_batched_tokens:
            end = aligned
    stops = []
    if (
        start + tokens < prefill_end
        or not config.exports_states
        or not can_export(start, prefill_end, size)
    ):
        stops.append((job.known - 1) // size * size)
    if start % size:
        stops.append((start // size + 1) * size)
    if start < job.parting_tokens < end:
        stops.append(start + (job.parting_tokens - start) // size * size)
    end = min((stop for stop in stops if start < stop < end), default=end)
    return max(end - start, 0)
