"""Cells that do not run because of what happened to another one."""

from __future__ import annotations

from collections.abc import Hashable

from kvbench.engine import Scalar
from kvbench.plan.spec import PlannedCell
from kvbench.results.journal import Outcome
from kvbench.results.schema import Status
from kvbench.suite.spec import OnFailure

_FAILED = frozenset({Status.FAILED, Status.TIMEOUT})


class Skips:
    """Remembers failures and says which cells they rule out.

    After a real out-of-memory, cells of the same benchmark and engine that are equal on every
    other axis and not smaller on any monotonic axis are ruled out. ``on_failure = stop_axis``
    does the same after any failure, ``abort`` rules out everything.

    Attributes:
        changes: Grows with every failure that may rule out further cells.

    Args:
        fail_fast: Treat every failure as ``abort``.
    """

    def __init__(self, *, fail_fast: bool = False) -> None:
        self.changes = 0
        self._fail_fast = fail_fast
        self._aborted_by = ""
        self._points: dict[Hashable, list[tuple[dict[str, Scalar], str, str]]] = {}

    def ended(self, planned: PlannedCell, outcome: Outcome) -> None:
        """Note how a cell ended, in this session or in an earlier one."""
        if outcome.status not in _FAILED:
            return
        self.changes += 1
        on_failure = planned.protocol.on_failure
        if self._fail_fast or on_failure is OnFailure.ABORT:
            self._aborted_by = self._aborted_by or f"{_name(planned)}: {outcome.reason}"
        if outcome.reason == "oom":
            self._add(planned, "oom_backstop", "ran out of memory")
        elif on_failure is OnFailure.STOP_AXIS:
            self._add(planned, "stop_axis", f"failed ({outcome.reason})")

    def outcome(self, planned: PlannedCell, *, started: bool) -> Outcome | None:
        """Return the outcome of a cell that is ruled out, ``None`` when it may run.

        Args:
            planned: The cell.
            started: Some of its repeats have succeeded: only an abort stops it.
        """
        if self._aborted_by:
            return _skipped("aborted", f"The run was stopped by a failure ({self._aborted_by}).")
        if started or not self._points:
            return None
        fixed, point = _split(planned)
        for other, reason, what in self._points.get(fixed, ()):
            if all(_at_least(point[axis], other[axis]) for axis in other):
                where = ", ".join(f"{axis} = {value}" for axis, value in other.items())
                return _skipped(reason, f"A cell with {where} {what}; this one needs no less.")
        return None

    def _add(self, planned: PlannedCell, reason: str, what: str) -> None:
        fixed, point = _split(planned)
        if point:
            self._points.setdefault(fixed, []).append((point, reason, what))


def _split(planned: PlannedCell) -> tuple[Hashable, dict[str, Scalar]]:
    axes = planned.cell.axes
    point = {axis: axes[axis] for axis in planned.monotonic if axis in axes}
    rest = tuple(sorted((axis, value) for axis, value in axes.items() if axis not in point))
    return (planned.cell.benchmark, planned.cell.engine, rest), point


def _at_least(value: Scalar, other: Scalar) -> bool:
    if isinstance(value, str) or isinstance(other, str):
        return value == other
    return value >= other


def _name(planned: PlannedCell) -> str:
    point = ", ".join(f"{axis} = {value}" for axis, value in planned.cell.axes.items())
    return f"{planned.cell.benchmark} ({planned.cell.engine}{': ' + point if point else ''})"


def _skipped(reason: str, error: str) -> Outcome:
    return Outcome(status=Status.SKIPPED, reason=reason, error=error)
