"""How long a plan may take: from earlier runs of the same cells, else only its limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from kvbench.errors import ResultsError
from kvbench.plan.spec import Plan, PlannedCell
from kvbench.results.journal import History, read_journal
from kvbench.results.schema import JOURNAL_FILE, MEASURED

#: Earlier runs that are looked at, newest first.
_RUNS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Seconds that a plan may take, one cell after the other.

    Attributes:
        runnable_cells: Cells that will run.
        known_cells: Those of them that an earlier run measured.
        expected_s: From earlier runs; ``None`` unless every runnable cell was measured, or
            another cell of its benchmark and engine.
        at_least_s: What the protocol asks for (``min_measure_s``).
        at_most_s: What the protocol allows (``timeout_s`` of every repeat), engine start-up
            apart.
        basis: What it rests on, one sentence.
    """

    runnable_cells: int
    known_cells: int
    expected_s: float | None
    at_least_s: float
    at_most_s: float
    basis: str


def estimate(plan: Plan, runs: Path) -> Estimate:
    """Estimate a plan from the runs in folder ``runs`` (there need be none)."""
    runnable = [cell for cell in plan.cells if not cell.skip_status]
    history = earlier(runs)
    known = [cell for cell in runnable if cell.cell.cell_id in history]
    expected = _expected(runnable, known, history)
    return Estimate(
        runnable_cells=len(runnable),
        known_cells=len(known),
        expected_s=expected,
        at_least_s=sum(cell.protocol.min_measure_s for cell in runnable),
        at_most_s=sum(map(_limit_s, runnable)),
        basis=_basis(len(runnable), len(known), expected),
    )


def earlier(runs: Path) -> dict[str, History]:
    """What the newest runs in ``runs`` measured, by cell id; the newest run wins."""
    journals = sorted(runs.glob(f"*/{JOURNAL_FILE}"), reverse=True)[:_RUNS] if runs.is_dir() else []
    found: dict[str, History] = {}
    for journal in reversed(journals):
        try:
            history = read_journal(journal)
        except ResultsError:
            # Only a hint is lost; reading that run will name the damage.
            continue
        found.update({cell: item for cell, item in history.items() if _is_measured(item)})
    return found


def _is_measured(history: History) -> bool:
    return history.outcome is not None and history.outcome.status in MEASURED


def _expected(
    runnable: list[PlannedCell], known: list[PlannedCell], history: Mapping[str, History]
) -> float | None:
    spent: dict[tuple[str, str], list[float]] = {}
    for cell in known:
        wall_s = sum(repeat.wall_s for repeat in history[cell.cell.cell_id].repeats)
        spent.setdefault(_side(cell), []).append(wall_s)
    if not runnable or any(_side(cell) not in spent for cell in runnable):
        return None
    return sum(fmean(spent[_side(cell)]) for cell in runnable) + _setup_s(known, history)


def _setup_s(known: Iterable[PlannedCell], history: Mapping[str, History]) -> float:
    """Start-up of every engine configuration, once each."""
    setup: dict[str, float] = {}
    for cell in known:
        outcome = history[cell.cell.cell_id].outcome
        seconds = (outcome.setup_s if outcome else None) or 0.0
        setup[cell.config_id] = max(seconds, setup.get(cell.config_id, 0.0))
    return sum(setup.values())


def _side(cell: PlannedCell) -> tuple[str, str]:
    return cell.cell.benchmark, cell.cell.engine


def _limit_s(cell: PlannedCell) -> float:
    protocol = cell.protocol
    repeats = protocol.warmup + protocol.repeats
    return repeats * protocol.timeout_s + protocol.min_measure_s


def _basis(runnable: int, known: int, expected: float | None) -> str:
    if not runnable:
        return "nothing will run"
    if expected is None:
        return (
            "limits of the protocol (min_measure_s; timeout_s of every repeat, engine start-up "
            f"apart), since earlier runs have measured {known} of {runnable} cells"
        )
    return f"earlier runs: {known} of {runnable} cells were measured before, process start-up apart"
