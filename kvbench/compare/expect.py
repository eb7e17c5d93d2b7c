"""The ``[[expect]]`` tables of a suite, checked on the results of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from kvbench.compare.cells import CellValues, MetricKey, cell_values
from kvbench.compare.gate import Gate
from kvbench.compare.relation import Finding, Relation, matches, missing
from kvbench.results.schema import Status
from kvbench.results.table import Results
from kvbench.results.verdict import ExpectStatus, ExpectVerdict
from kvbench.suite.spec import Expectation


class _Check(Protocol):
    def find(self, cell: CellValues, key: MetricKey) -> Finding: ...


def check_expectations(
    results: Results, expectations: Sequence[Expectation]
) -> tuple[ExpectVerdict, ...]:
    """Check every expectation: one verdict for each cell it looks at and kind of evidence.

    One that finds nothing to look at has a single ``missing`` verdict, or none at all when it
    says ``on_missing = "ignore"``.
    """
    cells = cell_values(results, {expectation.benchmark for expectation in expectations})
    found: list[ExpectVerdict] = []
    for expectation in expectations:
        chosen = [cell for cell in cells if cell.benchmark == expectation.benchmark]
        check = _check_of(expectation, chosen, results)
        found += [
            verdict
            for verdict in _verdicts(expectation, check, chosen)
            if verdict.status is not ExpectStatus.MISSING or expectation.on_missing != "ignore"
        ]
    return tuple(found)


def _check_of(expectation: Expectation, cells: Sequence[CellValues], results: Results) -> _Check:
    metrics = results.metadata.metrics
    if expectation.against is not None:
        return Gate(expectation, expectation.against, metrics)
    return Relation(expectation, cells, metrics)


def _verdicts(
    expectation: Expectation, check: _Check, cells: Sequence[CellValues]
) -> Iterator[ExpectVerdict]:
    looked_at = [cell for cell in cells if matches(cell, expectation.where)]
    if not looked_at:
        yield _verdict(expectation, check, missing("no cell matches"))
    for cell in looked_at:
        keys = cell.with_metric(expectation.metric)
        if not keys:
            yield _verdict(expectation, check, missing(_why_none(cell, expectation)), cell)
        for key in keys:
            yield _verdict(expectation, check, check.find(cell, key), cell, key[1])


def _why_none(cell: CellValues, expectation: Expectation) -> str:
    if cell.status != Status.PASSED:
        return f"the cell is {cell.status} ({cell.reason})"
    return f"the cell has no metric {expectation.metric!r}"


def _verdict(
    expectation: Expectation,
    check: _Check,
    found: Finding,
    cell: CellValues | None = None,
    evidence: str = "",
) -> ExpectVerdict:
    return ExpectVerdict(
        name=expectation.name,
        benchmark=expectation.benchmark,
        engine=cell.engine if cell else "",
        where=cell.axes if cell else {},
        metric=expectation.metric,
        evidence=evidence,
        unit=found.unit,
        relation=str(check),
        observed=found.observed,
        status=found.status,
        reason=found.reason,
        cell_id=cell.cell_id if cell else "",
        reference_cell_id=found.reference_cell_id,
    )
