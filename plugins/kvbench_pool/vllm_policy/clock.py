"""What time it is in a simulation: a count of steps, or the seconds that a model gives them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from kvbench_pool.step_time import StepTime, StepWork
from kvbench_pool.step_time.timing import RequestTimes, Timing
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.job import Job
from kvbench_pool.vllm_policy.scheduler import Step


class Clock(Protocol):
    """Says which requests have come, and learns what every step does.

    Attributes:
        step: Number of the step that comes next.
        timing: Seconds of the requests, ``None`` where only steps are counted.
    """

    step: int
    timing: Timing | None

    def has_come(self, job: Job) -> bool:
        """Return whether a request can join the queue."""

    def jump_to(self, job: Job) -> None:
        """Pass the time until ``job`` comes, with nothing under way."""

    def join(self, job: Job) -> None:
        """Note that a request joined the queue."""

    def decided(self, step: Step) -> None:
        """Note that a step was decided and is on its way."""

    def output(self) -> None:
        """Wait for the output of the oldest step under way."""

    def settled(self, step: Step, ended: Sequence[Job]) -> None:
        """Note what that output did."""

    def times(self, job: Job) -> RequestTimes | None:
        """Return the moments of a request that ended."""


def clock_of(config: PoolConfig) -> Clock:
    """Return the clock that a configuration asks for."""
    return LogicalClock() if config.step_time is None else ModelledClock(config.step_time)


class LogicalClock:
    """Counts steps; a request joins at its arrival step."""

    def __init__(self) -> None:
        self.step = 0
        self.timing: Timing | None = None

    def has_come(self, job: Job) -> bool:
        """Return whether the request's arrival step is here."""
        return job.arrive_step <= self.step

    def jump_to(self, job: Job) -> None:
        """Go on to the request's arrival step."""
        self.step = max(self.step, job.arrive_step)

    def join(self, job: Job) -> None:
        """Note nothing: the arrival step is known."""

    def decided(self, step: Step) -> None:
        """Note nothing: every step lasts the same."""

    def output(self) -> None:
        """Note nothing."""

    def settled(self, step: Step, ended: Sequence[Job]) -> None:
        """Note nothing."""

    def times(self, job: Job) -> RequestTimes | None:
        """Return nothing: only steps are counted."""
        return None


class ModelledClock:
    """Runs on simulated seconds; the device works on one step at a time.

    A step starts when it was decided and the one before it is done. Under async scheduling the
    next one is decided as soon as the output before it is there, while the device still works.
    """

    def __init__(self, model: StepTime) -> None:
        self.step = 0
        self.timing: Timing | None = Timing(model.assumptions())
        self._timing = self.timing
        self._model = model
        self._now_s = 0.0
        self._device_free_s = 0.0
        self._ends: deque[float] = deque()

    def has_come(self, job: Job) -> bool:
        """Return whether the request's arrival has passed."""
        return job.arrive_s <= self._now_s

    def jump_to(self, job: Job) -> None:
        """Pass the time to the request's arrival."""
        self._now_s = max(self._now_s, job.arrive_s)

    def join(self, job: Job) -> None:
        """Note the step from which the request could run."""
        job.arrive_step = self.step

    def decided(self, step: Step) -> None:
        """Send the step to the device; one that computes nothing takes no time."""
        self._timing.step_starts_s.append(self._now_s)
        work = StepWork.of([(part.tokens, part.computed) for part in step.scheduled])
        seconds = self._model.seconds(work) if work.chunks else 0.0
        self._device_free_s = max(self._now_s, self._device_free_s) + seconds
        self._ends.append(self._device_free_s)
        self._timing.busy_s += seconds
        for part in step.scheduled:
            if part.admitted and part.job.scheduled_s < 0:
                part.job.scheduled_s = self._now_s

    def output(self) -> None:
        """Pass the time until the oldest step is done."""
        self._now_s = max(self._now_s, self._ends.popleft())

    def settled(self, step: Step, ended: Sequence[Job]) -> None:
        """Note first tokens and the requests that ended, all at the end of the step."""
        for part in step.scheduled:
            job = part.job
            if job.first_token_s < 0 and job.known > job.prompt_tokens:
                job.first_token_s = self._now_s
        for job in ended:
            self._timing.add(self.times(job), job.prompt_tokens, job.output_tokens)

    def times(self, job: Job) -> RequestTimes:
        """Return the moments of a request that ended now."""
        return RequestTimes(
            arrive_s=job.arrive_s,
            scheduled_s=job.scheduled_s,
            first_token_s=job.first_token_s,
            finish_s=self._now_s,
        )
