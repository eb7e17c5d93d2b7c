"""What a simulation found, in the terms of the engine's own logs."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvbench_pool.step_time.timing import RequestTimes, Timing
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.pool_split import SplitSeries
from kvbench_pool.vllm_policy.step_series import StepSeries


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """What happened to one request.

    Attributes:
        index: Place of the request in the workload, from 0; dropped requests have no record.
        prompt_tokens: Tokens of its prompt.
        output_tokens: Tokens that it generated.
        arrive_step: Step from which it could run.
        first_step: Step in which it was first scheduled.
        finish_step: Step in which it ended.
        hit_tokens: Prompt tokens found cached at its first admission.
        preemptions: Times it lost its blocks.
        rehit_tokens: Tokens found cached when it came back, all returns together.
        blocks: Blocks it held at the end, null blocks of a window included.
        times: Its moments in seconds, ``None`` where only steps are counted.
    """

    index: int
    prompt_tokens: int
    output_tokens: int
    arrive_step: int
    first_step: int
    finish_step: int
    hit_tokens: int
    preemptions: int
    rehit_tokens: int
    blocks: int
    times: RequestTimes | None = None


@dataclass(slots=True, kw_only=True)
class Counts:
    """Sums over the requests.

    Attributes:
        requests: Requests that were run.
        dropped: Requests that could never fit and were left out.
        hit_tokens: Prompt tokens found cached at first admissions.
        query_tokens: Prompt tokens looked up then.
        preemptions: Times a request lost its blocks.
        rehit_tokens: Tokens found cached by returning requests.
        requery_tokens: Tokens looked up by them.
        queued_steps: Steps that requests waited for their first schedule.
        max_output_tokens: Longest output.
    """

    requests: int = 0
    dropped: int = 0
    hit_tokens: int = 0
    query_tokens: int = 0
    preemptions: int = 0
    rehit_tokens: int = 0
    requery_tokens: int = 0
    queued_steps: int = 0

    def note_admission(self, *, first: bool, found: int, looked_up: int) -> None:
        """Count one admission."""
        if first:
            self.hit_tokens += found
            self.query_tokens += looked_up
        else:
            self.rehit_tokens += found
            self.requery_tokens += looked_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Everything that a simulation found; evidence: simulated.

    Attributes:
        config: Pool and scheduler.
        counts: Sums over the requests.
        series: Figures of every step.
        records: One record per request that was run, in order of their ends; empty when they
            went to a sink instead.
        last_step: Number of the last step; steps in which nothing ran are not simulated.
        evicted_blocks: Findable blocks that were handed out for something else.
        free_queue: Free blocks at the end, in the order of their next use.
        digest: Digest over all decisions, empty unless asked for.
        timing: Simulated seconds, ``None`` where only steps are counted.
        split: What every slot of the pool was used for.
    """

    config: PoolConfig
    counts: Counts
    series: StepSeries
    split: SplitSeries = field(repr=False)
    records: tuple[RequestRecord, ...] = field(repr=False)
    last_step: int
    evicted_blocks: int
    free_queue: tuple[int, ...] = field(repr=False)
    digest: str = ""
    timing: Timing | None = None

    def seconds_at(self, step: int) -> float:
        """Return the simulated seconds at which a step was decided."""
        if self.timing is not None:
            return self.timing.seconds_at(step)
        return step * (self.config.step_ms / 1000)

    @property
    def mean_queue_s(self) -> float:
        """Simulated seconds from arrival to first schedule, averaged over the requests."""
        if self.timing is not None:
            return self.timing.mean_queue_s
        queued_s = self.counts.queued_steps * (self.config.step_ms / 1000)
        return queued_s / max(1, self.counts.requests)

    def _internal_frag(self) -> float:
        """Return the empty slots per slot in use, as the logs count them.

        The logs take the first group's tables. A table of states says nothing of tokens, so with
        such groups the slots of all of them are counted.
        """
        if self.config.has_state:
            share = self.split.mean_shares()
            return share["tail"] + share["reserved"]
        return self.series.waste_sum / max(1, self.series.busy_steps)

    def summary(self) -> dict[str, int | float | str]:
        """Return the fields of the summary line of a decision log, by their names there."""
        from kvbench_pool.digest import free_queue_digest

        counts, series = self.counts, self.series
        busy = max(1, series.busy_steps)
        summary: dict[str, int | float | str] = {"digest": self.digest} if self.digest else {}
        return summary | {
            "freeq": free_queue_digest(self.free_queue),
            "steps": series.steps,
            "req_steps": series.scheduled_sum,
            "last_k": self.last_step,
            "hit_tokens": counts.hit_tokens,
            "query_tokens": counts.query_tokens,
            "hit_rate": counts.hit_tokens / max(1, counts.query_tokens),
            "preemptions": counts.preemptions,
            "recompute_query": counts.requery_tokens,
            "recompute_hit": counts.rehit_tokens,
            "sched_tokens": series.computed_sum,
            "peak_used_blocks": series.peaks["used_blocks"],
            "mean_used_blocks": series.used_sum / busy,
            "peak_cached_blocks": series.peaks["cached_prefixes"],
            "mean_internal_frag": self._internal_frag(),
            "peak_running": series.peaks["running"],
            "peak_waiting": series.peaks["waiting"],
        }
