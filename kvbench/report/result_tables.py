"""Every result of a run as tables: a row for each passed cell, a column for each metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from kvbench.report.evidence import ORDER, tag
from kvbench.report.frames import RunFrames
from kvbench.report.labels import differing_axes, missing, value_text
from kvbench.report.quantities import in_words, interval
from kvbench.report.rows import Row, groups_of, rows_of
from kvbench.report.tables import IN_SAMPLES, Field, Table, text
from kvbench.results.schema import PARAM_PREFIX

#: Rows of all first parts together; the run's own files hold every row.
MAX_ROWS = 1200
#: Metrics of one table, so that a printed page can hold it; more make further parts.
MAX_METRICS = 8

#: Metric and kind of evidence of one column.
Key = tuple[str, str]


def result_tables(run: RunFrames, limit: int = MAX_ROWS) -> list[Table]:
    """Return the tables of each benchmark; many metrics are spread over several of them.

    Args:
        run: The run.
        limit: Rows of all benchmarks together; each gets 20 at least.
    """
    found: list[Table] = []
    left = limit
    groups = list(groups_of(run.values, "benchmark"))
    for place, (benchmark, frame) in enumerate(groups):
        tables = list(_parts(str(benchmark), frame, max(20, left // (len(groups) - place))))
        left -= len(tables[0].rows)
        found += tables
    return found


def _parts(benchmark: str, frame: pd.DataFrame, limit: int) -> Iterator[Table]:
    cells = frame.drop_duplicates("cell_id")
    axes, shown = differing_axes(cells), cells.head(limit)
    values = _values(frame[frame["cell_id"].isin(shown["cell_id"])])
    keys, same = _columns(frame)
    named = frame["engine"].nunique() > 1
    whose = "" if named else f" ({frame['engine'].iloc[0]})"
    parts = [keys] if len(keys) <= MAX_METRICS + 2 else _split(keys)
    for place, part in enumerate(parts):
        number = f", part {place + 1} of {len(parts)}" if len(parts) > 1 else ""
        yield Table(
            name=f"results-{benchmark}" + (f"-{place + 1}" if place else ""),
            caption=f"{benchmark}{whose}{number}: every passed cell; ranges are over repeats or "
            f"stated by the engine{'' if place else same}",
            columns=(*axes, *["engine"] * named, *(f"{name} {tag(kind)}" for name, kind in part)),
            rows=tuple(_row(row, axes, named, part, values) for row in rows_of(shown)),
            omitted=len(cells) - len(shown),
            whole=IN_SAMPLES,
        )


def _columns(frame: pd.DataFrame) -> tuple[list[Key], str]:
    """Columns, and in words those of a wide table whose value is the same in every cell."""
    known = frame[["metric", "evidence"]].drop_duplicates()
    keys = list(zip(known["metric"].tolist(), known["evidence"].tolist(), strict=True))
    keys.sort(key=lambda key: ORDER.index(key[1]))
    cells = frame["cell_id"].nunique()
    if len(keys) <= MAX_METRICS + 2 or cells < 2:
        return keys, ""
    constant = {
        key: rows_of(part.head(1))[0]
        for key, part in groups_of(frame, "metric", "evidence")
        if len(part) == cells and part[["value", "low", "high"]].nunique().max() == 1
    }
    facts = [f"{key[0]} {in_words(row.value, row.unit)}" for key, row in constant.items()]
    said = f"; the same in every cell: {', '.join(facts)}" if facts else ""
    return [key for key in keys if key not in constant], said


def _split(keys: Sequence[Key]) -> list[list[Key]]:
    """Parts of nearly equal width, in order."""
    count = -(-len(keys) // MAX_METRICS)
    ends = [round(len(keys) * place / count) for place in range(count + 1)]
    return [list(keys[first:last]) for first, last in pairwise(ends)]


def _values(frame: pd.DataFrame) -> dict[tuple[str, str, str], Row]:
    columns = ["cell_id", "metric", "evidence", "unit", "value", "low", "high"]
    return {(row.cell_id, row.metric, row.evidence): row for row in rows_of(frame[columns])}


def _row(
    cell: Row,
    axes: Sequence[str],
    named: bool,
    keys: Sequence[Key],
    values: dict[tuple[str, str, str], Row],
) -> tuple[Field, ...]:
    return (
        *(_axis_field(cell[PARAM_PREFIX + axis]) for axis in axes),
        *[text(cell["engine"])] * named,
        *(_value(values.get((cell["cell_id"], *key))) for key in keys),
    )


def _axis_field(value: Any) -> Field:
    if missing(value):
        return Field(text="–")
    key = None if isinstance(value, bool | str) else float(value)
    return Field(text=value_text(value), key=key)


def _value(row: Row | None) -> Field:
    if row is None:
        return Field(text="–")
    shown = in_words(row.value, row.unit)
    if row.low < row.high:
        shown += f" ({interval(row.low, row.high, row.unit)})"
    return Field(text=shown, key=row.value)
