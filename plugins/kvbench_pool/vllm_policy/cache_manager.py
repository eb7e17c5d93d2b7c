"""The cache manager as vLLM's: groups, prefix lookup, admission gate, allocation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvbench_pool.vllm_policy.block_pool import BlockPool
from kvbench_pool.vllm_policy.block_tables import ChunkedTables, FullTables, Hits, SlidingTables
from kvbench_pool.vllm_policy.config import GroupKind, PoolConfig
from kvbench_pool.vllm_policy.job import Job
from kvbench_pool.vllm_policy.pool_split import PoolSplit
from kvbench_pool.vllm_policy.state_tables import AlignedStateTables, StateTables


class CacheManager:
    """Gives jobs room in a pool that all groups share.

    Attributes:
        pool: The blocks.
        groups: The tables of every group, in the order in which they allocate and free.
    """

    def __init__(self, config: PoolConfig) -> None:
        self._config = config
        self.pool = BlockPool(config.num_blocks)
        self.groups: tuple[FullTables, ...] = tuple(
            _make_tables(self.pool, place, config) for place in range(len(config.groups))
        )
        self._alike = _groups_alike(config)

    def start_step(self) -> None:
        """Take note that a new step is being decided."""
        for tables in self.groups:
            tables.start_step()

    def find(self, job: Job) -> list[list[int]]:
        """Return the found blocks of every group, all of the same length in tokens.

        The last known token is always computed, so a prompt that is found whole computes its
        last block again. Where some groups know more of the prompt than all together do, the
        job notes how much: the next one like it shall find it all.
        """
        found: list[list[int]] = [[] for _ in self.groups]
        if not self._config.enable_prefix_caching:
            return found
        limit, longest = job.known - 1, 0
        hits: dict[int, Hits] = {}
        while True:
            before = limit
            for places in self._alike:
                first = places[0]
                tables = self.groups[first]
                # What full attention found serves any shorter prefix as well.
                if first not in hits or self._config.groups[first].kind is not GroupKind.FULL:
                    hits[first] = tables.longest_hit(job.keys, limit, places)
                limit = min(limit, len(hits[first]) * tables.block_size)
                longest = max(longest, limit)
            if limit == before or self._one_pass:
                break
        job.parting_tokens = longest if longest > limit else 0
        for places in self._alike:
            blocks = hits[places[0]][: limit // self.groups[places[0]].block_size]
            for at, place in enumerate(places):
                found[place] = [ids[at] for ids in blocks]
        return found

    def found_tokens(self, found: Sequence[Sequence[int]]) -> int:
        """Tokens of the prefix whose blocks ``find`` returned."""
        return len(found[0]) * self.groups[0].block_size

    @property
    def _one_pass(self) -> bool:
        """One group, or full attention and one other kind: the first answer stands."""
        first = self._config.groups[self._alike[0][0]]
        return len(self._alike) < 2 or (len(self._alike) == 2 and first.kind is GroupKind.FULL)

    def admit(self, job: Job, chunk: int, found: Sequence[list[int]], *, others: bool) -> bool:
        """Make room for a waiting job's first ``chunk`` tokens beyond its found blocks.

        Args:
            job: The job, with nothing computed.
            chunk: Tokens to compute in this step.
            found: Its found blocks, by group.
            others: Whether anything runs, which puts the watermark in force.

        Returns:
            Whether there was room; if not, nothing changed.
        """
        config = self._config
        computed = self.found_tokens(found)
        spare = self.pool.num_free - (config.watermark_blocks if others else 0)
        if config.reserve_full_prompt:
            whole = self._need(job, job.known, found, computed, gate=True)
            if whole > spare:
                return False
        tokens = computed + chunk + config.lookahead_tokens
        if self._need(job, tokens, found, computed) > spare:
            return False
        if any(found):
            for tables, blocks in zip(self.groups, found, strict=True):
                tables.adopt(job.index, blocks, computed)
        self._take(job, computed + chunk)
        return True

    def extend(self, job: Job, chunk: int) -> bool:
        """Make room for a running job's next ``chunk`` tokens; ``False`` if there is none.

        What has left a window is freed in any case.
        """
        for tables in self.groups:
            tables.drop_skipped(job.index, job.computed - job.in_flight)
        tokens = job.computed + chunk + self._config.lookahead_tokens
        if self._need(job, tokens, [()] * len(self.groups), job.computed) > self.pool.num_free:
            return False
        self._take(job, job.computed + chunk)
        return True

    def _need(
        self,
        job: Job,
        tokens: int,
        found: Sequence[Sequence[int]],
        computed: int,
        *,
        gate: bool = False,
    ) -> int:
        prefill_end = 0
        if self._config.prefix_cache_retention_interval == 0:
            prefill_end = max(job.prompt_tokens, job.known - 1)
        return sum(
            tables.need(job.index, tokens, blocks, computed, gate=gate, prefill_end=prefill_end)
            for tables, blocks in zip(self.groups, found, strict=True)
        )

    def _take(self, job: Job, tokens: int) -> None:
        for tables in self.groups:
            tables.grow(job.index, tokens + self._config.lookahead_tokens)
        self.register(job, min(tokens, job.known))

    def register(self, job: Job, tokens: int) -> None:
        """Offer the full blocks among a job's first ``tokens`` tokens to later requests."""
        if self._config.enable_prefix_caching:
            # The same prompt again computes its last token, a longer one goes on behind it.
            resumes = (job.prompt_tokens - 1, job.parting_tokens)
            for tables in self.groups:
                tables.register(job.index, job.keys, tokens, resumes)

    def release(self, job: Job) -> None:
        """Free a job's blocks, group by group."""
        for tables in self.groups:
            tables.release(job.index)

    def split(self, running: Sequence[Job]) -> PoolSplit:
        """Return what the slots are used for once the step in hand is computed.

        Args:
            running: The jobs that hold blocks.
        """
        size, pool = self._config.scheduler_block_size, self.pool
        states = [tables for tables in self.groups if isinstance(tables, StateTables)]
        paged = [tables for tables in self.groups if not isinstance(tables, StateTables)]
        # A token takes more slots where a block holds fewer of them.
        slots = sum([size // tables.block_size for tables in paged])
        tokens = slots * sum([job.computed for job in running])
        entries, nulls = sum(t.num_entries for t in paged), sum(t.num_nulls for t in paged)
        state_blocks = sum(len(tables.held) for tables in states)
        state_again = sum(tables.held.total() for tables in states) - state_blocks
        state_shared = sum(n > 1 for tables in states for n in tables.held.values())
        shared = pool.num_shared - state_shared
        used = self._config.usable_blocks - pool.num_free - state_blocks
        # Entries that name a block once more than the first time; shared blocks are full.
        again = entries - nulls - used
        reserved = slots * len(running) * self._config.lookahead_tokens
        return PoolSplit(
            live=tokens - (nulls + again + shared) * size,
            shared=shared * size,
            tail=entries * size - tokens - reserved,
            reserved=reserved,
            state=state_blocks * size,
            cached=pool.num_cached_free * size,
            free=(pool.num_free - pool.num_cached_free) * size,
            null=size,
            null_entries=nulls + sum(tables.num_nulls for tables in states),
            saved_blocks=again + state_again,
        )

    def table(self, job: Job) -> list[list[int]]:
        """Return a job's blocks by group."""
        return [tables.tables.get(job.index, []) for tables in self.groups]


def _make_tables(pool: BlockPool, place: int, config: PoolConfig) -> FullTables:
    states = AlignedStateTables if config.enable_prefix_caching else StateTables
    kinds: dict[GroupKind, type[FullTables]] = {
        GroupKind.FULL: FullTables,
        GroupKind.SLIDING: SlidingTables,
        GroupKind.CHUNKED: ChunkedTables,
        GroupKind.STATE: states,
    }
    return kinds[config.groups[place].kind](pool, place, config)


def _groups_alike(config: PoolConfig) -> list[list[int]]:
    """Groups of one kind, window and block are looked up together, full attention first."""
    alike: dict[object, list[int]] = {}
    for place, group in enumerate(config.groups):
        sized = replace(group, block_size=config.block_sizes[place])
        alike.setdefault(sized, []).append(place)
    return sorted(
        alike.values(), key=lambda places: config.groups[places[0]].kind is not GroupKind.FULL
    )
