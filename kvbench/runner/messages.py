"""What the parent and a worker say to each other."""

from __future__ import annotations

from dataclasses import dataclass

from kvbench.engine import Cell, EngineConfig
from kvbench.results.journal import RepeatRecord
from kvbench.results.schema import Phase, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """First message to a worker: load the plugin and open the engine.

    Attributes:
        source: How to import the plugin (see ``Plugin.source``).
        config: The engine configuration.
        cells: Every cell of the configuration; tasks refer to them by index.
    """

    source: str
    config: EngineConfig
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One repeat of one cell.

    Attributes:
        index: Place of the cell in ``Start.cells``.
        phase: Whether the repeat counts.
        repeat: Its number within the phase.
    """

    index: int
    phase: Phase
    repeat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a repeat, or the start of an engine, gave no record.

    Attributes:
        status: Status that the cell gets.
        reason: Stable code.
        error: The same in words.
        details: Traceback for the log, empty when it would tell nothing.
        poisoned: The worker cannot be trusted with another cell.
        wall_s: Seconds spent.
    """

    status: Status
    reason: str
    error: str
    details: str = ""
    poisoned: bool = True
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The engine is ready.

    Attributes:
        setup_s: Seconds since the worker got its ``Start``.
        log_bytes: Size of the worker's log by then.
    """

    setup_s: float
    log_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Answer to one task; a ``Failure`` instead of an ``Opened`` refuses the configuration.

    Attributes:
        task: The task.
        result: What became of it.
        log_bytes: Size of the worker's log by then, which tells what the next task printed.
    """

    task: Task
    result: RepeatRecord | Failure
    log_bytes: int = 0
