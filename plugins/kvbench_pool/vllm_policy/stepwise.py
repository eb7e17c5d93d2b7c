"""Run a workload through the step-by-step scheduler: every option, one decision at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from kvbench.workload.request import Request
from kvbench_pool.digest import StepDigest, scheduled_part
from kvbench_pool.step_time.timing import RequestTimes
from kvbench_pool.vllm_policy.clock import clock_of
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.job import Job
from kvbench_pool.vllm_policy.pool_split import SplitSeries
from kvbench_pool.vllm_policy.prefix_keys import NumberedPrefixes, PrefixKeys
from kvbench_pool.vllm_policy.scheduler import Scheduled, Scheduler, Step
from kvbench_pool.vllm_policy.simulation import Counts, RequestRecord, Simulation
from kvbench_pool.vllm_policy.step_series import StepSeries

# The shared and the idle part of a row: ``PoolSplit`` has them for any groups.
_COUNTED_IN_SPLIT = (0, 0, 0)

# Times that a request may fail with the pool to itself without coming further.
_TRIES_ALONE = 3


class Stepwise:
    """Drives a ``Scheduler``: arrivals, steps and the output of a model that never stops early.

    Requests join the queue when the clock says that they have come. With nothing under way it
    jumps to the next arrival. Under async scheduling the output of a step is taken in after the
    next one was scheduled.
    """

    def __init__(
        self,
        config: PoolConfig,
        digest: StepDigest | None,
        sink: Callable[[RequestRecord], None],
        numbered: NumberedPrefixes | None = None,
    ) -> None:
        self._config = config
        self._digest = digest
        self._sink = sink
        self._scheduler = Scheduler(config)
        self._keys = PrefixKeys(config.hash_block_size, numbered)
        self._flying: deque[Step] = deque()
        self._reported: dict[int, list[int]] = {}
        self._blocks_at_end: dict[int, int] = {}
        self.clock = clock_of(config)
        self.counts = Counts()
        # Its tables are the first group's, as in the decision logs.
        self.series = StepSeries(config.block_sizes[0])
        self.split = SplitSeries()
        self._alive = 0
        self._tried_alone: dict[int, list[int]] = {}

    def run(self, requests: Iterable[Request]) -> None:
        """Run all requests to their ends."""
        arrivals = self._jobs(requests)
        coming = next(arrivals, None)
        while coming is not None or self._alive or self._flying:
            if coming is not None and not self._alive and not self._flying:
                self.clock.jump_to(coming)
            while coming is not None and self.clock.has_come(coming):
                self._join(coming)
                coming = next(arrivals, None)
            if self._flying and not self._alive:
                self._take_in(self._flying.popleft())
                continue
            self._one_step()
            self.clock.step += 1
        self.series.settle()

    def _join(self, job: Job) -> None:
        self.clock.join(job)
        self._scheduler.waiting.append(job)
        self._alive += 1

    def _jobs(self, requests: Iterable[Request]) -> Iterator[Job]:
        last, last_ms = 0, 0.0
        for index, request in enumerate(requests):
            if not self._config.fits(request.prompt_tokens, request.output_tokens):
                self.counts.dropped += 1
                continue
            self.counts.requests += 1
            last = max(last, self._config.arrival_step(request.arrival_ms))
            last_ms = max(last_ms, request.arrival_ms)
            yield Job(
                index=index,
                prompt_tokens=request.prompt_tokens,
                output_tokens=request.output_tokens,
                keys=self._all_keys(request),
                arrive_step=last,
                known=request.prompt_tokens,
                arrive_s=last_ms / 1000,
            )

    def _all_keys(self, request: Request) -> list[int]:
        if not self._config.enable_prefix_caching:
            return []
        keys: list[int] = self._keys.public(request).tolist()
        full = (request.prompt_tokens + request.output_tokens) // self._config.hash_block_size
        keys += self._keys.fresh(full - len(keys)).tolist()
        return keys

    def _one_step(self) -> None:
        scheduler, waiting = self._scheduler, len(self._scheduler.waiting)
        step = scheduler.schedule()
        if not scheduler.running:
            self._drop_stuck(step)
        self.counts.preemptions += len(step.preempted)
        for job in step.preempted:
            self._reported.pop(job.index, None)
        for part in step.scheduled:
            if part.admitted:
                self._note_admission(part)
        self._note_series(step, waiting)
        self.clock.decided(step)
        free = scheduler.cache.pool.num_free
        parts = self._parts(step) if self._digest is not None else []
        self._flying.append(step)
        ended: list[int] = []
        if len(self._flying) > (1 if self._config.async_scheduling else 0):
            ended = self._take_in(self._flying.popleft())
        if self._digest is not None:
            preempted = [job.index for job in step.preempted]
            self._digest.add(self.clock.step, free, parts, preempted, ended)

    def _drop_stuck(self, step: Step) -> None:
        """Leave out a request that does not fit with the whole pool to itself.

        The engine would try it for ever, and whoever waits behind it would wait as long.
        """
        waiting = self._scheduler.waiting
        if step.preempted:
            if self._may_come_further(waiting[0]):
                return
        elif any(flying.scheduled for flying in self._flying) or not waiting:
            return
        waiting.popleft()
        self._alive -= 1
        self.counts.requests -= 1
        self.counts.dropped += 1

    def _may_come_further(self, job: Job) -> bool:
        """Whether a job that failed alone may do better with what it left in the cache.

        A try may leave nothing but the place where its prefix parted, for the one after it.
        """
        tried = self._tried_alone.setdefault(job.index, [])
        if tried and job.reached > max(tried):
            tried.clear()
        tried.append(job.reached)
        return len(tried) < _TRIES_ALONE

    def _note_admission(self, part: Scheduled) -> None:
        job, first = part.job, part.job.first_step < 0
        self._reported[job.index] = [0] * len(self._config.groups)
        if first:
            job.first_step = self.clock.step
            job.hit_tokens = part.computed
            self.counts.queued_steps += self.clock.step - job.arrive_step
        else:
            job.rehit_tokens += part.computed
        self.counts.note_admission(
            first=first,
            found=part.computed,
            looked_up=job.prompt_tokens if first else job.known,
        )

    def _note_series(self, step: Step, waiting: int) -> None:
        scheduler, pool = self._scheduler, self._scheduler.cache.pool
        tables = scheduler.cache.groups[0].tables
        self.series.pending += (
            self.clock.step,
            self._config.usable_blocks - pool.num_free,
            pool.num_cached_free,
            pool.num_cached,
            len(scheduler.running),
            waiting,
            len(step.scheduled),
            sum([part.tokens for part in step.scheduled]),
            sum([len(tables[part.job.index]) for part in step.scheduled]),
            sum([part.computed + part.tokens for part in step.scheduled]),
            *_COUNTED_IN_SPLIT,
        )
        self.split.add(self.clock.step, scheduler.cache.split(scheduler.running))
        if self.series.is_due:
            self.series.settle()

    def _parts(self, step: Step) -> list[str]:
        return [self._part(part) for part in step.scheduled]

    def _part(self, part: Scheduled) -> str:
        reported = self._reported[part.job.index]
        tables = self._scheduler.cache.table(part.job)
        new = [table[known:] for table, known in zip(tables, reported, strict=True)]
        self._reported[part.job.index] = [len(table) for table in tables]
        return scheduled_part(part.job.index, part.tokens, part.computed, new)

    def _take_in(self, step: Step) -> list[int]:
        """Settle a step; return the requests that ended with it."""
        held = {
            part.job.index: sum(map(len, self._scheduler.cache.table(part.job)))
            for part in step.scheduled
            if part.job.known + 1 == part.job.prompt_tokens + part.job.output_tokens
        }
        self.clock.output()
        ended = self._scheduler.update(step)
        self.clock.settled(step, ended)
        for job in ended:
            job.finish_step = self.clock.step
            self._alive -= 1
            self._reported.pop(job.index, None)
            self._sink(_record(job, held[job.index], self.clock.times(job)))
        return [job.index for job in ended]


def _record(job: Job, blocks: int, times: RequestTimes | None) -> RequestRecord:
    return RequestRecord(
        index=job.index,
        prompt_tokens=job.prompt_tokens,
        output_tokens=job.output_tokens,
        arrive_step=job.arrive_step,
        first_step=job.first_step,
        finish_step=job.finish_step,
        hit_tokens=job.hit_tokens,
        preemptions=job.preemptions,
        rehit_tokens=job.rehit_tokens,
        blocks=blocks,
        times=times,
    )


def run_stepwise(
    requests: Iterable[Request],
    config: PoolConfig,
    *,
    digest: StepDigest | None = None,
    sink: Callable[[RequestRecord], None] | None = None,
    numbered: NumberedPrefixes | None = None,
) -> Simulation:
    """Simulate one decision at a time.

    Args:
        requests: The workload, in order of arrival.
        config: Pool and scheduler.
        digest: Takes in every step's decisions.
        sink: Takes the records instead of the result's ``records``.
        numbered: Prefix keys of these very requests.
    """
    records: list[RequestRecord] = []
    stepwise = Stepwise(config, digest, sink or records.append, numbered)
    stepwise.run(requests)
    pool = stepwise._scheduler.cache.pool
    return Simulation(
        config=config,
        counts=stepwise.counts,
        series=stepwise.series,
        split=stepwise.split,
        records=tuple(records),
        last_step=stepwise.clock.step - 1,
        evicted_blocks=pool.evicted,
        free_queue=tuple(pool.free_queue()),
        digest=digest.hex if digest else "",
        timing=stepwise.clock.timing,
    )
