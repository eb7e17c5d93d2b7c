"""Exact relations of ``[[expect]]``: a value, or its ratio to the value of a paired cell."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

from kvbench.compare.cells import CellValues, MetricKey
from kvbench.engine import Metric
from kvbench.results.schema import Status
from kvbench.results.verdict import ExpectStatus
from kvbench.suite.spec import Condition, Expectation

_STATS: dict[str, Callable[[Sequence[float]], float]] = {
    "median": statistics.median,
    "min": min,
    "max": max,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What an expectation says about one cell; attributes as in ``ExpectVerdict``."""

    status: ExpectStatus
    reason: str = ""
    observed: float | None = None
    unit: str = ""
    reference_cell_id: str = ""


def missing(reason: str) -> Finding:
    """Return the finding that there was nothing to look at."""
    return Finding(status=ExpectStatus.MISSING, reason=reason)


def matches(cell: CellValues, conditions: Sequence[Condition]) -> bool:
    """Whether a cell satisfies every condition; an axis it does not have satisfies none."""
    place = cell.place
    return all(c.axis in place and c.matches(place[c.axis]) for c in conditions)


class Relation:
    """Checks ``equals``, ``at_least`` and ``at_most``.

    With ``relative_to`` the value is divided by that of the one cell that satisfies the
    conditions of ``where`` as replaced by those of ``relative_to``, and is equal on every axis
    that ``relative_to`` does not name.
    """

    def __init__(
        self,
        expectation: Expectation,
        cells: Sequence[CellValues],
        metrics: Mapping[tuple[str, str], Metric],
    ) -> None:
        self._expectation, self._metrics = expectation, metrics
        self._replaced = {condition.axis for condition in expectation.relative_to}
        kept = [c for c in expectation.where if c.axis not in self._replaced]
        self._references: dict[Hashable, list[CellValues]] = {}
        for cell in cells:
            if matches(cell, [*kept, *expectation.relative_to]):
                self._references.setdefault(self._rest(cell), []).append(cell)

    def __str__(self) -> str:
        """What is expected, in words."""
        expectation = self._expectation
        parts = [] if expectation.equals is None else [f"= {expectation.equals:.12g}"]
        if expectation.equals is not None and expectation.tolerance:
            parts[0] += f" ± {expectation.tolerance:.3g} of it"
        if expectation.at_least is not None:
            parts.append(f">= {expectation.at_least:.12g}")
        if expectation.at_most is not None:
            parts.append(f"<= {expectation.at_most:.12g}")
        return " and ".join(parts) + self._relative_words()

    def find(self, cell: CellValues, key: MetricKey) -> Finding:
        """Check one metric of one cell."""
        observed = self._stat(cell.values[key])
        if not self._expectation.relative_to:
            return self._finding(observed, self._metrics[key].unit, key[1])
        reference = self._reference(cell)
        if isinstance(reference, str):
            return missing(reference)
        other = reference.with_metric(key[0], preferred=key[1])[:1]
        if not other:
            return missing(f"the reference cell has no metric {key[0]!r}")
        divisor = self._stat(reference.values[other[0]])
        if divisor == 0:
            return missing("the reference value is 0")
        words = key[1] if other[0][1] == key[1] else f"{key[1]} over {other[0][1]}"
        return self._finding(observed / divisor, "ratio", words, reference.cell_id)

    def _finding(self, observed: float, unit: str, words: str, reference: str = "") -> Finding:
        met = self._is_met(observed)
        return Finding(
            status=ExpectStatus.MET if met else ExpectStatus.FAILED,
            reason=f"{observed:.10g} ({words})",
            observed=observed,
            unit=unit,
            reference_cell_id=reference,
        )

    def _is_met(self, observed: float) -> bool:
        equals, tolerance = self._expectation.equals, self._expectation.tolerance
        at_least, at_most = self._expectation.at_least, self._expectation.at_most
        return (
            (equals is None or abs(observed - equals) <= tolerance * abs(equals))
            and (at_least is None or observed >= at_least)
            and (at_most is None or observed <= at_most)
        )

    def _stat(self, values: Sequence[float]) -> float:
        return float(_STATS[self._expectation.stat](values))

    def _reference(self, cell: CellValues) -> CellValues | str:
        """The paired cell, or why there is none."""
        found = self._references.get(self._rest(cell), [])
        if len(found) != 1:
            return "no cell to relate it to" if not found else "several cells to relate it to"
        if found[0].status != Status.PASSED:
            return f"the reference cell is {found[0].status} ({found[0].reason})"
        return found[0]

    def _rest(self, cell: CellValues) -> Hashable:
        return frozenset((a, v) for a, v in cell.place.items() if a not in self._replaced)

    def _relative_words(self) -> str:
        if not self._expectation.relative_to:
            return ""
        words = ", ".join(_condition(c) for c in self._expectation.relative_to)
        return f" of that with {words}"


def _condition(condition: Condition) -> str:
    if condition.equals is not None:
        return f"{condition.axis} = {condition.equals}"
    if condition.one_of:
        return f"{condition.axis} in {', '.join(map(str, condition.one_of))}"
    bounds = {">=": condition.ge, ">": condition.gt, "<=": condition.le, "<": condition.lt}
    return " and ".join(
        f"{condition.axis} {sign} {bound:.12g}"
        for sign, bound in bounds.items()
        if bound is not None
    )
