"""What ``kvbench simulate -o`` leaves behind: a summary, every request, the series of steps."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from kvbench.errors import ResultsError
from kvbench_pool.vllm_policy.simulation import RequestRecord, Simulation
from kvbench_pool.vllm_policy.step_series import COLUMNS

_BATCH_RECORDS = 65536
_FIELDS = tuple(field.name for field in dataclasses.fields(RequestRecord))


def claim_folder(folder: Path) -> None:
    """Make the run's folder.

    Raises:
        ResultsError: It is not empty, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ResultsError(f"{folder}: not empty; give a new or an empty folder")
    except OSError as error:
        raise ResultsError(f"{folder}: cannot be made: {error.strerror or error}") from error


def discard(record: RequestRecord) -> None:
    """Keep nothing: a workload of any length needs bounded memory."""


class RecordWriter:
    """Streams records of requests to ``requests.parquet``, a batch in memory at a time."""

    def __init__(self, folder: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.folder = folder
        self._schema = pa.schema([(name, pa.int64()) for name in _FIELDS])
        self._file = pq.ParquetWriter(folder / "requests.parquet", self._schema)
        self._columns: list[list[int]] = [[] for _ in _FIELDS]

    def add(self, record: RequestRecord) -> None:
        """Take one record."""
        for column, name in zip(self._columns, _FIELDS, strict=True):
            column.append(getattr(record, name))
        if len(self._columns[0]) >= _BATCH_RECORDS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        self._file.write_table(pa.table(self._columns, schema=self._schema))
        self._columns = [[] for _ in _FIELDS]

    def close(self) -> None:
        """Write what is left."""
        self._flush()
        self._file.close()


def write_run(folder: Path, summary: dict[str, Any], simulation: Simulation) -> None:
    """Write ``summary.json`` and the bounded ``series.parquet`` (column, step, value)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {"series": column, "step": point.step, "value": point.value}
        for column in COLUMNS[1:]
        for point in simulation.series.points(column)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "series.parquet")
    text = json.dumps(summary, indent=2, allow_nan=False)
    (folder / "summary.json").write_text(f"{text}\n", encoding="utf-8")
