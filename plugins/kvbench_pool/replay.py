"""Replays a workload under a memory policy with one plain continuous-batching scheduler.

The scheduler is the same for every policy, so that only the memory differs: first come, first
served; running requests first, each with one token or a chunk of its prompt, under a token budget
per step; admission of the queue's head only, with memory for its whole prompt; when a running
request cannot grow, the youngest running one loses its memory and starts over. The exact vLLM
scheduler is the ``vllm`` policy's business, not this module's.

Steps in which every running request just decodes into memory it has are not visited, unless a
clock has to know how long each of them lasts.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from kvbench.workload.request import Request
from kvbench_pool.occupancy import Occupancy
from kvbench_pool.policies.base import Job, MemoryPolicy
from kvbench_pool.replay_clock import ReplayClock


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerLimits:
    """Limits of the scheduler.

    Attributes:
        max_num_seqs: Most requests running at once.
        max_num_batched_tokens: Token budget of a step.
        step_ms: Milliseconds of a step; arrivals, in whole ms, are rounded up to the next step.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    step_ms: float = 50.0


@dataclass(slots=True, kw_only=True)
class Totals:
    """Counters of a replay.

    Attributes:
        requests: Requests that were run.
        dropped: Requests that could never fit, left out.
        steps: Steps in which something was running.
        hit_tokens: Prompt tokens found in the pool at first admission.
        query_tokens: Prompt tokens looked up then.
        preemptions: Times that a running request lost its memory.
        recomputed_tokens: Tokens computed again after a preemption.
        scheduled_tokens: Tokens computed.
        queued_steps: Steps that requests waited before their first admission, summed.
        blocked_steps: Steps in which the queue's head waited for memory or a seat.
        outside_slot_steps: Free slots that could not serve the head in those steps although
            there were enough of them, summed over the steps.
    """

    requests: int = 0
    dropped: int = 0
    steps: int = 0
    hit_tokens: int = 0
    query_tokens: int = 0
    preemptions: int = 0
    recomputed_tokens: int = 0
    scheduled_tokens: int = 0
    queued_steps: int = 0
    blocked_steps: int = 0
    outside_slot_steps: int = 0


@dataclass(slots=True, eq=False, kw_only=True)
class _Running:
    """A job that holds memory.

    Once it decodes, ``lead`` + t tokens are computed at the end of step t.
    """

    job: Job
    order: int
    arrived: int
    lead: int | None = None

    @property
    def ends_at(self) -> int:
        """Step that computes the last cache entry."""
        return self.job.final_tokens - (self.lead or 0)


@dataclass(slots=True, kw_only=True)
class _Waiting:
    job: Job
    arrived: int
    resumes: bool = False


