"""Tables of every result: wide ones in parts, equal columns in words."""

from __future__ import annotations

import dataclasses

from kvbench.report.frames import run_frames
from kvbench.report.result_tables import MAX_METRICS, result_tables
from kvbench.results import build_results
from tests.report.sample_run import metadata, record

NAMES = [f"m{place:02}_bytes" for place in range(20)]


def wide_run():
    """Two cells of 20 metrics: m00 to m03 are the same in both."""
    registry = {
        (name, "analytic"): dataclasses.replace(
            metadata().metrics["paged_bytes", "analytic"], name=name
        )
        for name in NAMES
    }
    parts = [
        record(cell, "wide", "analytic", {"context_tokens": cell + 1}, values={
            (name, "analytic"): 2048 if place < 4 else place + cell
            for place, name in enumerate(NAMES)
        })
        for cell in range(2)
    ]  # fmt: skip
    types = {"context_tokens": "int"}
    about = metadata(metrics=registry, axis_types=types, comparisons=(), expectations=())
    return run_frames(build_results(parts, about))


def test_many_metrics_are_spread_over_parts_with_the_same_rows():
    tables = result_tables(wide_run())
    assert [table.name for table in tables] == ["results-wide", "results-wide-2"]
    heads = [head for table in tables for head in table.columns[1:]]
    assert heads == [f"{name} ○ analytic" for name in NAMES[4:]]
    assert all(len(table.columns) <= 1 + MAX_METRICS for table in tables)
    assert all([row[0].text for row in table.rows] == ["1", "2"] for table in tables)


def test_a_wide_table_says_in_words_what_is_the_same_everywhere():
    first, second = result_tables(wide_run())
    assert first.caption == (
        "wide (analytic), part 1 of 2: every passed cell; ranges are over repeats or stated by "
        "the engine; the same in every cell: m00_bytes 2 KiB, m01_bytes 2 KiB, m02_bytes 2 KiB, "
        "m03_bytes 2 KiB"
    )
    assert "the same in every cell" not in second.caption
