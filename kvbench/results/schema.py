"""The result schema: Arrow schemas of both files, statuses, phases, metadata keys."""

from __future__ import annotations

from enum import StrEnum

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


class Phase(StrEnum):
    """Whether a sample counts."""

    WARMUP = "warmup"
    MEASURE = "measure"
