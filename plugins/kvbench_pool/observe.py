"""Observations of simulated numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from kvbench.engine import Evidence, Observation


class Point(Protocol):
    """A value at a step."""

    @property
    def step(self) -> int:
        """The step."""

    @property
    def value(self) -> float:
        """The value."""


def simulated(values: Mapping[str, float]) -> Iterator[Observation]:
    """Yield one observation per metric."""
    for name, value in values.items():
        yield Observation(metric=name, value=float(value), evidence=Evidence.SIMULATED)


def simulated_list(metric: str, values: Iterable[float]) -> Iterator[Observation]:
    """Yield the values of one metric in order."""
    for value in values:
        yield Observation(metric=metric, value=float(value), evidence=Evidence.SIMULATED)


def simulated_series(
    metric: str, points: Iterable[Point], seconds_at: Callable[[int], float]
) -> Iterator[Observation]:
    """Yield a time series; ``seconds_at`` gives the simulated seconds of a step."""
    for point in points:
        yield Observation(
            metric=metric,
            value=float(point.value),
            evidence=Evidence.SIMULATED,
            t_offset_s=seconds_at(point.step),
        )
