"""Simulated seconds of a replay under a memory policy: its steps run one after another."""

from __future__ import annotations

from collections.abc import Iterable

from kvbench.workload.request import Request
from kvbench_pool.policies.base import Job
from kvbench_pool.step_time import StepTime, StepWork
from kvbench_pool.step_time.timing import RequestTimes, Timing


class ReplayClock:
    """The clock of one replay.

    Attributes:
        timing: Seconds of the requests and of the steps so far.
    """

    def __init__(self, model: StepTime) -> None:
        self.timing = Timing(model.assumptions())
        self._model = model
        self._now_s = 0.0
        self._scheduled_s: dict[int, float] = {}
        self._first_token_s: dict[int, float] = {}

    def has_come(self, request: Request) -> bool:
        """Return whether a request's arrival has passed."""
        return request.arrival_ms / 1000 <= self._now_s

    def jump_to(self, request: Request) -> None:
        """Pass the time to a request's arrival, with nothing under way."""
        self._now_s = max(self._now_s, request.arrival_ms / 1000)

    def schedule(self, job: Job) -> None:
        """Note that a job was admitted; only the first time counts."""
        self._scheduled_s.setdefault(job.index, self._now_s)

    def run_step(self, chunks: Iterable[tuple[int, int]]) -> None:
        """Pass the time of a step of (new tokens, past tokens) per job."""
        self.timing.step_starts_s.append(self._now_s)
        work = StepWork.of(chunks)
        seconds = self._model.seconds(work) if work.chunks else 0.0
        self.timing.busy_s += seconds
        self._now_s += seconds

    def first_token(self, job: Job) -> None:
        """Note that a job's prompt is done, and with it its first token."""
        self._first_token_s.setdefault(job.index, self._now_s)

    def end(self, job: Job) -> None:
        """Note a job's last token."""
        request = job.request
        times = RequestTimes(
            arrive_s=request.arrival_ms / 1000,
            scheduled_s=self._scheduled_s.pop(job.index),
            first_token_s=self._first_token_s.pop(job.index),
            finish_s=self._now_s,
        )
        self.timing.add(times, request.prompt_tokens, request.output_tokens)
