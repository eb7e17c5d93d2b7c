"""Results: exact schema, invariants on write and on read, other readers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvbench.engine import Evidence
from kvbench.errors import ResultsError
from kvbench.results import Results, read_results, write_results
from kvbench.results import read as reading
from kvbench.results.metadata import from_key_values, to_key_values
from kvbench.results.record import MetricSeries
from kvbench.results.schema import Phase, Status
from kvbench.results.verdict import ExpectStatus, ExpectVerdict, PairVerdict, Verdict
from kvbench.testing import ResultsBuilder


def small() -> Results:
    builder = ResultsBuilder()
    builder.metric("latency_s", unit="s", evidence="device")
    builder.metric("used_blocks", unit="blocks", evidence="simulated")
    warm = MetricSeries(
        phase=Phase.WARMUP, repeat=0, metric="latency_s", evidence="device", values=(9.0,)
    )
    series = MetricSeries(
        phase=Phase.MEASURE,
        repeat=0,
        metric="used_blocks",
        evidence="simulated",
        values=(1.0, 2.0, 3.0),
        t_offsets_us=(0, 50, None),
    )
    builder.cell({"batch": 1, "model": "a"}, {"latency_s": [0.5, 0.25]}, series=[warm, series])
    builder.cell({"batch": 2, "model": "b"}, status=Status.FAILED, reason="oom", error="no room")
    builder.cell({"batch": 3}, {"latency_s": [1.0]}, status=Status.INVALID, reason="too_hot")
    builder.cell({"ratio": 0.5}, status=Status.SKIPPED, reason="kv_exceeds_device")
    return builder.build()


def test_samples_schema_is_the_design() -> None:
    assert [(f.name, str(f.type), f.nullable) for f in small().samples.schema] == [
        ("run_id", "string", False),
        ("cell_id", "string", False),
        ("repeat", "int32", False),
        ("sample", "int32", False),
        ("phase", "string", False),
        ("metric", "string", False),
        ("unit", "string", False),
        ("evidence", "string", False),
        ("value", "double", False),
        ("t_offset_us", "int64", True),
    ]


def test_each_axis_has_a_typed_column() -> None:
    schema = small().cells.schema
    types = {n: str(schema.field(n).type) for n in schema.names if n.startswith("param_")}
    assert types == {"param_batch": "int64", "param_model": "string", "param_ratio": "double"}
    assert small().axes == ("batch", "model", "ratio")


def test_unknown_is_null() -> None:
    row = small().cells.to_pylist()[3]
    unknown = ("param_model", "engine_version", "effective_json", "started_at", "wall_s")
    assert [row[name] for name in unknown] == [None] * 5


def test_rows_are_sorted_with_warm_ups_first() -> None:
    rows = small().samples.to_pylist()
    assert [(r["phase"], r["repeat"], r["metric"], r["sample"], r["value"]) for r in rows] == [
        ("warmup", 0, "latency_s", 0, 9.0),
        ("measure", 0, "latency_s", 0, 0.5),
        ("measure", 0, "used_blocks", 0, 1.0),
        ("measure", 0, "used_blocks", 1, 2.0),
        ("measure", 0, "used_blocks", 2, 3.0),
        ("measure", 1, "latency_s", 0, 0.25),
        ("measure", 0, "latency_s", 0, 1.0),
    ]


def test_round_trip_and_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_results(tmp_path / name, small())
    found = read_results(tmp_path / "one")
    assert found.cells.equals(small().cells)
    assert found.samples.equals(small().samples)
    assert found.metadata == small().metadata
    for name in ("cells.parquet", "samples.parquet"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert sorted(p.name for p in (tmp_path / "one").iterdir()) == [
        "cells.parquet",
        "samples.parquet",
    ]


@pytest.mark.parametrize("name", ["", "cells.parquet", "samples.parquet"])
def test_read_by_folder_or_file(tmp_path: Path, name: str) -> None:
    write_results(tmp_path, small())
    assert read_results(tmp_path / name).run_id == "run-1"
    assert read_results(str(tmp_path / name)).run_id == "run-1"


def test_key_value_metadata_is_prefixed(tmp_path: Path) -> None:
    write_results(tmp_path, small())
    metadata = pq.read_schema(tmp_path / "samples.parquet").metadata
    assert metadata[b"kvbench.schema_version"] == b"1"
    assert metadata[b"kvbench.complete"] == b"true"
    assert b"kvbench.environment" in metadata


def test_metadata_round_trip_with_verdicts() -> None:
    pair = PairVerdict(
        comparison="c",
        benchmark="b",
        engine="e",
        vary="model",
        base="x",
        new="y",
        where={"batch": 1},
        metric="m",
        evidence="device",
        base_evidence="device",
        unit="s",
        direction="lower",
        ratio=0.5,
        verdict=Verdict.BETTER,
    )
    expected = ExpectVerdict(
        name="n", benchmark="b", metric="m", relation="= 1", status=ExpectStatus.MET
    )
    metadata = _builder().build(comparisons=(pair,), expectations=(expected,)).metadata
    assert from_key_values(to_key_values(metadata)) == metadata


def _builder() -> ResultsBuilder:
    builder = ResultsBuilder()
    builder.metric("m_bytes")
    return builder


def test_frames_are_views_with_arrow_types() -> None:
    frame = small().frame()
    assert len(frame) == 7
    assert str(frame["param_batch"].dtype) == "int64[pyarrow]"
    assert frame["param_model"].tolist()[:1] == ["a"]
    assert frame["t_offset_us"].isna().sum() == 5
    assert len(small().cells_frame()) == 4


def test_measured_leaves_out_warm_ups_and_invalid_cells() -> None:
    assert sorted(small().measured()["value"].to_pylist()) == [0.25, 0.5, 1.0, 2.0, 3.0]


def test_duckdb_and_polars_read_both_files(tmp_path: Path) -> None:
    write_results(tmp_path, small())
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT c.param_batch, avg(s.value) FROM read_parquet(?) s JOIN read_parquet(?) c "
            "USING (cell_id) WHERE s.metric = 'latency_s' AND s.phase = 'measure' "
            "AND c.status = 'passed' GROUP BY 1",
            [str(tmp_path / "samples.parquet"), str(tmp_path / "cells.parquet")],
        ).fetchall()
    assert rows == [(1, 0.375)]
    cells = pl.read_parquet(tmp_path / "cells.parquet")
    samples = pl.read_parquet(tmp_path / "samples.parquet")
    assert cells["status"].to_list() == ["passed", "failed", "invalid", "skipped"]
    assert samples.join(cells, on="cell_id").height == 7


def _replaced(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    place = table.column_names.index(name)
    field = table.schema.field(name).with_nullable(True)
    return table.set_column(place, field, pa.array(values, field.type))


def _cells(name: str, *values: Any) -> Callable[[Results], dict[str, Any]]:
    return lambda results: {"cells": _replaced(results.cells, name, list(values))}


def _samples(name: str, first: Any) -> Callable[[Results], dict[str, Any]]:
    def change(results: Results) -> dict[str, Any]:
        values = results.samples[name].to_pylist()
        return {"samples": _replaced(results.samples, name, [first, *values[1:]])}

    return change


BROKEN: dict[str, tuple[Callable[[Results], dict[str, Any]], str]] = {
    "failed cell with samples": (
        _cells("status", "failed", "failed", "invalid", "skipped"),
        "a reason is stated exactly when a cell has not passed",
    ),
    "passed cell without samples": (
        lambda r: {"samples": r.samples.slice(0, 6)},
        "measured samples exist exactly for passed and invalid cells, not so: cell-2",
    ),
    "samples of a failed cell": (
        lambda r: {
            "samples": _replaced(r.samples, "cell_id", ["cell-0"] * 6 + ["cell-1"]),
        },
        "measured samples exist exactly for passed and invalid cells, not so: cell-1",
    ),
    "unknown status": (_cells("status", "passed", "broken", "invalid", "skipped"), "broken"),
    "null status": (_cells("status", "passed", None, "invalid", "skipped"), "must not be null"),
    "duplicate cell": (
        _cells("cell_id", "cell-0", "cell-0", "cell-2", "cell-3"),
        "cell_id is not unique",
    ),
    "duplicate ordinal": (_cells("ordinal", 0, 0, 1, 2), "ordinal is not unique"),
    "reason of a passed cell": (_cells("reason", "x", "y", "z", "w"), "a reason is stated"),
    "another run": (_cells("run_id", "run-1", "run-2", "run-1", "run-1"), "run-2"),
    "nan": (_samples("value", float("nan")), "value is not finite"),
    "infinite": (_samples("value", float("-inf")), "value is not finite"),
    "null value": (_samples("value", None), "value must not be null"),
    "unknown phase": (_samples("phase", "cooldown"), "unknown phase: cooldown"),
    "negative repeat": (_samples("repeat", -1), "negative repeat or sample"),
    "unknown cell": (_samples("cell_id", "cell-9"), "row of an unknown cell: cell-9"),
    "unknown metric": (_samples("metric", "speed"), "'speed' with evidence 'device'"),
    "unknown evidence": (_samples("evidence", "hearsay"), "evidence 'hearsay'"),
    "another unit": (_samples("unit", "ms"), "latency_s is in ms, registered in s"),
    "same sample twice": (
        lambda r: {"samples": pa.concat_tables([r.samples, r.samples.slice(3, 1)])},
        "two values for the same cell",
    ),
    "missing column": (lambda r: {"cells": r.cells.drop_columns(["stage"])}, "no column 'stage'"),
    "unknown column": (
        lambda r: {"samples": r.samples.append_column("mean", r.samples["value"])},
        "unknown columns mean",
    ),
    "wrong type": (
        lambda r: {
            "samples": r.samples.set_column(2, "repeat", r.samples["repeat"].cast(pa.int64()))
        },
        "repeat has type int64, expected int32",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_results_are_neither_written_nor_read(tmp_path: Path, name: str) -> None:
    change, words = BROKEN[name]
    good = small()
    tables = {"cells": good.cells, "samples": good.samples, **change(good)}
    with pytest.raises(ResultsError, match=words.replace("*", r"\*")):
        write_results(tmp_path, Results(**tables, metadata=good.metadata))
    assert not list(tmp_path.iterdir())
    entries = to_key_values(good.metadata)
    for file, table in tables.items():
        nullable = pa.schema([field.with_nullable(True) for field in table.schema])
        written = table.cast(nullable).replace_schema_metadata(entries)
        pq.write_table(written, tmp_path / f"{file}.parquet")
    with pytest.raises(ResultsError, match=words.replace("*", r"\*")):
        read_results(tmp_path)


def test_counts_above_2_53_are_refused() -> None:
    builder = _builder()
    builder.cell({}, {"m_bytes": [2.0**53 + 2]})
    with pytest.raises(ResultsError, match=r"count above 2\*\*53: m_bytes"):
        builder.build()


def test_a_newer_schema_is_refused_and_an_older_one_migrated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_results(tmp_path, small())
    monkeypatch.setattr(reading, "SCHEMA_VERSION", 0)
    with pytest.raises(ResultsError, match="written by a newer kvbench"):
        read_results(tmp_path)
    monkeypatch.setattr(reading, "SCHEMA_VERSION", 2)
    with pytest.raises(ResultsError, match="schema 1 cannot be read"):
        read_results(tmp_path)
    monkeypatch.setitem(reading.MIGRATIONS, 1, lambda table: table)
    assert read_results(tmp_path).run_id == "run-1"


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, r"no cells\.parquet"), (b"", "cannot read"), (b"PAR1 nonsense PAR1", "cannot read")],
)
def test_files_that_are_no_results(tmp_path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / "cells.parquet").write_bytes(content)
    with pytest.raises(ResultsError, match=words) as caught:
        read_results(tmp_path)
    assert len(str(caught.value).splitlines()) == 1


def test_a_foreign_parquet_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "cells.parquet")
    with pytest.raises(ResultsError, match="not a kvbench result"):
        read_results(tmp_path)


def test_files_of_two_runs(tmp_path: Path) -> None:
    write_results(tmp_path, small())
    builder = ResultsBuilder(run_id="run-2")
    (tmp_path / "other").mkdir()
    write_results(tmp_path / "other", builder.build())
    (tmp_path / "other" / "cells.parquet").replace(tmp_path / "cells.parquet")
    with pytest.raises(ResultsError, match="are of different runs"):
        read_results(tmp_path)


def test_no_such_run(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="no such run"):
        read_results(tmp_path / "run")


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"cannot write .*/gone/samples\.parquet: No such file"):
        write_results(tmp_path / "gone", small())


def test_the_package_imports_no_arrow() -> None:
    program = (
        "import sys, kvbench.results, kvbench.results.schema, kvbench.results.journal; "
        "print([m for m in ('pyarrow', 'pandas', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@given(
    values=st.lists(
        st.tuples(
            st.integers(-(2**53), 2**53).map(float), st.one_of(st.none(), st.integers(0, 2**62))
        ),
        min_size=1,
    )
)
def test_any_series_survives(
    values: list[tuple[float, int | None]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    builder = _builder()
    series = MetricSeries(
        phase=Phase.MEASURE,
        repeat=0,
        metric="m_bytes",
        evidence=Evidence.ANALYTIC,
        values=tuple(value for value, _ in values),
        t_offsets_us=tuple(offset for _, offset in values),
    )
    builder.cell({}, series=[series])
    folder = tmp_path_factory.mktemp("series")
    write_results(folder, builder.build())
    samples = read_results(folder).samples.to_pylist()
    assert [(row["value"], row["t_offset_us"]) for row in samples] == values
