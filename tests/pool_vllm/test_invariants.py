"""What holds after every decision of the vllm policy, for every kind of cache group."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from kvbench.workload.request import MultimodalItem, Request
from kvbench_pool.vllm_policy.block_pool import NULL
from kvbench_pool.vllm_policy.config import FULL, CacheGroup, GroupKind, PoolConfig
from kvbench_pool.vllm_policy.job import Job
from kvbench_pool.vllm_policy.pool_split import PARTS
from kvbench_pool.vllm_policy.prefix_keys import PrefixKeys
from kvbench_pool.vllm_policy.scheduler import Scheduled, Scheduler, Step

_MOST_TOKENS = 60


def _sliding(window: int) -> CacheGroup:
    return CacheGroup(kind=GroupKind.SLIDING, window_tokens=window)


_STATE = CacheGroup(kind=GroupKind.STATE, fixed_blocks=2)
_EXPORTED = CacheGroup(kind=GroupKind.STATE, fixed_blocks=3)
#: Of one request: the state that the older of two steps in flight starts from, and the running and
#: the exported one of each of them.
_MOST_STATES = 5
#: A multiple of every block size that is drawn.
_CHUNKED = CacheGroup(kind=GroupKind.CHUNKED, window_tokens=16)
_KINDS = {
    "full": (FULL,),
    "sliding": (_sliding(9),),
    "window of one token": (_sliding(1),),
    "chunked": (_CHUNKED,),
    "full and chunked": (FULL, _CHUNKED),
    "state": (_STATE,),
    "full and sliding": (FULL, _sliding(9)),
    "sliding and full": (_sliding(6), FULL),
    "two windows": (_sliding(5), _sliding(17)),
    "full and two windows": (FULL, _sliding(17), _sliding(5), _sliding(5)),
    "full and state": (FULL, _STATE),
    "state, full and sliding": (_STATE, FULL, _sliding(9)),
    "full and exported state": (FULL, _EXPORTED),
    "wide full and sliding": (CacheGroup(block_size=8), _sliding(9)),
    "three sizes": (
        replace(_sliding(6), block_size=4),
        CacheGroup(block_size=16),
        replace(_sliding(6), block_size=4),
        _sliding(17),
    ),
}


class PolicyMachine(RuleBasedStateMachine):
    """Requests join and steps pass in any order; ``contents`` knows what every block holds."""

    groups: tuple[CacheGroup, ...] = (FULL,)

    @initialize(
        block_size=st.sampled_from((1, 4, 8)),
        spare=st.integers(0, 20),
        seats=st.integers(1, 5),
        budget=st.integers(0, 40),
        flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
        ahead=st.sampled_from((0, 0, 3)),
        watermark=st.sampled_from((0.0, 0.1)),
        interval=st.sampled_from((None, 0, 0, 1, 3)),
    )
    def start(
        self,
        block_size: int,
        spare: int,
        seats: int,
        budget: int,
        flags: tuple[bool, bool, bool],
        ahead: int,
        watermark: float,
        interval: int | None,
    ) -> None:
        caching, reserve, is_async = flags
        sizes = [group.block_size or block_size for group in self.groups]
        least = sum(-(-(_MOST_TOKENS + ahead) // size) + 2 for size in sizes)
        hit = math.lcm(*sizes)
        self.config = PoolConfig(
            num_blocks=1 + least + spare,
            block_size=block_size,
            max_num_seqs=seats,
            max_num_batched_tokens=seats + budget,
            watermark=watermark,
            enable_prefix_caching=caching,
            reserve_full_prompt=reserve,
            async_scheduling=is_async,
            lookahead_tokens=ahead,
            prefix_cache_retention_interval=None if interval is None else interval * hit,
            groups=self.groups,
        )
        self.scheduler = Scheduler(self.config)
        self.pool = self.scheduler.cache.pool
        self.numbers = PrefixKeys(self.config.hash_block_size)
        self.flying: deque[Step] = deque()
        self.alive: dict[int, Job] = {}
        self.made = 0
        self.contents: dict[int, tuple[int, int]] = {}

    @rule(
        stem=st.integers(0, 30),
        own=st.tuples(st.integers(0, 2), st.integers(1, 15)),
        output=st.tuples(st.integers(0, 1), st.integers(1, 15)),
        item_at=st.one_of(st.none(), st.integers(0, 10)),
    )
    def join(
        self, stem: int, own: tuple[int, int], output: tuple[int, int], item_at: int | None
    ) -> None:
        prompt = [7] * stem + [own[0]] * own[1]
        item = MultimodalItem(identifier="cat", offset_tokens=item_at or 0, tokens=1)
        request = Request(
            arrival_ms=0,
            prompt_tokens=len(prompt),
            output_tokens=output[1],
            prompt_ids=prompt,
            output_ids=[output[0]] * output[1],
            multimodal=(item,) if item_at is not None and item_at < len(prompt) else (),
        )
        job = Job(
            index=self.made,
            prompt_tokens=len(prompt),
            output_tokens=output[1],
            keys=self.numbers.public(request).tolist(),
            arrive_step=0,
            known=len(prompt),
        )
        self.made += 1
        self.alive[job.index] = job
        self.scheduler.waiting.append(job)

    @rule(count=st.integers(1, 12))
    def pass_steps(self, count: int) -> None:
        for _ in range(count):
            if self.alive:
                self._step()

    def _step(self) -> None:
        step = self.scheduler.schedule()
        writers: dict[int, int] = {}
        for part in step.scheduled:
            self._check_found(part)
            self._write(part, writers)
        self.flying.append(step)
        self.check_blocks()
        self.check_tables()
        self._check_split()
        if len(self.flying) > (1 if self.config.async_scheduling else 0):
            self._settle()

    def _settle(self) -> None:
        for job in self.scheduler.update(self.flying.popleft()):
            del self.alive[job.index]

    def _check_found(self, part: Scheduled) -> None:
        """What an admitted request starts with is what it would have computed itself."""
        if not part.admitted:
            return
        assert part.computed < part.job.known
        for group, table in enumerate(self.scheduler.cache.table(part.job)):
            size = self.config.block_sizes[group]
            assert part.computed % size == 0 or not self.config.enable_prefix_caching
            for place in range(part.computed // size):
                if table[place] != NULL:
                    assert self.contents[table[place]] == (group, self._key(part.job, group, place))

    def _key(self, job: Job, group: int, place: int) -> int:
        """The key of a block: that of the prefix up to its end."""
        end = (place + 1) * self.config.block_sizes[group]
        return job.keys[end // self.config.hash_block_size - 1]

    def _write(self, part: Scheduled, writers: dict[int, int]) -> None:
        """Note what the step puts where; nobody else may write there."""
        end = part.computed + part.tokens
        for group, table in enumerate(self.scheduler.cache.table(part.job)):
            size = self.config.block_sizes[group]
            if self.groups[group].kind is GroupKind.STATE:
                self._write_state(part, group, table)
                continue
            for place in range(part.computed // size, -(-end // size)):
                block = table[place]
                assert block != NULL
                assert writers.setdefault(block, part.job.index) == part.job.index
                is_full = (place + 1) * size <= end
                key = self._key(part.job, group, place) if is_full else -1
                self.contents[block] = (group, key)

    def _write_state(self, part: Scheduled, group: int, table: list[int]) -> None:
        """The running state is overwritten by the one after the step's last token."""
        end = part.computed + part.tokens
        if self.config.enable_prefix_caching:
            place, rest = divmod(end - 1, self.config.block_size)
            is_whole = rest + 1 == self.config.block_size
            assert self.pool.holders(table[place]) == 1
            self.contents[table[place]] = (group, part.job.keys[place] if is_whole else -1)
            # A state between the chunk's ends was exported from inside it.
            between = range(-(-part.computed // self.config.block_size), place)
            for at in (at for at in between if table[at] != NULL):
                assert self.groups[group].exports_states
                self.contents[table[at]] = (group, part.job.keys[at])

    @invariant()
    def check_blocks(self) -> None:
        if not hasattr(self, "config"):
            return
        free, held = self.pool.free_queue(), Counter(self._held())
        assert len(free) == len(set(free)) == self.pool.num_free
        assert not held.keys() & set(free)
        assert held.keys() | set(free) == set(range(1, self.config.num_blocks))
        assert all(self.pool.holders(block) == count for block, count in held.items())
        assert not any(self.pool.holders(block) for block in [NULL, *free])

    def _check_split(self) -> None:
        """The split of the pool is what counting slot by slot says."""
        slots, counted = self.config.scheduler_block_size, Counter[str]()
        jobs, seen = {job.index: job for job in self.scheduler.running}, set[int]()
        for tables, group in zip(self.scheduler.cache.groups, self.groups, strict=True):
            size = tables.block_size
            for index, table in tables.tables.items():
                for place, block in enumerate(table):
                    counted["null_entries"] += block == NULL
                    counted["saved_blocks"] += block in seen
                    if block == NULL or block in seen:
                        continue
                    seen.add(block)
                    if group.kind is GroupKind.STATE:
                        counted["state"] += slots
                    elif self.pool.holders(block) > 1:
                        counted["shared"] += slots
                    else:
                        full = min(size, max(0, jobs[index].computed - place * size))
                        counted["live"] += full * slots // size
                        counted["empty"] += (size - full) * slots // size
        split = self.scheduler.cache.split(self.scheduler.running)
        assert split.tail >= 0
        assert split.reserved >= 0
        for name in ("live", "shared", "state", "null_entries", "saved_blocks"):
            assert getattr(split, name) == counted[name], name
        assert split.tail + split.reserved == counted["empty"]
        assert sum(getattr(split, part) for part in PARTS) == self.config.num_blocks * slots

    def _held(self) -> Iterator[int]:
        for tables in self.scheduler.cache.groups:
            for table in tables.tables.values():
                named = [block for block in table if block != NULL]
                assert len(named) == len(set(named))
                yield from named

    @invariant()
    def check_tables(self) -> None:
        if not hasattr(self, "config"):
            return
        running = {job.index: job for job in self.scheduler.running}
        for tables, group in zip(self.scheduler.cache.groups, self.groups, strict=True):
            assert set(tables.tables) <= running.keys()
            assert set(tables.registered) <= running.keys()
            for index, table in tables.tables.items():
                job = running[index]
                processed, nulls = job.computed - job.in_flight, table.count(NULL)
                if group.kind is GroupKind.STATE and not self.config.enable_prefix_caching:
                    assert len(table) == group.fixed_blocks
                else:
                    assert len(table) * tables.block_size >= job.computed
                if group.kind is GroupKind.STATE:
                    assert table[-1] != NULL
                    assert len(table) - nulls <= _MOST_STATES
                    continue
                # Null blocks pad the start, and only what no further token sees.
                assert table[:nulls] == [NULL] * nulls
                if group.kind is GroupKind.SLIDING:
                    unseen = max(0, processed + 1 - group.window_tokens)
                    assert nulls * tables.block_size <= unseen
                elif group.kind is GroupKind.CHUNKED:
                    unseen = processed - processed % group.window_tokens
                    assert nulls * tables.block_size <= unseen
                else:
                    assert not nulls

    @invariant()
    def check_findable(self) -> None:
        if not hasattr(self, "config"):
            return
        findable = [block for blocks in self.pool.by_key.values() for block in blocks]
        assert len(findable) == len(set(findable))
        assert self.pool.num_cached == len(self.pool.by_key)
        assert self.pool.num_cached_free == sum(not self.pool.holders(b) for b in findable)
        assert self.config.enable_prefix_caching or not findable
        for (key, group), blocks in self.pool.by_key.items():
            assert blocks
            assert all(self.contents[block] == (group, key) for block in blocks)

    def teardown(self) -> None:
        if not hasattr(self, "config"):
            return
        for _ in range(3000):
            if not self.alive:
                break
            self._step()
        while self.flying:
            self._settle()
        assert not self.alive, "requests do not end"
        assert not self.scheduler.running
        assert not self.scheduler.waiting
        assert not list(self._held())
        assert self.pool.num_free == self.config.usable_blocks


@pytest.mark.parametrize("groups", _KINDS.values(), ids=_KINDS)
def test_every_decision_keeps_the_books(groups: tuple[CacheGroup, ...]) -> None:
    machine = type("Machine", (PolicyMachine,), {"groups": groups})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
