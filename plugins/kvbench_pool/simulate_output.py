"""What ``kvbench simulate -o`` leaves behind: a run like any other, a summary, vLLM's requests."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvbench.errors import ResultsError
from kvbench_pool.step_time.timing import RequestTimes
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.simulation import RequestRecord

if TYPE_CHECKING:
    from kvbench.engine import Observation
    from kvbench.results import Results

_BATCH_RECORDS = 65536
_FIELDS = tuple(field.name for field in dataclasses.fields(RequestRecord) if field.name != "times")
_MOMENTS = tuple(field.name for field in dataclasses.fields(RequestTimes))


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
    """Streams records of requests to ``requests.parquet``, a batch in memory at a time.

    On a modelled clock a record has its moments in seconds as well.
    """

    def __init__(self, folder: Path, config: PoolConfig) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.cached_tokens = 0
        self._moments = _MOMENTS if config.step_time is not None else ()
        counts = [(name, pa.int64()) for name in _FIELDS]
        self._schema = pa.schema([*counts, *((name, pa.float64()) for name in self._moments)])
        self._file = pq.ParquetWriter(folder / "requests.parquet", self._schema)
        self._columns: list[list[float]] = [[] for _ in self._schema]

    def add(self, record: RequestRecord) -> None:
        """Take one record."""
        self.cached_tokens += record.prompt_tokens + record.output_tokens - 1
        counts, moments = self._columns[: len(_FIELDS)], self._columns[len(_FIELDS) :]
        for column, name in zip(counts, _FIELDS, strict=True):
            column.append(getattr(record, name))
        for column, name in zip(moments, self._moments, strict=True):
            column.append(getattr(record.times, name))
        if len(self._columns[0]) >= _BATCH_RECORDS:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        self._file.write_table(pa.table(self._columns, schema=self._schema))
        self._columns = [[] for _ in self._schema]

    def close(self) -> None:
        """Write what is left."""
        self._flush()
        self._file.close()


def write_run(
    folder: Path,
    source: str,
    summary: dict[str, Any],
    observations: Iterable[Observation],
    started: dt.datetime,
) -> None:
    """Write ``summary.json``, both Parquet files of a run and its report.

    Args:
        folder: The run's folder.
        source: What was replayed.
        summary: The figures that the command prints.
        observations: Every figure of the replay.
        started: When it began.

    Raises:
        ResultsError: The folder cannot be written.
    """
    from kvbench.report.make import write_report
    from kvbench.results import write_results

    write_results(folder, _results(source, summary, observations, started))
    text = json.dumps(summary, indent=2, allow_nan=False)
    (folder / "summary.json").write_text(f"{text}\n", encoding="utf-8")
    write_report(folder)


def _results(
    source: str,
    summary: dict[str, Any],
    observations: Iterable[Observation],
    started: dt.datetime,
) -> Results:
    from kvbench.cli.single_run import single_identity, single_results
    from kvbench.engine import CellOutput, Stage
    from kvbench.plugins import load_plugins

    plugin = load_plugins().get("pool")
    output = CellOutput(
        observations=tuple(observations),
        effective={
            name: summary[name] for name in ("policy", "num_blocks", "block_size", "step_time")
        },
        assumptions=tuple(summary["assumptions"]),
    )
    identity = single_identity(
        plugin,
        benchmark="simulate",
        stage=Stage.ALLOCATE,
        axes={"workload": source, "policy": summary["policy"]},
        params={"workload": source, "policy": summary["policy"]},
        started=started,
    )
    return single_results(
        plugin,
        output,
        identity,
        description=f"{source}, replayed under the {summary['policy']} policy",
        started=started,
        wall_s=summary["wall_s"],
    )
