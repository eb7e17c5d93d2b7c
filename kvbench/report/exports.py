"""Exports of a run: every row as CSV or Parquet, tables as Markdown, and a notebook's view."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kvbench.errors import ResultsError
from kvbench.report.evidence import tag
from kvbench.report.frames import RunFrames, run_frames
from kvbench.report.ladder import ladders
from kvbench.report.markdown import markdown_table
from kvbench.report.result_tables import MAX_ROWS, result_tables
from kvbench.report.verdicts import coverage_sentence, verdict_sentences
from kvbench.results.schema import PARAM_PREFIX

if TYPE_CHECKING:
    from kvbench.results import Results

_VALUE_COLUMNS = ("metric", "evidence", "unit", "value", "low", "high", "n")


def values_frame(results: Results) -> pd.DataFrame:
    """Return one row for each passed cell, metric and kind of evidence, axes first."""
    values = run_frames(results).values
    axes = [name for name in values.columns if name.startswith(PARAM_PREFIX)]
    frame = values[["cell_id", "benchmark", "stage", "engine", *axes, *_VALUE_COLUMNS]]
    whole = [name for name, kind in results.metadata.axis_types.items() if kind == "int"]
    frame = frame.astype({f"{PARAM_PREFIX}{name}": "Int64" for name in whole})
    return frame.rename(columns={name: name[len(PARAM_PREFIX) :] for name in axes})


def export(results: Results, target: Path) -> None:
    """Write every value of a run; the ending of ``target`` says how.

    ``.csv`` and ``.parquet`` hold ``values_frame``, ``.md`` the result tables in words.

    Raises:
        ResultsError: Another ending, or the file cannot be written.
    """
    writers = {".csv": _write_csv, ".parquet": _write_parquet, ".md": _write_markdown}
    writer = writers.get(target.suffix)
    if writer is None:
        raise ResultsError(f"{target}: exports end in {', '.join(writers)}")
    try:
        writer(results, target)
    except OSError as error:
        raise ResultsError(f"cannot write {target}: {error.strerror or error}") from None


def notebook_html(results: Results) -> str:
    """Return what a notebook shows for results: the answer and the first rows, escaped."""
    run = run_frames(results)
    lines = "".join(f"<li>{escape(sentence)}</li>" for sentence in _sentences(run))
    head = values_frame(results).head(20).drop(columns="cell_id")
    table = head.to_html(index=False, border=0, escape=True, na_rep="–")
    name = escape(f"{run.results.metadata.suite_name} · {results.run_id}")
    more = max(0, len(run.values) - 20)
    rest = f"<p>{more:,} more rows in <code>values_frame(results)</code></p>" if more else ""
    return f"<h4>{name}</h4><ul>{lines}</ul>{table}{rest}"


def _sentences(run: RunFrames) -> list[str]:
    found = [
        f"{sentence.text} ({', '.join(map(tag, sentence.evidence))})"
        for sentence in verdict_sentences(run, ladders(run))
    ]
    return [*found, coverage_sentence(run.cells)]


def _write_csv(results: Results, target: Path) -> None:
    values_frame(results).to_csv(target, index=False, lineterminator="\n")


def _write_parquet(results: Results, target: Path) -> None:
    table = pa.Table.from_pandas(values_frame(results), preserve_index=False)
    pq.write_table(table, target, compression="zstd")


def _write_markdown(results: Results, target: Path) -> None:
    run = run_frames(results)
    tables = result_tables(run, limit=max(MAX_ROWS, len(run.cells)))
    parts = [f"## {table.caption}\n\n{markdown_table(table)}" for table in tables]
    target.write_text("\n".join(parts), encoding="utf-8")
