"""Regression gates of ``[[expect]]``: a cell against the same cell of a stored run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kvbench.compare.cells import CellValues, MetricKey, cell_values
from kvbench.compare.judge import Judgement, Rules, judge
from kvbench.compare.relation import Finding, missing
from kvbench.engine import Direction, Metric
from kvbench.errors import ResultsError
from kvbench.results.read import read_results
from kvbench.results.verdict import ExpectStatus, Verdict
from kvbench.suite.spec import Expectation

#: A relative change of exactly the limit passes, whatever its last binary digits are.
_ROUNDING = 1e-12


class Gate:
    """Checks that a metric is not worse than in a stored run by more than ``max_regression``.

    A regression fails the gate when its median is too large *and* it is real: exact values, or
    enough repeats on both sides for the rank test. One that is too large but could be noise is
    inconclusive.
    """

    def __init__(
        self, expectation: Expectation, against: Path, metrics: Mapping[tuple[str, str], Metric]
    ) -> None:
        self._expectation, self._metrics = expectation, metrics
        self._rules = Rules(alpha=expectation.alpha, margin=0.0, min_effect=expectation.min_effect)
        self._limit = expectation.max_regression or 0.0
        self._against = against
        self._why_unreadable = ""
        self._stored: dict[str, CellValues] = {}
        self._stored_metrics: Mapping[tuple[str, str], Metric] = {}
        self._read()

    def __str__(self) -> str:
        """What is expected, in words."""
        return f"at most {self._limit:.3g} x worse than {self._against.name}, relative"

    def find(self, cell: CellValues, key: MetricKey) -> Finding:
        """Check one metric of one cell."""
        metric = self._metrics[key]
        stored = self._stored.get(_place(cell))
        why = self._why_unreadable or self._why_not(stored, key)
        if why or stored is None:
            return missing(why)
        if metric.direction is Direction.NONE:
            return missing("no way of this metric is better")
        found = judge(
            stored.values[key],
            cell.values[key],
            direction=metric.direction,
            exact=metric.exact and self._stored_metrics[key].exact,
            rules=self._rules,
            seed=f"{stored.cell_id} {cell.cell_id} {key}",
        )
        return self._finding(found, metric, stored.cell_id)

    def _finding(self, found: Judgement, metric: Metric, reference: str) -> Finding:
        regression = _regression(found, metric.direction)
        too_large = regression - self._limit > _ROUNDING and found.verdict is not Verdict.SAME
        status = ExpectStatus.MET
        if too_large:
            real = found.verdict is Verdict.WORSE
            status = ExpectStatus.FAILED if real else ExpectStatus.INCONCLUSIVE
        change = "worse" if regression > 0 else "better"
        size = f"{abs(regression):.2%} {change} than" if regression else "equal to"
        return Finding(
            status=status,
            reason=f"{size} the baseline's {found.base_median:.6g} ({found.reason})",
            observed=found.new_median,
            unit=metric.unit,
            reference_cell_id=reference,
        )

    def _read(self) -> None:
        try:
            results = read_results(self._against)
        except ResultsError as error:
            self._why_unreadable = str(error)
            return
        self._stored = {_place(cell): cell for cell in cell_values(results)}
        self._stored_metrics = results.metadata.metrics

    def _why_not(self, stored: CellValues | None, key: MetricKey) -> str:
        if stored is None:
            return "the stored run has no such cell"
        if key not in stored.values:
            state = f"{stored.status} ({stored.reason})" if stored.reason else stored.status
            return f"the stored cell, {state}, has no {key[1]} values of {key[0]}"
        if self._stored_metrics[key].unit != self._metrics[key].unit:
            return f"the stored run has it in {self._stored_metrics[key].unit}"
        return ""


def _regression(found: Judgement, direction: Direction) -> float:
    """Relative change for the worse (negative: for the better)."""
    change = found.new_median - found.base_median
    if direction is Direction.HIGHER:
        change = -change
    if found.base_median == 0:
        return 0.0 if change == 0 else float("inf") if change > 0 else -1.0
    return change / abs(found.base_median)


def _place(cell: CellValues) -> str:
    return repr((cell.benchmark, sorted((axis, str(v)) for axis, v in cell.place.items())))
