"""Invariants of the result schema, checked on write and on read."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from kvbench.errors import ResultsError
from kvbench.results.schema import COUNTED_UNITS, MAX_COUNT, MEASURED, Phase, Status
from kvbench.results.table import Results, cells_schema, samples_schema

_SAMPLE_KEY = ["cell_id", "phase", "repeat", "metric", "evidence", "sample"]


def check_results(results: Results) -> None:
    """Check the tables against the schema and against each other.

    Raises:
        ResultsError: The first invariant that is broken, with an example.
    """
    _check_columns("cells", results.cells, cells_schema(results.metadata.axis_types))
    _check_columns("samples", results.samples, samples_schema())
    _check_cells(results)
    _check_samples(results)
    _check_registered(results)
    _check_measured(results)


def _check_columns(name: str, table: pa.Table, schema: pa.Schema) -> None:
    for field in schema:
        if field.name not in table.column_names:
            raise ResultsError(f"{name}: no column {field.name!r}")
        found = table.schema.field(field.name).type
        if found != field.type:
            raise ResultsError(f"{name}: {field.name} has type {found}, expected {field.type}")
        if not field.nullable and table[field.name].null_count:
            raise ResultsError(f"{name}: {field.name} must not be null")
    extra = set(table.column_names) - set(schema.names)
    if extra:
        raise ResultsError(f"{name}: unknown columns {', '.join(sorted(extra))}")


def _check_cells(results: Results) -> None:
    cells = results.cells
    for key in ("cell_id", "ordinal"):
        if pc.count_distinct(cells[key]).as_py() != cells.num_rows:
            raise ResultsError(f"cells: {key} is not unique")
    _refuse(cells, pc.invert(_one_of(cells["status"], Status)), "cells: unknown status", "status")
    passed = pc.equal(cells["status"], str(Status.PASSED))
    odd = pc.not_equal(passed, pc.is_null(cells["reason"]))
    _refuse(cells, odd, "cells: a reason is stated exactly when a cell has not passed", "cell_id")
    _check_run_id("cells", cells, results.run_id)


def _check_samples(results: Results) -> None:
    samples = results.samples
    _check_run_id("samples", samples, results.run_id)
    _refuse(samples, pc.invert(_one_of(samples["phase"], Phase)), "samples: unknown phase", "phase")
    negative = pc.or_(pc.less(samples["repeat"], 0), pc.less(samples["sample"], 0))
    _refuse(samples, negative, "samples: negative repeat or sample", "cell_id")
    infinite = pc.invert(pc.is_finite(samples["value"]))
    _refuse(samples, infinite, "samples: value is not finite", "metric")
    counted = _one_of(samples["unit"], COUNTED_UNITS)
    large = pc.and_(counted, pc.greater(pc.abs(samples["value"]), float(MAX_COUNT)))
    _refuse(samples, large, "samples: count above 2**53", "metric")
    if samples.select(_SAMPLE_KEY).group_by(_SAMPLE_KEY).aggregate([]).num_rows != samples.num_rows:
        raise ResultsError("samples: two values for the same cell, repeat, metric and sample")


def _check_run_id(name: str, table: pa.Table, run_id: str) -> None:
    foreign = pc.not_equal(table["run_id"], run_id)
    _refuse(table, foreign, f"{name}: row of another run than {run_id!r}", "run_id")


def _check_registered(results: Results) -> None:
    kinds = results.samples.group_by(["metric", "evidence", "unit"]).aggregate([])
    for row in kinds.to_pylist():
        metric = results.metadata.metrics.get((row["metric"], row["evidence"]))
        if metric is None:
            raise ResultsError(
                f"samples: metric {row['metric']!r} with evidence {row['evidence']!r} "
                "is not registered"
            )
        if metric.unit != row["unit"]:
            raise ResultsError(
                f"samples: {row['metric']} is in {row['unit']}, registered in {metric.unit}"
            )


def _check_measured(results: Results) -> None:
    cells, samples = results.cells, results.samples
    stray = pc.invert(pc.is_in(samples["cell_id"], value_set=_values(cells["cell_id"])))
    _refuse(samples, stray, "samples: row of an unknown cell", "cell_id")
    counting = samples.filter(pc.equal(samples["phase"], str(Phase.MEASURE)))
    has_samples = pc.is_in(cells["cell_id"], value_set=_values(counting["cell_id"]))
    odd = pc.not_equal(has_samples, _one_of(cells["status"], MEASURED))
    rule = "cells: measured samples exist exactly for passed and invalid cells, not so"
    _refuse(cells, odd, rule, "cell_id")


def _one_of(column: pa.ChunkedArray, allowed: Iterable[str]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array(sorted(map(str, allowed)), pa.string()))


def _values(column: pa.ChunkedArray) -> pa.Array:
    return pc.unique(column)


def _refuse(table: pa.Table, broken: pa.ChunkedArray, rule: str, column: str) -> None:
    bad = table.filter(pc.fill_null(broken, True))
    if bad.num_rows:
        raise ResultsError(f"{rule}: {bad[column][0].as_py()} ({bad.num_rows} rows)")
