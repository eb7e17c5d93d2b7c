"""Reading results: a run's folder, or one of the Parquet files in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kvbench.errors import ResultsError
from kvbench.results.check import check_results
from kvbench.results.metadata import RunMetadata, from_key_values
from kvbench.results.rebuild import rebuild_results
from kvbench.results.schema import (
    CELLS_FILE,
    JOURNAL_FILE,
    METADATA_PREFIX,
    SAMPLES_FILE,
    SCHEMA_VERSION,
)
from kvbench.results.table import Results

#: Schema version to the step that turns a table of it into one of the next version.
MIGRATIONS: dict[int, Callable[[pa.Table], pa.Table]] = {}


def is_killed(path: Path) -> bool:
    """Whether ``path`` is the folder of a run that ended before it wrote its Parquet files."""
    return path.is_dir() and not (path / CELLS_FILE).exists() and (path / JOURNAL_FILE).exists()


def read_results(path: Path | str) -> Results:
    """Read the results of a run.

    Args:
        path: The run's folder, or ``cells.parquet`` or ``samples.parquet`` in it. A run that
            was killed has no Parquet files yet: its results come from the journal.

    Raises:
        ResultsError: There are no results, they are damaged, or a newer kvbench wrote them.
    """
    path = Path(path)
    run_dir = path if path.is_dir() else path.parent
    if not path.exists():
        raise ResultsError(f"{path}: no such run")
    if is_killed(path):
        return rebuild_results(run_dir)
    if not path.is_dir() and path.name not in {CELLS_FILE, SAMPLES_FILE}:
        raise ResultsError(f"{path}: expected a run's folder, {CELLS_FILE} or {SAMPLES_FILE}")
    return _read_parquet(run_dir)


def _read_parquet(run_dir: Path) -> Results:
    cells, metadata = _read_table(run_dir / CELLS_FILE)
    samples, other = _read_table(run_dir / SAMPLES_FILE)
    if other != metadata:
        raise ResultsError(f"{run_dir}: {CELLS_FILE} and {SAMPLES_FILE} are of different runs")
    results = Results(cells=cells, samples=samples, metadata=metadata)
    try:
        check_results(results)
    except ResultsError as error:
        raise ResultsError(f"{run_dir}: {error}") from None
    return results


def _read_table(path: Path) -> tuple[pa.Table, RunMetadata]:
    try:
        table = pq.read_table(path)
        table = _migrate(table)
        return table.replace_schema_metadata(None), from_key_values(table.schema.metadata or {})
    except FileNotFoundError:
        raise ResultsError(f"{path.parent}: no {path.name}; not the folder of a run") from None
    except (OSError, pa.ArrowException) as error:
        raise ResultsError(f"cannot read {path}: {_first_line(error)}") from None
    except ResultsError as error:
        raise ResultsError(f"{path}: {error}") from None


def _migrate(table: pa.Table) -> pa.Table:
    version = _version(table)
    if version > SCHEMA_VERSION:
        raise ResultsError(
            f"written by a newer kvbench (schema {version}, this one reads up to "
            f"{SCHEMA_VERSION}); upgrade kvbench"
        )
    while version < SCHEMA_VERSION:
        if version not in MIGRATIONS:
            raise ResultsError(f"schema {version} cannot be read; oldest known is 1")
        table = MIGRATIONS[version](table)
        version += 1
    return table


def _version(table: pa.Table) -> int:
    key = f"{METADATA_PREFIX}schema_version"
    text = (table.schema.metadata or {}).get(key.encode(), b"")
    if not text.isdigit():
        raise ResultsError(f"not a kvbench result: no {key} entry")
    return int(text)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
