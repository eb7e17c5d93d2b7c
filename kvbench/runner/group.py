"""The cells of one engine configuration: which repeat comes next, and what became of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from kvbench.plan.spec import PlannedCell
from kvbench.results.journal import Entry, History, Outcome, RepeatRecord
from kvbench.results.schema import Phase, Status
from kvbench.runner.messages import Failure, Task
from kvbench.runner.skips import Skips
from kvbench.suite.spec import Isolation, Order

#: Tasks that a worker gets at once, so that quick cells do not wait for the parent.
BATCH = 64

#: End of ``min_measure_s`` for a cell that is too quick for it.
MAX_REPEATS = 10_000


@dataclass(slots=True, kw_only=True)
class _Progress:
    """Where one cell stands."""

    planned: PlannedCell
    attempt: int
    warmups: int = 0
    warmups_left: int = 0
    measured: int = 0
    measured_s: float = 0.0
    invalid: tuple[str, str] | None = None
    log_path: str = ""
    pending: list[RepeatRecord] = field(default_factory=list)

    def finished(self) -> bool:
        protocol = self.planned.protocol
        enough = self.measured >= protocol.repeats and self.measured_s >= protocol.min_measure_s
        return enough or self.measured >= max(MAX_REPEATS, protocol.repeats)

    def started(self) -> bool:
        return bool(self.warmups or self.measured)

    def add(self, record: RepeatRecord) -> None:
        if record.phase is Phase.WARMUP:
            self.warmups += 1
            self.warmups_left = max(0, self.warmups_left - 1)
            return
        self.measured += 1
        self.measured_s += record.wall_s
        if record.invalid and self.invalid is None:
            self.invalid = (record.invalid, record.invalid_message)


class Group:
    """Schedules the cells that share a live engine and turns results into journal entries.

    With ``order = interleave`` the repeats of all cells are woven, so that a drift of the
    machine meets every cell alike. A new worker warms every cell up again.

    Attributes:
        planned: The cells, in the order of the plan.
        setup_s: Seconds the engine took to start, once it has.
    """

    def __init__(
        self,
        planned: Sequence[PlannedCell],
        *,
        histories: dict[str, History],
        skips: Skips,
        write: Callable[[Entry], None],
    ) -> None:
        self.planned = tuple(planned)
        self.setup_s: float | None = None
        self._skips = skips
        self._skips_seen = -1
        self._write = write
        self._cells = {
            index: _resumed(cell, histories.get(cell.cell.cell_id))
            for index, cell in enumerate(self.planned)
        }

    @property
    def exclusive(self) -> bool:
        """Whether nothing else may run beside it."""
        return any(cell.exclusive for cell in self.planned)

    @property
    def isolation(self) -> Isolation:
        """What its cells share."""
        return self.planned[0].protocol.isolation

    def timeout_s(self, task: Task) -> float:
        """Limit of one repeat."""
        return self.planned[task.index].protocol.timeout_s

    def next_batch(self) -> tuple[Task, ...]:
        """Tasks to run next, empty when every cell has come to its end."""
        if self._skips_seen != self._skips.changes:
            self._skips_seen = self._skips.changes
            for index in list(self._cells):
                self._settle(index)
        ordered = self._interleaved if self._order() is Order.INTERLEAVE else self._sequential
        return tuple(islice(ordered(), BATCH))

    def worker_started(self, setup_s: float) -> None:
        """Note that an engine is ready; what it has not warmed up is cold."""
        self.setup_s = setup_s
        for cell in self._cells.values():
            cell.warmups_left = cell.planned.protocol.warmup

    def finished_repeat(self, task: Task, record: RepeatRecord, log_path: str = "") -> None:
        """Note a repeat, and the end of its cell when it was the last one.

        Repeats already sent to the worker when their cell came to its end are dropped.
        """
        if task.index not in self._cells:
            return
        cell = self._cells[task.index]
        cell.add(record)
        cell.log_path = log_path
        cell.pending.append(record)
        if not self._settle(task.index):
            self._flush(cell)

    def failed(self, task: Task, failure: Failure, log_path: str = "") -> None:
        """Note the end of a cell that failed, was refused or did not answer.

        The same answer to repeats that were sent along with the first changes nothing.
        """
        if task.index in self._cells:
            self._end(task.index, _outcome(failure, self.setup_s, log_path))

    def refused(self, failure: Failure, log_path: str = "") -> None:
        """Note that the engine did not start: no cell of the configuration can run."""
        for index in list(self._cells):
            self._end(index, _outcome(failure, None, log_path))

    def _order(self) -> Order:
        return self.planned[0].protocol.order

    def _interleaved(self) -> Iterator[Task]:
        cold = [(i, cell) for i, cell in self._cells.items() if cell.warmups_left]
        if cold:
            yield from (Task(index=i, phase=Phase.WARMUP, repeat=c.warmups) for i, c in cold)
            return
        least = min((cell.measured for cell in self._cells.values()), default=0)
        for index, cell in self._cells.items():
            if cell.measured == least:
                yield Task(index=index, phase=Phase.MEASURE, repeat=cell.measured)

    def _sequential(self) -> Iterator[Task]:
        for index, cell in self._cells.items():
            yield from chain(
                _tasks(index, Phase.WARMUP, cell.warmups, cell.warmups_left),
                _tasks(index, Phase.MEASURE, cell.measured, max(1, self._left(cell))),
            )
            if cell.planned.protocol.min_measure_s:
                return

    def _left(self, cell: _Progress) -> int:
        return cell.planned.protocol.repeats - cell.measured

    def _settle(self, index: int) -> bool:
        """End a cell that has all its repeats or must not start; whether it came to its end."""
        cell = self._cells[index]
        outcome = _measured_outcome(cell, self.setup_s) if cell.finished() else None
        if outcome is None:
            outcome = self._skips.outcome(cell.planned, started=cell.started())
        if outcome is not None:
            self._end(index, outcome)
        return outcome is not None

    def _end(self, index: int, outcome: Outcome) -> None:
        cell = self._cells.pop(index)
        dependent = outcome.status is Status.SKIPPED and not cell.started()
        self._flush(cell, outcome, attempt=0 if dependent else cell.attempt)
        self._skips.ended(cell.planned, outcome)

    def _flush(
        self, cell: _Progress, outcome: Outcome | None = None, attempt: int | None = None
    ) -> None:
        self._write(
            Entry(
                cell_id=cell.planned.cell.cell_id,
                attempt=cell.attempt if attempt is None else attempt,
                repeats=tuple(cell.pending),
                outcome=outcome,
            )
        )
        cell.pending.clear()


def _resumed(planned: PlannedCell, history: History | None) -> _Progress:
    """Carry on with the repeats of an interrupted attempt; otherwise begin another attempt."""
    if history is None or history.outcome is not None or not history.repeats:
        return _Progress(planned=planned, attempt=(history.attempt if history else 0) + 1)
    cell = _Progress(planned=planned, attempt=history.attempt)
    for record in history.repeats:
        cell.add(record)
    return cell


def _tasks(index: int, phase: Phase, first: int, count: int) -> Iterator[Task]:
    return (Task(index=index, phase=phase, repeat=first + n) for n in range(count))


def _measured_outcome(cell: _Progress, setup_s: float | None) -> Outcome:
    if cell.invalid is None:
        return Outcome(status=Status.PASSED, setup_s=setup_s, log_path=cell.log_path)
    reason, message = cell.invalid
    return Outcome(
        status=Status.INVALID,
        reason=reason,
        error=message or reason,
        setup_s=setup_s,
        log_path=cell.log_path,
    )


def _outcome(failure: Failure, setup_s: float | None, log_path: str) -> Outcome:
    return Outcome(
        status=failure.status,
        reason=failure.reason,
        error=failure.error,
        log_path=log_path,
        setup_s=setup_s,
        wall_s=failure.wall_s,
    )
