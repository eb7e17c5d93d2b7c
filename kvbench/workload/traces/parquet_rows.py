"""kvbench's own rows as Parquet: the fields of ``Request`` as columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvbench.errors import TraceError
from kvbench.names import did_you_mean
from kvbench.workload.request import Request
from kvbench.workload.traces.fields import BadLine
from kvbench.workload.traces.json_rows import OWN_KEYS, OwnRows

MAGIC = b"PAR1"
_BATCH_ROWS = 4096


def iter_rows(path: Path) -> Iterator[tuple[int, Request | BadLine]]:
    """Yield the rows of a Parquet file with their numbers from 1.

    Raises:
        TraceError: The file is not readable Parquet, or has columns that kvbench does not know.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow.names)
            yield from _parse(file)
    except (pa.ArrowException, OSError) as error:
        message = str(error).splitlines()[0]
        raise TraceError(f"{path}: not a readable Parquet file: {message}") from error


def _check_columns(path: Path, names: list[str]) -> None:
    for name in names:
        if name not in OWN_KEYS:
            raise TraceError(f"{path}: unknown column {name!r}{did_you_mean(name, OWN_KEYS)}")
    for name in ("prompt_tokens", "output_tokens"):
        if name not in names:
            raise TraceError(f"{path}: column {name!r} is missing{did_you_mean(name, names)}")


def _parse(file: Any) -> Iterator[tuple[int, Request | BadLine]]:
    parser = OwnRows()
    number = 0
    for batch in file.iter_batches(batch_size=_BATCH_ROWS):
        for row in batch.to_pylist():
            number += 1
            present = {key: value for key, value in row.items() if value is not None}
            try:
                yield number, parser.request(present)
            except BadLine as error:
                yield number, error
