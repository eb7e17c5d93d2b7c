"""Every error that a user can cause or act on; turned into exit codes only in ``kvbench.cli``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class KvbenchError(Exception):
    """Base of the handled errors: one clear line, no traceback.

    The message says what is wrong, where, and what would be right.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake in a suite file.

    Attributes:
        path: File that holds the mistake.
        line: 1-based line, or ``None`` when the mistake has no single line.
        key: Dotted key (``benchmark[0].matrix.model``), empty for the file as a whole.
        message: What is wrong and what was expected, "did you mean" included.
    """

    path: Path
    line: int | None
    key: str
    message: str

    def __str__(self) -> str:
        where = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


class SuiteError(KvbenchError):
    """A suite that cannot be run; holds every problem found, not only the first."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class ModelError(KvbenchError):
    """A model that cannot be read, or that a layout (an engine) refuses."""


class DeviceError(KvbenchError):
    """A device that is not in the catalog, or a device table that cannot be read."""


class TraceError(KvbenchError):
    """A trace or workload that cannot be read; the message names file and line."""


class PluginError(KvbenchError):
    """A plugin that cannot be loaded or that broke its contract."""


class EngineUnavailable(KvbenchError):  # noqa: N818 - the design fixes the name
    """The engine cannot run here: the cell becomes ``unsupported``.

    Attributes:
        reason: What is missing.
        remedy: What the user can do about it.
    """

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.reason = reason
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[EngineUnavailable], tuple[str, str]]:
        return type(self), (self.reason, self.remedy)


class CellFailed(KvbenchError):  # noqa: N818 - the design fixes the name
    """A cell that ran and failed; ``reason`` is a stable code such as ``oom``."""

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(message or reason)
        self.reason = reason

    def __reduce__(self) -> tuple[type[CellFailed], tuple[str, str]]:
        return type(self), (self.reason, str(self))


class ResultsError(KvbenchError):
    """Results that cannot be written or read, or that break the schema's invariants."""
