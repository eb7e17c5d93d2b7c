"""vLLM's scheduler, one step at a time: the readable form of what ``fast`` does in batches."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kvbench_pool.vllm_policy.cache_manager import CacheManager
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.job import Job
from kvbench_pool.vllm_policy.state_tables import aligned_chunk


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A job's part of a step.

    Attributes:
        job: The job.
        tokens: Tokens computed in the step.
        computed: Tokens computed before it.
        admitted: Whether the job joined the running ones in this step.
        emits: Whether the step samples a token for it.
    """

    job: Job
    tokens: int
    computed: int
    admitted: bool
    emits: bool


@dataclass(slots=True)
class Step:
    """Decisions of one step, in the order in which they were made."""

    scheduled: list[Scheduled] = field(default_factory=list)
    preempted: list[Job] = field(default_factory=list)


class Scheduler:
    """First come, first served; preemption of the youngest, by recomputation.

    Attributes:
        cache: The pool and its tables.
        waiting: Jobs that hold no blocks.
        running: Jobs that do, in order of admission.
    """

    def __init__(self, config: PoolConfig) -> None:
        self._config = config
        self._keeps_states = config.keeps_states
        self.cache = CacheManager(config)
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []

    def schedule(self) -> Step:
        """Decide one step: what runs goes on, then the queue's head may join.

        Nobody joins in a step that preempts.
        """
        step = Step()
        self.cache.start_step()
        budget = self._continue_running(step, self._config.max_num_batched_tokens)
        if not step.preempted:
            self._admit_waiting(step, budget)
        for part in step.scheduled:
            job = part.job
            job.computed += part.tokens
            job.in_flight += part.tokens
            if self._config.async_scheduling and part.emits:
                job.placeholders += 1
        return step

    def _continue_running(self, step: Step, budget: int) -> int:
        """Schedule running jobs in order of admission; return what is left of the budget."""
        place = 0
        while place < len(self.running) and budget > 0:
            job = self.running[place]
            place += 1
            if job.last_token_in_flight:
                continue
            tokens = min(job.known + job.placeholders - job.computed, budget)
            tokens = self._chunk(job, job.computed, tokens)
            if not tokens:
                continue
            if not self._make_room(step, job, tokens):
                break
            self._note(step, job, tokens, admitted=False)
            budget -= tokens
        return budget

    def _make_room(self, step: Step, job: Job, tokens: int) -> bool:
        """Preempt from the youngest on until ``job`` fits; ``False`` if it was itself."""
        while not self.cache.extend(job, tokens):
            victim = self.running.pop()
            self._preempt(victim)
            step.preempted.append(victim)
            if victim is job:
                return False
        return True

    def _preempt(self, job: Job) -> None:
        self.cache.release(job)
        job.reached, job.computed = job.computed, 0
        job.placeholders = 0
        job.stale = job.in_flight
        job.preemptions += 1
        self.waiting.appendleft(job)

    def _admit_waiting(self, step: Step, budget: int) -> None:
        """Admit from the head of the queue until one does not fit."""
        passed_over: list[Job] = []
        while budget > 0 and self.waiting and len(self.running) < self._config.max_num_seqs:
            job = self.waiting[0]
            if job.stale:
                # Its output of before the preemption is still on the way.
                passed_over.append(self.waiting.popleft())
                continue
            found = self.cache.find(job)
            hit = self.cache.found_tokens(found)
            tokens = self._chunk(job, hit, min(job.known - hit, budget))
            if not tokens or not self.cache.admit(job, tokens, found, others=bool(self.running)):
                break
            self.waiting.popleft()
            self.running.append(job)
            job.computed = hit
            self._note(step, job, tokens, admitted=True)
            budget -= tokens
        self.waiting.extendleft(reversed(passed_over))

    def _chunk(self, job: Job, start: int, tokens: int) -> int:
        """Cut a chunk to where the state after it can be kept, if states are kept."""
        if not self._keeps_states:
            return tokens
        return aligned_chunk(job, start, tokens, self._config)

    @staticmethod
    def _note(step: Step, job: Job, tokens: int, *, admitted: bool) -> None:
        emits = job.computed + tokens >= job.known + job.placeholders
        step.scheduled.append(Scheduled(job, tokens, job.computed, admitted, emits))

    def update(self, step: Step) -> list[Job]:
        """Take in the output of a step; return the jobs that it ended, whose blocks are free."""
        ended: list[Job] = []
        for part in step.scheduled:
            job = part.job
            if job.finish_step >= 0 or job.is_done:
                continue
            job.in_flight -= part.tokens
            is_stale = job.stale > 0
            if is_stale:
                job.stale -= part.tokens
            if part.emits:
                self._append_token(job, is_stale=is_stale)
            if job.is_done:
                self.cache.release(job)
                ended.append(job)
        if ended:
            self.running = [job for job in self.running if not job.is_done]
            if any(job.is_done for job in self.waiting):
                self.waiting = deque(job for job in self.waiting if not job.is_done)
        return ended

    def _append_token(self, job: Job, *, is_stale: bool) -> None:
        job.known += 1
        if not self._config.async_scheduling or is_stale:
            return
        job.placeholders -= 1
        # Tokens are known one step late, and with them the blocks that they complete.
        self.cache.register(job, job.computed - job.placeholders)
