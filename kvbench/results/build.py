"""Cell records to Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kvbench.errors import ResultsError
from kvbench.results.check import check_results
from kvbench.results.metadata import RunMetadata, canonical_json
from kvbench.results.record import CellRecord, MetricSeries
from kvbench.results.schema import PARAM_PREFIX, Phase
from kvbench.results.table import Results, cells_schema, samples_schema

#: Longest error text that a row keeps; the log has the rest.
MAX_ERROR_CHARS = 1000


def build_results(cells: Iterable[CellRecord], metadata: RunMetadata) -> Results:
    """Return the results of ``cells``, sorted and checked.

    Raises:
        ResultsError: The records break an invariant of the schema.
    """
    ordered = sorted(cells, key=lambda cell: cell.identity.ordinal)
    results = Results(
        cells=_cells_table(ordered, metadata),
        samples=_samples_table(ordered, metadata),
        metadata=metadata,
    )
    check_results(results)
    return results


def _cells_table(cells: Sequence[CellRecord], metadata: RunMetadata) -> pa.Table:
    schema = cells_schema(metadata.axis_types)
    rows = [_cell_row(cell, metadata) for cell in cells]
    known = set(schema.names)
    for row in rows:
        # Arrow drops unknown keys without a word, and an axis must not get lost that way.
        if unknown := row.keys() - known:
            raise ResultsError(f"columns without a type: {', '.join(sorted(unknown))}")
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ResultsError(f"a cell's value does not fit its column: {error}") from None


def _cell_row(cell: CellRecord, metadata: RunMetadata) -> dict[str, Any]:
    identity = cell.identity
    return {
        "run_id": metadata.run_id,
        "cell_id": identity.cell_id,
        "ordinal": identity.ordinal,
        "suite": metadata.suite_name,
        "benchmark": identity.benchmark,
        "stage": str(identity.stage),
        "engine": identity.engine,
        "plugin": identity.plugin,
        "config_id": identity.config_id,
        "engine_version": identity.engine_version or None,
        "engine_distribution": identity.engine_distribution or None,
        "cache": str(identity.cache),
        "seed": identity.seed,
        **{f"{PARAM_PREFIX}{axis}": value for axis, value in identity.axes.items()},
        "params_json": canonical_json(dict(identity.params)),
        "effective_json": canonical_json(dict(cell.effective)) if cell.effective else None,
        "status": str(cell.status),
        "reason": cell.reason or None,
        "error": cell.error[:MAX_ERROR_CHARS] or None,
        "log_path": cell.log_path or None,
        "attempt": cell.attempt,
        "order_index": cell.order_index,
        "started_at": cell.started_at_us,
        "setup_s": cell.setup_s,
        "wall_s": cell.wall_s,
        "measure_s": cell.measure_s,
        "assumptions_json": canonical_json(cell.assumptions),
        "warnings_json": canonical_json(cell.warnings),
        "artifacts_json": canonical_json(dict(cell.artifacts)),
    }


def _samples_table(cells: Sequence[CellRecord], metadata: RunMetadata) -> pa.Table:
    schema = samples_schema()
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    units = {key: metric.unit for key, metric in metadata.metrics.items()}
    for cell in cells:
        for series in sorted(cell.series, key=_place):
            _extend(columns, cell.identity.cell_id, series, units)
    columns["run_id"] = [metadata.run_id] * len(columns["value"])
    try:
        return pa.table(columns, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ResultsError(f"a sample does not fit its column: {error}") from None


def _place(series: MetricSeries) -> tuple[bool, int, str, str]:
    return (series.phase != Phase.WARMUP, series.repeat, series.metric, series.evidence)


def _extend(
    columns: dict[str, list[Any]],
    cell_id: str,
    series: MetricSeries,
    units: Mapping[tuple[str, str], str],
) -> None:
    count = len(series.values)
    unit = units.get((series.metric, series.evidence))
    if unit is None:
        raise ResultsError(
            f"metric {series.metric!r} with evidence {series.evidence!r} is not registered"
        )
    columns["cell_id"] += [cell_id] * count
    columns["repeat"] += [series.repeat] * count
    columns["phase"] += [series.phase.value] * count
    columns["metric"] += [series.metric] * count
    columns["unit"] += [unit] * count
    columns["evidence"] += [series.evidence] * count
    columns["sample"] += range(count)
    columns["value"] += series.values
    columns["t_offset_us"] += series.t_offsets_us or [None] * count
