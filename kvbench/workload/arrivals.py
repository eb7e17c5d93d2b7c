"""Arrival processes: endless streams of arrival times in ms, never decreasing, from 0 on."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvbench.workload.seeds import stream
from kvbench.workload.spec import WorkloadSpec

_MS = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """An arrival process.

    Attributes:
        process: ``all_at_once``, ``uniform``, ``poisson``, ``gamma`` or ``on_off``.
        rate_per_s: Mean requests per second over the whole time (``on_off``: pauses included).
        cv: Coefficient of variation of the gaps (``gamma``).
        on_s: Seconds with arrivals (``on_off``).
        off_s: Seconds without (``on_off``).
    """

    process: str = "all_at_once"
    rate_per_s: float = 0.0
    cv: float = 2.0
    on_s: float = 10.0
    off_s: float = 10.0

    def times_ms(self, rng: random.Random) -> Iterator[float]:
        """Yield arrival times in ms; the first request arrives after the first gap."""
        if self.process == "all_at_once":
            return itertools.repeat(0.0)
        if self.process == "on_off":
            return self._bursts(rng)
        return itertools.accumulate(self._gaps_ms(rng))

    def _gaps_ms(self, rng: random.Random) -> Iterator[float]:
        mean_ms = _MS / self.rate_per_s
        if self.process == "uniform":
            return itertools.repeat(mean_ms)
        if self.process == "poisson":
            return iter(lambda: rng.expovariate(1.0) * mean_ms, None)
        shape = 1.0 / self.cv**2
        return iter(lambda: rng.gammavariate(shape, mean_ms / shape), None)

    def _bursts(self, rng: random.Random) -> Iterator[float]:
        """Yield a Poisson process that runs only in the on-phases, at the rate that they need."""
        on_ms, cycle_ms = self.on_s * _MS, (self.on_s + self.off_s) * _MS
        gap_ms = _MS / self.rate_per_s * on_ms / cycle_ms
        busy_ms = 0.0
        while True:
            busy_ms += rng.expovariate(1.0) * gap_ms
            cycle, within = divmod(busy_ms, on_ms)
            yield math.floor(cycle) * cycle_ms + within


def arrival_times(spec: WorkloadSpec, seed: int) -> Iterator[float]:
    """Yield the arrival times in ms that a workload's table asks for."""
    params: dict[str, Any] = dict(spec.params)
    arrivals = Arrivals(
        process=params["arrival"],
        rate_per_s=float(params.get("rate_per_s", 0.0)),
        cv=float(params["arrival_cv"]),
        on_s=float(params["on_s"]),
        off_s=float(params["off_s"]),
    )
    return arrivals.times_ms(stream(seed, spec.kind, "arrivals"))
