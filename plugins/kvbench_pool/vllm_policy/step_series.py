"""Figures of every step, summed exactly and kept as a series of bounded length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: What a step is noted with, in this order.
COLUMNS = (
    "step",
    "used_blocks",
    "cached_free_blocks",
    "cached_prefixes",
    "running",
    "waiting",
    "scheduled",
    "computed_tokens",
    "table_blocks",
    "live_tokens",
    "shared_blocks",
    "idle_blocks",
    "idle_tokens",
)
_STEP, _USED, _SCHEDULED, _COMPUTED, _TABLE, _LIVE = (
    COLUMNS.index(name)
    for name in (
        "step",
        "used_blocks",
        "scheduled",
        "computed_tokens",
        "table_blocks",
        "live_tokens",
    )
)
_BATCH = 16384 * len(COLUMNS)

# Steps and values below 2**31 share a 64-bit integer.
_STEP_BITS = 31
_LAST_STEP = (1 << _STEP_BITS) - 1

Matrix = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoint:
    """One kept value of a series."""

    step: int
    value: int


class StepSeries:
    """Takes a row of integers per step; keeps sums, peaks and a bounded series.

    Rows are appended to ``pending`` as flat integers, ``COLUMNS`` by ``COLUMNS``, by whoever
    counts steps; ``settle`` works them off in batches.

    Attributes:
        pending: Rows not yet worked off.
        peaks: Largest value of every column.
        used_sum: Sum of the blocks in use over the steps.
        busy_steps: Steps in which blocks were in use.
        waste_sum: Sum over those steps of unused slots per slot in use.
        steps: All steps.
        scheduled_sum: Sum of the jobs scheduled per step.
        computed_sum: Sum of the tokens computed per step.
    """

    def __init__(
        self,
        block_size: int,
        sink: Callable[[Matrix], None] | None = None,
        *,
        limit: int = 512,
    ) -> None:
        """Start empty.

        Args:
            block_size: Tokens per block.
            sink: Takes the rows as well, a batch at a time.
            limit: Most points to keep.
        """
        self._block_size = block_size
        self._sink = sink
        self._limit = limit
        self._width = 1
        self._first_step = _LAST_STEP
        self._kept: Matrix = np.empty((0, len(COLUMNS)), dtype=np.int64)
        self.pending: list[int] = []
        self.peaks = dict.fromkeys(COLUMNS, 0)
        self.used_sum = 0
        self.busy_steps = 0
        self.waste_sum = 0.0
        self.steps = 0
        self.scheduled_sum = 0
        self.computed_sum = 0

    @property
    def is_due(self) -> bool:
        """Whether enough rows wait for ``settle`` to pay."""
        return len(self.pending) >= _BATCH

    def settle(self, others: Matrix | None = None) -> None:
        """Work off the pending rows and others, which are of steps between theirs."""
        rows: Matrix = np.fromiter(self.pending, np.int64).reshape(-1, len(COLUMNS))
        self.pending.clear()
        if others is not None:
            rows = np.concatenate((rows, others))
            rows = rows[np.argsort(rows[:, _STEP])]
        if not len(rows):
            return
        self._sum(rows)
        self._keep(rows)
        if self._sink is not None:
            self._sink(rows)

    def _sum(self, rows: Matrix) -> None:
        used = rows[:, _USED]
        busy = used > 0
        self.steps += len(rows)
        self.busy_steps += int(busy.sum())
        self.used_sum += int(used.sum())
        self.scheduled_sum += int(rows[:, _SCHEDULED].sum())
        self.computed_sum += int(rows[:, _COMPUTED].sum())
        for place, name in enumerate(COLUMNS):
            self.peaks[name] = max(self.peaks[name], int(rows[:, place].max()))
        waste = (rows[:, _TABLE] * self._block_size - rows[:, _LIVE])[busy]
        shares = waste / (used[busy] * self._block_size)
        # Added one by one in the order of the steps, so that the sum is the same to the last bit.
        self.waste_sum = float(np.cumsum(np.concatenate(([self.waste_sum], shares)))[-1])

    def _keep(self, rows: Matrix) -> None:
        """Keep, for every stretch of steps and every column, the largest value and its step."""
        steps = rows[:, _STEP]
        self._first_step = min(self._first_step, int(steps[0]))
        while (int(steps[-1]) - self._first_step) // self._width >= self._limit:
            self._width *= 2
        fresh = marked(rows, steps[:, None])
        self._kept = _largest(np.concatenate((self._kept, fresh)), self._width)

    def points(self, column: str) -> tuple[SeriesPoint, ...]:
        """Return the kept values of one of ``COLUMNS`` in the order of their steps.

        Each stretch of steps is represented by its largest value, so peaks are exact.
        """
        marks = self._kept[:, COLUMNS.index(column)]
        values, steps = (marks >> _STEP_BITS).tolist(), marked_step(marks).tolist()
        return tuple(
            SeriesPoint(step=step, value=value) for step, value in zip(steps, values, strict=True)
        )


def marked(values: Matrix, steps: Matrix) -> Matrix:
    """Join values with their steps: the largest result is the largest value, at its first step."""
    return (values << _STEP_BITS) | (_LAST_STEP - steps)


def marked_step(marks: Matrix) -> Matrix:
    """Return the steps that ``marked`` joined."""
    return _LAST_STEP - (marks & _LAST_STEP)


def _largest(marks: Matrix, width: int) -> Matrix:
    """Reduce rows, ordered by step, to one row per stretch of ``width`` steps."""
    stretch = (marks[:, _STEP] >> _STEP_BITS) // width
    starts = np.flatnonzero(np.diff(stretch, prepend=-1))
    reduced: Matrix = np.maximum.reduceat(marks, starts, axis=0)
    return reduced