@dataclass(slots=True)
class Replay:
    """One replay; ``run`` it once, then read ``totals``, ``occupancy`` and the clock's timing.

    Without a clock steps last ``limits.step_ms``; with one, requests join when it has passed
    their arrival.
    """

    policy: MemoryPolicy
    limits: SchedulerLimits
    occupancy: Occupancy
    clock: ReplayClock | None = None
    totals: Totals = field(default_factory=Totals)
    _step: int = 0
    _running: dict[int, _Running] = field(default_factory=dict)
    _prefilling: list[_Running] = field(default_factory=list)
    _ending: list[_Running] = field(default_factory=list)
    _waiting: deque[_Waiting] = field(default_factory=deque)
    _due: list[tuple[int, int, int]] = field(default_factory=list)
    _orders: itertools.count[int] = field(default_factory=itertools.count)
    _decoding: int = 0
    _blocked: bool = False
    _outside_slots: int = 0
    _chunks: list[tuple[int, int]] = field(default_factory=list)

    def run(self, requests: Iterable[Request]) -> None:
        """Replay all requests, in order of their arrival."""
        arrivals = enumerate(requests)
        upcoming = next(arrivals, None)
        while upcoming or self._waiting or self._running:
            if upcoming and not self._waiting and not self._running:
                self._jump_to(upcoming[1])
            while upcoming and self._has_come(upcoming[1]):
                self._arrive(*upcoming)
                upcoming = next(arrivals, None)
            if self._waiting or self._running:
                self._advance()
                self._skip(self._arrival_step(upcoming[1]) if upcoming else None)

    def _jump_to(self, request: Request) -> None:
        if self.clock is not None:
            self.clock.jump_to(request)
        else:
            self._step = max(self._step, self._arrival_step(request))

    def _has_come(self, request: Request) -> bool:
        if self.clock is not None:
            return self.clock.has_come(request)
        return self._arrival_step(request) <= self._step

    def seconds_at(self, step: int) -> float:
        """Return the simulated seconds at which a step began."""
        if self.clock is not None:
            return self.clock.timing.seconds_at(step)
        return step * (self.limits.step_ms / 1000)

    @property
    def mean_queue_s(self) -> float:
        """Simulated seconds from arrival to first admission, averaged over the requests."""
        if self.clock is not None:
            return self.clock.timing.mean_queue_s
        queued_s = self.totals.queued_steps * (self.limits.step_ms / 1000)
        return queued_s / max(1, self.totals.requests)

    def _arrival_step(self, request: Request) -> int:
        return math.ceil(int(request.arrival_ms) / self.limits.step_ms)

    def _arrive(self, index: int, request: Request) -> None:
        job = Job(index=index, request=request, known=request.prompt_tokens)
        if not self.policy.fits(job):
            self.totals.dropped += 1
            return
        self.totals.requests += 1
        self._waiting.append(_Waiting(job=job, arrived=self._step))

    def _advance(self) -> None:
        """Run one step."""
        waiting = len(self._waiting)
        preempted = self._serve_due()
        budget = self._prefill(self.limits.max_num_batched_tokens - self._decoding)
        if not preempted and not self._blocked:
            self._admit(budget)
        self._dwell(1)
        self.occupancy.visit(self._step, self.policy, len(self._running), waiting)
        if self.clock is not None:
            self._pass_time(self.clock)
        ended = self._end()
        self._blocked = self._blocked and not ended and not preempted
        self._step += 1

    def _pass_time(self, clock: ReplayClock) -> None:
        """Let the clock run for what the step computes: prompts, and a token of each decode."""
        decodes = [
            (1, self._step - 1 + running.lead)
            for running in self._running.values()
            if running.lead is not None
        ]
        clock.run_step([*decodes, *self._chunks])
        self._chunks.clear()

    def _skip(self, next_arrival: int | None) -> None:
        """Pass over the steps in which every running job only decodes into memory it has."""
        if self._prefilling or not self._running or (self._waiting and not self._blocked):
            return
        if self.clock is not None:
            return
        until = self._due[0][0] if next_arrival is None else min(self._due[0][0], next_arrival)
        if until > self._step:
            self._dwell(until - self._step)
            self._step = until

    def _dwell(self, steps: int) -> None:
        """Let the decoding jobs write for ``steps`` steps."""
        written = self._decoding * steps
        self.policy.wrote(self._decoding)
        self.occupancy.dwell(self.policy, steps, self._decoding)
        self.policy.wrote(written - self._decoding)
        self.totals.scheduled_tokens += written
        self.totals.steps += steps
        if self._blocked:
            self.totals.blocked_steps += steps
            self.totals.outside_slot_steps += steps * self._outside_slots

    # --- running jobs -------------------------------------------------------------------------

    def _serve_due(self) -> bool:
        """Grow the jobs that need memory in this step, oldest first; note those that end."""
        preempted = False
        while self._due and self._due[0][0] <= self._step:
            _, order, index = heapq.heappop(self._due)
            running = self._running.get(index)
            if running is None or running.order != order:
                continue
            running.job.known = self._step + (running.lead or 0)
            if self.policy.room(running.job) < 0 and not self.policy.grow(running.job):
                preempted = True
                if not self._make_room(running):
                    continue
            self._plan(running)
        return preempted

    def _make_room(self, running: _Running) -> bool:
        """Preempt the youngest until ``running`` can grow; ``False`` when it was its own turn."""
        while self._preempt_youngest() is not running:
            if self.policy.grow(running.job):
                return True
        return False

    def _plan(self, running: _Running) -> None:
        """Note when a decoding job, served up to this step, needs attention next."""
        if running.ends_at <= self._step:
            self._ending.append(running)
            return
        grows_at = self._step + self.policy.room(running.job) + 1
        at = min(grows_at, running.ends_at)
        heapq.heappush(self._due, (at, running.order, running.job.index))

    def _preempt_youngest(self) -> _Running:
        _, running = self._running.popitem()
        job = running.job
        if running.lead is None:
            self._prefilling.remove(running)
        else:
            self._decoding -= 1
            job.computed = self._step - 1 + running.lead
            job.known = job.computed + 1
        self.policy.release(job)
        self.totals.preemptions += 1
        self.totals.recomputed_tokens += job.computed
        job.computed = 0
        self._waiting.appendleft(_Waiting(job=job, arrived=running.arrived, resumes=True))
        return running

    def _prefill(self, budget: int) -> int:
        """Compute chunks of the prompts under way, in order of admission."""
        for running in self._prefilling:
            budget -= self._compute(running.job, budget)
        return budget

    def _compute(self, job: Job, budget: int) -> int:
        tokens = min(job.known - job.computed, budget)
        if self.clock is not None and tokens:
            self._chunks.append((tokens, job.computed))
        job.computed += tokens
        self.policy.wrote(tokens)
        self.totals.scheduled_tokens += tokens
        return tokens

    def _end(self) -> bool:
        """Close the step: prompts that are done start to decode, finished jobs go."""
        for running in [one for one in self._prefilling if one.job.computed == one.job.known]:
            self._prefilling.remove(running)
            self.policy.computed(running.job)
            if self.clock is not None:
                self.clock.first_token(running.job)
            running.lead = running.job.known - self._step
            self._decoding += 1
            self._plan(running)
        ending, self._ending = self._ending, []
        for running in ending:
            self._decoding -= 1
            running.job.known = running.job.computed = running.job.final_tokens
            self.policy.release(running.job)
            if self.clock is not None:
                self.clock.end(running.job)
            del self._running[running.job.index]
        return bool(ending)

    # --- the queue ----------------------------------------------------------------------------

    def _admit(self, budget: int) -> None:
        """Admit from the head of the queue while budget, seats and memory last."""
        while self._waiting and budget > 0:
            head = self._waiting[0]
            seats = self.limits.max_num_seqs - len(self._running)
            found = self.policy.admit(head.job) if seats else None
            if found is None:
                self._blocked = True
                self._outside_slots = self.policy.wasted_outside(head.job) if seats else 0
                self._refuse_deadlock()
                return
            budget -= self._start(self._waiting.popleft(), found, budget)

    def _start(self, waiting: _Waiting, found: int, budget: int) -> int:
        job = waiting.job
        job.computed = found
        if waiting.resumes:
            self.totals.recomputed_tokens -= found
        else:
            self.totals.hit_tokens += found
            self.totals.query_tokens += job.known
            self.totals.queued_steps += self._step - waiting.arrived
        if self.clock is not None:
            self.clock.schedule(job)
        running = _Running(job=job, order=next(self._orders), arrived=waiting.arrived)
        self._running[job.index] = running
        self._prefilling.append(running)
        return self._compute(job, budget)

    def _refuse_deadlock(self) -> None:
        if not self._running:
            raise RuntimeError(
                f"policy {self.policy.name!r} says that a request fits, and refuses it empty"
            )
