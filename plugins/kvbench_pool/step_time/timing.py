"""Simulated seconds of the requests and of the whole run, where steps have a duration."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

#: Percentiles that are reported of each latency.
PERCENTILES = (50, 90, 99)

#: Latencies that a request has, as metrics name them.
LATENCIES = ("queue", "ttft", "inter_token", "latency")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """Moments of one request in simulated seconds since the start of the workload.

    Attributes:
        arrive_s: It arrived.
        scheduled_s: The step that first computed something for it was decided.
        first_token_s: Its first token was there.
        finish_s: Its last token was there.
    """

    arrive_s: float
    scheduled_s: float
    first_token_s: float
    finish_s: float


@dataclass(slots=True)
class Timing:
    """Times of all requests, eight bytes per latency, and of all steps.

    Attributes:
        assumptions: What the seconds rest on.
        busy_s: Seconds in which a step ran.
        first_s: Arrival of the first request.
        last_s: End of the last one.
        prompt_tokens: Prompt tokens of the requests that ended.
        output_tokens: Tokens that they generated.
        step_starts_s: When each step was decided.
    """

    assumptions: tuple[str, ...] = ()
    busy_s: float = 0.0
    first_s: float = float("inf")
    last_s: float = 0.0
    prompt_tokens: int = 0
    output_tokens: int = 0
    step_starts_s: array[float] = field(default_factory=lambda: array("d"))
    _seconds: dict[str, array[float]] = field(
        default_factory=lambda: {name: array("d") for name in LATENCIES}
    )

    def add(self, times: RequestTimes, prompt_tokens: int, output_tokens: int) -> None:
        """Count a request that ended."""
        self.first_s = min(self.first_s, times.arrive_s)
        self.last_s = max(self.last_s, times.finish_s)
        self.prompt_tokens += prompt_tokens
        self.output_tokens += output_tokens
        seconds = self._seconds
        seconds["queue"].append(times.scheduled_s - times.arrive_s)
        seconds["ttft"].append(times.first_token_s - times.arrive_s)
        seconds["latency"].append(times.finish_s - times.arrive_s)
        if output_tokens > 1:
            gaps = output_tokens - 1
            seconds["inter_token"].append((times.finish_s - times.first_token_s) / gaps)

    @property
    def total_s(self) -> float:
        """Seconds from the first arrival to the last token."""
        return max(0.0, self.last_s - self.first_s)

    @property
    def mean_queue_s(self) -> float:
        """Seconds from arrival to first schedule, averaged over the requests."""
        waits = self._seconds["queue"]
        return sum(waits) / max(1, len(waits))

    def seconds_at(self, step: int) -> float:
        """Return when a step was decided."""
        return self.step_starts_s[step]

    def figures(self) -> dict[str, float]:
        """Return the metrics of a modelled clock; rates only where time passed."""
        total = self.total_s
        figures = {"simulated_s": total}
        if total:
            figures |= {
                "output_tokens_per_s": self.output_tokens / total,
                "tokens_per_s": (self.prompt_tokens + self.output_tokens) / total,
                "busy_ratio": self.busy_s / total,
            }
        for name, seconds in self._seconds.items():
            figures |= _percentiles(name, seconds)
        return figures


def _percentiles(name: str, seconds: array[float]) -> dict[str, float]:
    import numpy as np

    if not seconds:
        return {}
    # The value of a request, not one between two: the smallest that so many do not exceed.
    found = np.percentile(np.asarray(seconds), PERCENTILES, method="inverted_cdf")
    return {
        f"p{share}_{name}_s": float(value) for share, value in zip(PERCENTILES, found, strict=True)
    }
