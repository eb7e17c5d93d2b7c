"""The journal of a run: one JSON line for each finished repeat or attempt of a cell.

A line is written with one ``write`` as soon as it is known, so a killed run loses at most what
was in flight. Together with ``plan.json`` the journal holds everything that the Parquet files do.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from kvbench.engine import Scalar
from kvbench.errors import ResultsError
from kvbench.results.record import MetricSeries
from kvbench.results.schema import Phase, Status

#: Longest time that a line waits for ``fsync``; many quick cells share one.
SYNC_EVERY_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatRecord:
    """One finished repeat of a cell; attributes as in ``CellOutput`` and ``CellRecord``."""

    phase: Phase
    repeat: int
    started_at_us: int
    wall_s: float
    series: tuple[MetricSeries, ...]
    effective: Mapping[str, Scalar] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    artifacts: Mapping[str, str] = field(default_factory=dict)
    invalid: str = ""
    invalid_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an attempt ended.

    Attributes:
        status: What became of the cell.
        reason: Stable code, empty when the cell passed.
        error: The same in words.
        log_path: Relative to the run's folder.
        setup_s: Seconds the engine took to start.
        wall_s: Seconds of a last repeat that gave no record.
    """

    status: Status
    reason: str = ""
    error: str = ""
    log_path: str = ""
    setup_s: float | None = None
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line: new repeats of a cell, and its outcome when the attempt has ended."""

    cell_id: str
    attempt: int
    repeats: tuple[RepeatRecord, ...] = ()
    outcome: Outcome | None = None


@dataclass(slots=True, kw_only=True)
class History:
    """What the journal says about one cell: its newest attempt."""

    attempt: int = 0
    repeats: list[RepeatRecord] = field(default_factory=list)
    outcome: Outcome | None = None
    order_index: int | None = None


class Journal:
    """Appends entries to the journal of a run, as its only writer.

    A torn last line, left by a crash in the middle of a write, is cut off on opening.

    Raises:
        ResultsError: The file cannot be opened or written (disk full, read-only folder), or
            another process has it open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._synced_at = time.monotonic()
        self._dirty = False
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._cut_torn_line()
        except BlockingIOError:
            os.close(self._fd)
            raise ResultsError(f"{path.parent}: another process is running into it") from None
        except OSError as error:
            raise self._refused(error) from None

    def append(self, entry: Entry) -> None:
        """Write one line."""
        line = json.dumps(_entry_to_json(entry), ensure_ascii=False, allow_nan=False)
        data = memoryview(line.encode() + b"\n")
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise self._refused(error) from None
        self._dirty = True
        self.sync(SYNC_EVERY_S)

    def sync(self, older_than_s: float = 0.0) -> None:
        """Force the lines to the disk, unless that was done less than ``older_than_s`` ago."""
        if not self._dirty or time.monotonic() - self._synced_at < older_than_s:
            return
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise self._refused(error) from None
        self._dirty = False
        self._synced_at = time.monotonic()

    def close(self) -> None:
        """Sync and close."""
        try:
            self.sync()
        finally:
            os.close(self._fd)

    def _cut_torn_line(self) -> None:
        data = self.path.read_bytes() if self.path.is_file() else b""
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._fd, whole)
        os.lseek(self._fd, 0, os.SEEK_END)

    def _refused(self, error: OSError) -> ResultsError:
        return ResultsError(
            f"cannot write {self.path}: {error.strerror or error}; what was measured so far is "
            f"kept, continue with --resume {self.path.parent} when there is room"
        )


def read_journal(path: Path) -> dict[str, History]:
    """Read the newest attempt of every cell.

    Raises:
        ResultsError: The file cannot be read, or a line other than a torn last one is damaged.
    """
    histories: dict[str, History] = {}
    for place, entry in enumerate(_entries(path)):
        history = histories.setdefault(entry.cell_id, History())
        if entry.attempt != history.attempt:
            history.attempt, history.outcome = entry.attempt, None
            history.repeats.clear()
        history.repeats.extend(entry.repeats)
        if entry.outcome is not None:
            history.outcome, history.order_index = entry.outcome, place
    return histories


def _entries(path: Path) -> Iterator[Entry]:
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise ResultsError(f"cannot read {path}: {error.strerror or error}") from None
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            return
        try:
            yield _entry_from_json(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise ResultsError(f"{path}:{number}: damaged line ({error})") from None


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    values: dict[str, Any] = {"cell_id": entry.cell_id, "attempt": entry.attempt}
    if entry.repeats:
        values["repeats"] = [_repeat_to_json(repeat) for repeat in entry.repeats]
    if entry.outcome is not None:
        outcome = entry.outcome
        values["outcome"] = _without_empty(
            {item.name: getattr(outcome, item.name) for item in fields(outcome)}
        )
    return values


def _repeat_to_json(repeat: RepeatRecord) -> dict[str, Any]:
    values = {
        "phase": repeat.phase,
        "repeat": repeat.repeat,
        "started_at_us": repeat.started_at_us,
        "wall_s": repeat.wall_s,
        "series": [
            [series.metric, series.evidence, series.values, series.t_offsets_us]
            for series in repeat.series
        ],
    }
    words = {
        "effective": dict(repeat.effective),
        "assumptions": repeat.assumptions,
        "warnings": repeat.warnings,
        "artifacts": dict(repeat.artifacts),
        "invalid": repeat.invalid,
        "invalid_message": repeat.invalid_message,
    }
    return values | _without_empty(words)


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value or value == 0}


def _entry_from_json(values: Mapping[str, Any]) -> Entry:
    outcome = values.get("outcome")
    return Entry(
        cell_id=values["cell_id"],
        attempt=values["attempt"],
        repeats=tuple(_repeat_from_json(repeat) for repeat in values.get("repeats", ())),
        outcome=outcome and Outcome(**{**outcome, "status": Status(outcome["status"])}),
    )


def _repeat_from_json(values: Mapping[str, Any]) -> RepeatRecord:
    phase, repeat = Phase(values["phase"]), values["repeat"]
    series = tuple(
        MetricSeries(
            phase=phase,
            repeat=repeat,
            metric=metric,
            evidence=evidence,
            values=tuple(numbers),
            t_offsets_us=tuple(offsets),
        )
        for metric, evidence, numbers, offsets in values["series"]
    )
    lists = {key: tuple(values.get(key, ())) for key in ("assumptions", "warnings")}
    return RepeatRecord(**{**values, **lists, "phase": phase, "series": series})
