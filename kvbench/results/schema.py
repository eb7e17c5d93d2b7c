"""The result schema: Arrow schemas of both files, statuses, phases, metadata keys."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

#: Version of the files' layout; a reader refuses a newer one and migrates older ones.
SCHEMA_VERSION = 1

#: Prefix of every key-value metadata entry.
METADATA_PREFIX = "kvbench."

#: Prefix of the columns that hold a cell's axes.
PARAM_PREFIX = "param_"


class Status(StrEnum):
    """What became of a cell."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    INVALID = "invalid"
    TIMEOUT = "timeout"
    UNSUPPORTED = "unsupported"
    INTERRUPTED = "interrupted"


#: Statuses whose cells have measured samples; all others have none.
MEASURED = frozenset({Status.PASSED, Status.INVALID})


#: Largest count that every float64 below it can be told apart from.
MAX_COUNT = 2**53

#: Units whose values are counts.
COUNTED_UNITS = frozenset({"bytes", "tokens", "blocks", "requests", "count"})

#: Files of a run's folder.
CELLS_FILE = "cells.parquet"
SAMPLES_FILE = "samples.parquet"
JOURNAL_FILE = "journal.jsonl"
PLAN_FILE = "plan.json"
ENVIRONMENT_FILE = "environment.json"
SUITE_FILE = "suite.toml"
LOGS_FOLDER = "logs"

#: Where runs land unless ``-o`` says otherwise, relative to the current folder.
RUNS_FOLDER = Path("reports") / "runs"


class Phase(StrEnum):
    """Whether a sample counts."""

    WARMUP = "warmup"
    MEASURE = "measure"
