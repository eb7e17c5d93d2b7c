"""Writing results: both Parquet files, each replaced in one step."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kvbench.errors import ResultsError
from kvbench.results.check import check_results
from kvbench.results.metadata import to_key_values
from kvbench.results.schema import CELLS_FILE, SAMPLES_FILE
from kvbench.results.table import Results


def write_results(run_dir: Path, results: Results) -> None:
    """Write ``samples.parquet`` and ``cells.parquet``; equal results give equal bytes.

    A reader sees the old file or the new one, never half of one.

    Raises:
        ResultsError: An invariant is broken, or the folder cannot be written.
    """
    check_results(results)
    entries = to_key_values(results.metadata)
    _write(run_dir / SAMPLES_FILE, results.samples.replace_schema_metadata(entries))
    _write(run_dir / CELLS_FILE, results.cells.replace_schema_metadata(entries))


def _write(path: Path, table: pa.Table) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            pq.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise ResultsError(f"cannot write {path}: {error.strerror or error}") from None
