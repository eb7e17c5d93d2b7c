"""Fabricated results for tests of readers: reports, comparisons, report sections."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from kvbench.engine import Direction, Evidence, Metric, Scalar
from kvbench.results import Results, build_results
from kvbench.results.metadata import RunMetadata
from kvbench.results.record import CellIdentity, CellRecord, MetricSeries
from kvbench.results.schema import MEASURED, Phase, Status


class ResultsBuilder:
    """Makes a run's results cell by cell.

    Example::

    builder = ResultsBuilder()
    builder.metric("latency_s", unit="s", direction="lower", evidence="device")
    builder.cell({"batch": 1}, {"latency_s": [0.5, 0.6, 0.55]})
    results = builder.build()
    """

    def __init__(self, *, run_id: str = "run-1", suite: str = "fabricated") -> None:
        self._metadata = RunMetadata(
            run_id=run_id, kvbench_version="0.1.0", suite_name=suite, complete=True
        )
        self._metrics: dict[tuple[str, str], Metric] = {}
        self._axis_types: dict[str, str] = {}
        self._cells: list[CellRecord] = []

    def metric(
        self,
        name: str,
        *,
        unit: str = "bytes",
        direction: str = "lower",
        evidence: str = "analytic",
        exact: bool = False,
        meaning: str = "A fabricated metric.",
    ) -> None:
        """Register a metric; cells observe it with the evidence it was registered for first."""
        self._metrics[name, evidence] = Metric(
            name=name,
            unit=unit,
            direction=Direction(direction),
            evidence=Evidence(evidence),
            meaning=meaning,
            exact=exact,
        )

    def cell(
        self,
        axes: Mapping[str, Scalar],
        values: Mapping[str, Sequence[float]] | None = None,
        *,
        benchmark: str = "bench",
        engine: str = "fake",
        stage: str = "size",
        status: Status = Status.PASSED,
        reason: str = "",
        series: Sequence[MetricSeries] = (),
        **attributes: object,
    ) -> str:
        """Add a cell and return its id.

        Args:
            axes: Point of the matrix.
            values: Metric name to one value for each measured repeat.
            benchmark: Name of the benchmark.
            engine: Name of the engine, and of its plugin.
            stage: Hook.
            status: What became of the cell.
            reason: Stable code; a default for cells that have not passed.
            series: Further samples (warm-ups, time series).
            **attributes: Further attributes of ``CellRecord``.
        """
        ordinal = len(self._cells)
        identity = CellIdentity(
            cell_id=f"cell-{ordinal}",
            ordinal=ordinal,
            benchmark=benchmark,
            stage=stage,
            engine=engine,
            plugin=engine,
            axes=axes,
            params=axes,
        )
        self._axis_types.update({axis: type(value).__name__ for axis, value in axes.items()})
        record = CellRecord(
            identity=identity,
            status=status,
            reason=reason or ("" if status is Status.PASSED else "fabricated"),
            attempt=1 if status in MEASURED else 0,
            series=(*self._series(values or {}), *series),
        )
        self._cells.append(dataclasses.replace(record, **attributes))  # type: ignore[arg-type]
        return identity.cell_id

    def build(self, **metadata: object) -> Results:
        """Return the results; ``metadata`` replaces attributes of ``RunMetadata``."""
        values = {"metrics": self._metrics, "axis_types": self._axis_types, **metadata}
        return build_results(
            self._cells,
            dataclasses.replace(self._metadata, **values),  # type: ignore[arg-type]
        )

    def _series(self, values: Mapping[str, Sequence[float]]) -> list[MetricSeries]:
        evidence = dict(reversed(self._metrics))
        return [
            MetricSeries(
                phase=Phase.MEASURE,
                repeat=repeat,
                metric=name,
                evidence=evidence[name],
                values=(value,),
            )
            for name, numbers in values.items()
            for repeat, value in enumerate(numbers)
        ]
