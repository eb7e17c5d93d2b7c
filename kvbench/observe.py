"""Watching a running server: bounded series, gaps and restarts survived, one result at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kvbench.engine import Evidence, Observer, Reading, Scalar
from kvbench.errors import CellFailed, EngineUnavailable
from kvbench.plugins import Plugin, Plugins
from kvbench.results.record import CellIdentity, CellRecord, MetricSeries
from kvbench.results.schema import Phase, Status

#: Gap sentences that a record keeps; further gaps are only counted.
_MOST_GAPS = 100


@dataclass(slots=True, kw_only=True)
class Series:
    """Readings over time, thinned out when there are too many.

    Thinning keeps of every two neighbours the one with the larger first gauge, so that the
    peaks stay, and doubles the interval from then on.

    Attributes:
        most: Readings to keep, at least 2.
        interval_s: Seconds between two readings.
        readings: (seconds since the start, gauges), in order.
    """

    most: int
    interval_s: float
    readings: list[tuple[float, Mapping[str, float]]] = field(default_factory=list)

    def add(self, at_s: float, gauges: Mapping[str, float]) -> None:
        """Append a reading; thin out when the bound is passed."""
        self.readings.append((at_s, gauges))
        if len(self.readings) > self.most:
            pairs = zip(self.readings[::2], self.readings[1::2], strict=False)
            kept = [max(pair, key=lambda reading: _leading(reading[1])) for pair in pairs]
            self.readings = kept + self.readings[len(kept) * 2 :]
            self.interval_s *= 2


@dataclass(slots=True, kw_only=True)
class Observation:
    """Everything seen of one server so far."""

    series: Series
    last: Reading | None = None
    gaps: list[str] = field(default_factory=list)
    gap_count: int = 0
    missing: dict[str, str] = field(default_factory=dict)


def find_observer(url: str, plugins: Plugins) -> tuple[Plugin, Observer]:
    """Return the first plugin whose engine answers at ``url``, with its observer.

    Raises:
        EngineUnavailable: No plugin knows the server.
        CellFailed: A plugin knows it and cannot read it.
    """
    for plugin in plugins.loaded.values():
        observer = plugin.observe(url)
        if observer is not None:
            return plugin, observer
    raise EngineUnavailable(
        f"no engine plugin recognises the server at {url}",
        "check the address (http://HOST:PORT, without a path) and that its metrics are on",
    )


def watch(
    observer: Observer,
    *,
    interval_s: float,
    most: int,
    until: Callable[[float], bool],
    each: Callable[[Observation], None],
) -> Observation:
    """Read until ``until(elapsed_s)`` says so; ``each`` is called after every look.

    Args:
        observer: The server.
        interval_s: Seconds between two looks; grows when the series is thinned out.
        most: Readings to keep.
        until: Told the seconds since the start; true ends the watch.
        each: Shows progress, saves what there is.
    """
    seen = Observation(series=Series(most=most, interval_s=interval_s))
    start = due = time.monotonic()
    while True:
        _look(observer, seen, time.monotonic() - start)
        each(seen)
        due += seen.series.interval_s
        while (left := due - time.monotonic()) > 0 and not until(time.monotonic() - start):
            time.sleep(min(left, 0.1))
        if until(time.monotonic() - start):
            return seen


def record_of(seen: Observation, identity: CellIdentity, explained: tuple[str, ...]) -> CellRecord:
    """Return the record of what was seen: passed when there is at least one reading."""
    if not seen.series.readings:
        reason = seen.gaps[-1] if seen.gaps else "nothing was read"
        return CellRecord(
            identity=identity, status=Status.FAILED, reason="server_unreachable", error=reason
        )
    return CellRecord(
        identity=identity,
        status=Status.PASSED,
        attempt=1,
        effective=_effective(seen),
        assumptions=explained,
        warnings=_warnings(seen),
        series=(*_gauge_series(seen), *_total_series(seen)),
    )


def _look(observer: Observer, seen: Observation, at_s: float) -> None:
    try:
        reading = observer.read()
    except CellFailed as failure:
        seen.gap_count += 1
        if len(seen.gaps) < _MOST_GAPS:
            seen.gaps.append(f"no reading at {at_s:.1f} s: {failure}")
        return
    seen.last = reading
    seen.missing.update(reading.missing)
    seen.series.add(at_s, reading.gauges)


def _gauge_series(seen: Observation) -> list[MetricSeries]:
    names = dict.fromkeys(name for _, gauges in seen.series.readings for name in gauges)
    found = []
    for name in names:
        kept = [(at_s, gauges[name]) for at_s, gauges in seen.series.readings if name in gauges]
        found.append(
            MetricSeries(
                phase=Phase.MEASURE,
                repeat=0,
                metric=name,
                evidence=Evidence.ENGINE,
                values=tuple(value for _, value in kept),
                t_offsets_us=tuple(round(at_s * 1e6) for at_s, _ in kept),
            )
        )
    return found


def _total_series(seen: Observation) -> list[MetricSeries]:
    totals = seen.last.totals if seen.last else {}
    return [
        MetricSeries(
            phase=Phase.MEASURE,
            repeat=0,
            metric=name,
            evidence=Evidence.ENGINE,
            values=(float(value),),
        )
        for name, value in totals.items()
    ]


def _effective(seen: Observation) -> Mapping[str, Scalar]:
    return seen.last.effective if seen.last else {}


def _warnings(seen: Observation) -> tuple[str, ...]:
    unnamed = seen.gap_count - len(seen.gaps)
    more = (f"{unnamed} further readings failed",) if unnamed else ()
    unknown = (f"{name} is unknown: {reason}" for name, reason in seen.missing.items())
    return (*seen.gaps, *more, *unknown)


def _leading(gauges: Mapping[str, float]) -> float:
    return next(iter(gauges.values()), 0.0)
