"""From a plugin's ``CellOutput`` to a record of the journal, every number checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from kvbench.engine import CellOutput, Observation, Scalar
from kvbench.errors import CellFailed
from kvbench.results.journal import RepeatRecord
from kvbench.results.record import MetricSeries
from kvbench.results.schema import COUNTED_UNITS, MAX_COUNT, Phase
from kvbench.runner.failure import clean

#: (metric, evidence) to unit.
Units = Mapping[tuple[str, str], str]


def record_of(
    output: CellOutput,
    units: Units,
    *,
    phase: Phase,
    repeat: int,
    started_at_us: int,
    wall_s: float,
) -> RepeatRecord:
    """Return the record of one repeat.

    Raises:
        CellFailed: A metric is not registered, a value is not finite or a count too large, or
            there is no observation at all.
    """
    if not output.observations:
        raise CellFailed("no_samples", "the engine returned no observation")
    return RepeatRecord(
        phase=phase,
        repeat=repeat,
        started_at_us=started_at_us,
        wall_s=wall_s,
        series=tuple(_series(output.observations, units, phase, repeat)),
        effective={str(key): _scalar(value) for key, value in output.effective.items()},
        assumptions=_texts(output.assumptions),
        warnings=_texts(output.warnings),
        artifacts={clean(str(k)): clean(str(v)) for k, v in output.artifacts.items()},
        invalid=clean(output.invalid),
        invalid_message=clean(output.invalid_message),
    )


def _series(
    observations: Iterable[Observation], units: Units, phase: Phase, repeat: int
) -> Iterable[MetricSeries]:
    grouped: dict[tuple[str, str], list[Observation]] = {}
    for observation in observations:
        grouped.setdefault((observation.metric, str(observation.evidence)), []).append(observation)
    for (metric, evidence), found in grouped.items():
        unit = units.get((metric, evidence))
        if unit is None:
            raise CellFailed(
                "unregistered_metric",
                f"metric {metric!r} with evidence {evidence!r} is not registered by the plugin",
            )
        yield MetricSeries(
            phase=phase,
            repeat=repeat,
            metric=metric,
            evidence=evidence,
            values=tuple(_value(item, unit) for item in found),
            t_offsets_us=_offsets(found),
        )


def _value(observation: Observation, unit: str) -> float:
    metric = observation.metric
    try:
        value = float(observation.value)
    except (TypeError, ValueError, OverflowError):
        raise CellFailed(
            "bad_value", f"{metric} is {observation.value!r}, expected a number"
        ) from None
    if not math.isfinite(value):
        raise CellFailed("non_finite_value", f"{metric} is {value}, expected a finite number")
    if unit in COUNTED_UNITS and abs(observation.value) > MAX_COUNT:
        raise CellFailed("value_too_large", f"{metric} is {observation.value}, above 2**53")
    return value


def _offsets(observations: list[Observation]) -> tuple[int | None, ...]:
    offsets = [item.t_offset_s for item in observations]
    if all(offset is None for offset in offsets):
        return ()
    return tuple(None if offset is None else round(offset * 1e6) for offset in offsets)


def _texts(texts: Iterable[Any]) -> tuple[str, ...]:
    return tuple(clean(str(text)) for text in texts)


def _scalar(value: Any) -> Scalar:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return clean(str(value))
