"""Cells with their values, ready to be paired; invalid and unmeasured ones have none."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from kvbench.engine import Scalar
from kvbench.results.schema import PARAM_PREFIX
from kvbench.results.table import Results

#: (metric, evidence)
MetricKey: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellValues:
    """One cell of a run.

    Attributes:
        cell_id: Content id.
        benchmark: Name of the benchmark.
        engine: Name of the ``[engines.NAME]`` table.
        axes: Its point of the matrix.
        status: What became of it.
        reason: Stable code, empty when it passed.
        values: One value for each measured repeat. A repeat with several samples of a metric
            counts once, with their median: the repeat is what is independent.
    """

    cell_id: str
    benchmark: str
    engine: str
    axes: Mapping[str, Scalar]
    status: str
    reason: str = ""
    values: Mapping[MetricKey, tuple[float, ...]] = field(default_factory=dict)

    @property
    def place(self) -> dict[str, Scalar]:
        """Its axes, with the engine as one of them."""
        return {"engine": self.engine, **self.axes}

    def with_metric(self, metric: str, preferred: str = "") -> list[MetricKey]:
        """The kinds of evidence it has for ``metric``: the preferred one, or else all."""
        found = [key for key in self.values if key[0] == metric]
        return [key for key in found if key[1] == preferred] or found


def cell_values(results: Results, benchmarks: Iterable[str] | None = None) -> list[CellValues]:
    """Return the cells of a run, in the order of the plan.

    Args:
        results: The run.
        benchmarks: Only the cells of these benchmarks; all by default.
    """
    results = results if benchmarks is None else results.only(benchmarks)
    values = _values(results)
    prefix = len(PARAM_PREFIX)
    params = [name for name in results.cells.column_names if name.startswith(PARAM_PREFIX)]
    return [
        CellValues(
            cell_id=row["cell_id"],
            benchmark=row["benchmark"],
            engine=row["engine"],
            axes={name[prefix:]: row[name] for name in params if row[name] is not None},
            status=row["status"],
            reason=row["reason"] or "",
            values=values.get(row["cell_id"], {}),
        )
        for row in results.cells.to_pylist()
    ]


def _values(results: Results) -> dict[str, dict[MetricKey, tuple[float, ...]]]:
    columns = ("cell_id", "metric", "evidence", "repeat", "value")
    table = results.measured().select(columns).to_pydict()
    repeats: dict[tuple[str, str, str], dict[int, list[float]]] = defaultdict(dict)
    for cell_id, metric, evidence, repeat, value in zip(*table.values(), strict=True):
        repeats[cell_id, metric, evidence].setdefault(repeat, []).append(value)
    found: dict[str, dict[MetricKey, tuple[float, ...]]] = defaultdict(dict)
    for (cell_id, metric, evidence), by_repeat in repeats.items():
        numbers = (by_repeat[repeat] for repeat in sorted(by_repeat))
        found[cell_id][metric, evidence] = tuple(_median(values) for values in numbers)
    return found


def _median(values: list[float]) -> float:
    return values[0] if len(values) == 1 else statistics.median(values)
