"""Which numbers of requests fit at which context: by arithmetic, and as a pool was replayed."""

from __future__ import annotations

import math

import pandas as pd

from kvbench.report.frames import RunFrames
from kvbench.report.labels import missing
from kvbench.report.quantities import plain_number
from kvbench.report.rows import Row, rows_of

SIMULATED_CAPTION = (
    " Where the same pool was replayed with that many seats, hatched squares say what happened: "
    "all ran at once and some were preempted, or never so many ran at once."
)

#: What a replay says about its seats: all ran at once, and nobody or somebody was preempted;
#: memory kept them from running at once.
_CALM, _PREEMPTED, _HELD_BACK = "calm", "preempts", "waits"
_PREEMPTIONS, _RUNNING, _WAITING = (
    "preemptions_count",
    "peak_running_requests",
    "peak_waiting_requests",
)
_SIMULATED = "simulated"

Point = tuple[float, float]


def fit_states(part: pd.DataFrame, run: RunFrames) -> pd.DataFrame:
    """Return ``context, requests, state`` of each square of one point of the matrix.

    Args:
        part: Rows of the metric of concurrency, one for each context.
        run: The run, for the replays of the same pool.
    """
    rows = rows_of(part.drop_duplicates("context"))
    replays = _replays(rows[0], run)
    steps = _steps(rows, {requests for _, requests in replays})
    found = [
        {
            "context": row.context,
            "requests": step,
            "state": _state(step, row, replays.get((row.context, step), "")),
        }
        for row in rows
        for step in steps
    ]
    return pd.DataFrame(found)


def is_simulated(states: pd.DataFrame) -> bool:
    """Whether a replay decided any square."""
    return bool(states["state"].isin(["staggered", _PREEMPTED, _HELD_BACK]).any())


def fit_words(name: str, states: pd.DataFrame) -> str:
    """Return the squares of one point in words."""
    words = f"{name}: at least {_most(states, 'fits') or 'none'}"
    preempted = _most(states, _PREEMPTED)
    return words + (f", with preemption in the simulation {preempted}" if preempted else "")


def _most(states: pd.DataFrame, state: str) -> str:
    largest = states[states["state"] == state].groupby("context")["requests"].max()
    pairs = zip(largest.index.tolist(), largest.tolist(), strict=True)
    return ", ".join(f"{plain_number(most)} at {plain_number(context)}" for context, most in pairs)


def _steps(rows: list[Row], replayed: set[float]) -> list[float]:
    """Powers of two up to the first that cannot fit, or the replayed seats and those below."""
    most = max(1, *(int(row.high) for row in rows))
    powers = [1 << power for power in range(min(10, most.bit_length()) + 1)]
    below = [power for power in powers if power < min(replayed, default=math.inf)]
    return sorted({*below, *replayed})


def _state(requests: float, row: Row, replayed: str) -> str:
    if replayed == _PREEMPTED:
        return _PREEMPTED
    if requests <= int(row.low):
        return "fits"
    if requests <= int(row.high):
        return "maybe"
    return {_CALM: "staggered", _HELD_BACK: _HELD_BACK}.get(replayed, "no")


def _replays(row: Row, run: RunFrames) -> dict[Point, str]:
    """Replays of the pool that ``row`` is about: (context, seats) -> what they say."""
    blocks = _pool_blocks(run, row.evidence).get(row.cell_id)
    if blocks is None:
        return {}
    values = run.values[run.values["evidence"] == _SIMULATED]
    same = [cell for cell, size in _pool_blocks(run, _SIMULATED).items() if size == blocks]
    values = values[values["cell_id"].isin(same)]
    figures = values[values["metric"].isin([_PREEMPTIONS, _RUNNING, _WAITING])]
    wide = figures.pivot_table(index="cell_id", columns="metric", values="value", sort=False)
    if not {_PREEMPTIONS, _RUNNING, _WAITING} <= set(wide.columns):
        return {}
    cells = rows_of(run.cells[run.cells["cell_id"].isin(wide.index)])
    return {
        (float(cell.context), float(cell.requests)): _said(wide.loc[cell.cell_id], cell.requests)
        for cell in cells
        if _is_same_point(cell, row) and not missing(cell.context) and not missing(cell.requests)
    }


def _pool_blocks(run: RunFrames, evidence: str) -> dict[str, float]:
    rows = run.values[
        (run.values["metric"] == "pool_blocks") & (run.values["evidence"] == evidence)
    ]
    return dict(zip(rows["cell_id"].tolist(), rows["value"].tolist(), strict=True))


def _is_same_point(cell: Row, row: Row) -> bool:
    if cell.model != row.model or _tp(cell) != _tp(row):
        return False
    return any(missing(each.kv_dtype) for each in (cell, row)) or cell.kv_dtype == row.kv_dtype


def _tp(row: Row) -> float:
    return 1.0 if missing(row.tp) else float(row.tp)


def _said(figures: pd.Series, seats: float) -> str:
    """What a replay says; nothing when its workload was too short to fill the seats."""
    if figures[_RUNNING] >= seats:
        return _PREEMPTED if figures[_PREEMPTIONS] else _CALM
    return _HELD_BACK if figures[_WAITING] else ""
