"""Progress on stderr: what is done, what failed, and an honest guess of the time left."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvbench.plan.spec import PlannedCell
from kvbench.results.journal import Entry
from kvbench.results.schema import Status

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_BAD = frozenset({Status.FAILED, Status.TIMEOUT})


@dataclass(slots=True)
class _Kind:
    """Repeats of the cells of one benchmark on one engine."""

    left: int = 0
    done: int = 0
    seconds: float = 0.0


class Tally:
    """Counts cells and estimates the time left from the repeats that have been run."""

    def __init__(self, cells: Iterable[PlannedCell]) -> None:
        self.total = 0
        self.done = 0
        self.failed = 0
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._left: dict[str, tuple[_Kind, int]] = {}
        for planned in cells:
            self.total += 1
            kind = self._kinds.setdefault((planned.cell.benchmark, planned.cell.engine), _Kind())
            repeats = planned.protocol.warmup + planned.protocol.repeats
            kind.left += repeats
            self._left[planned.cell.cell_id] = (kind, repeats)

    def add(self, entry: Entry) -> None:
        """Count an entry of the journal."""
        kind, left = self._left[entry.cell_id]
        run = len(entry.repeats)
        kind.done += run
        kind.seconds += sum(repeat.wall_s for repeat in entry.repeats)
        gone = left if entry.outcome is not None else min(run, left)
        kind.left -= gone
        self._left[entry.cell_id] = (kind, left - gone)
        if entry.outcome is not None:
            self.done += 1
            self.failed += entry.outcome.status in _BAD

    def time_left(self) -> str:
        """Return ``about 3:20 left``; ``at least`` while some kind of cell has not been seen."""
        known = [kind for kind in self._kinds.values() if kind.done]
        if not known:
            return "time left unknown"
        seconds = round(sum(kind.seconds / kind.done * kind.left for kind in known))
        unseen = any(kind.left and not kind.done for kind in self._kinds.values())
        hours, rest = divmod(seconds, 3600)
        clock = (
            f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
        )
        return f"{'at least' if unseen else 'about'} {clock} left"

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done}/{self.total} cells{failed}, {self.time_left()}"


class ProgressLine:
    """Shows a tally on a terminal; silent when stderr is anything else."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> ProgressLine:
        if sys.stderr.isatty():
            self._start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._progress is not None:
            self.tick()
            self._progress.stop()

    def tick(self) -> None:
        """Show the newest figures."""
        if self._progress is not None and self._task is not None:
            tally = self._tally
            self._progress.update(self._task, completed=tally.done, description=str(tally))

    def _start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console)
        self._task = self._progress.add_task(str(self._tally), total=self._tally.total)
        self._progress.start()
