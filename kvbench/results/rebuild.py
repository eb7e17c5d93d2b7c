"""From the plan and the journal of a run to its results; the only way results come about."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from kvbench.errors import ResultsError
from kvbench.results.build import build_results
from kvbench.results.journal import History, Outcome, RepeatRecord, read_journal
from kvbench.results.metadata import RunMetadata, from_json, plain, to_json
from kvbench.results.record import CellIdentity, CellRecord
from kvbench.results.schema import (
    ENVIRONMENT_FILE,
    JOURNAL_FILE,
    MEASURED,
    PLAN_FILE,
    Phase,
    Status,
)
from kvbench.results.table import Results

_T = TypeVar("_T")
_NOT_RUN = Outcome(
    status=Status.INTERRUPTED, reason="not_run", error="The run ended before this cell began."
)
_CUT_SHORT = Outcome(
    status=Status.INTERRUPTED,
    reason="interrupted",
    error="The run ended before all repeats of this cell were done; a resumed run carries on.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """``plan.json``: the run's metadata before it ran, and its cells.

    Attributes:
        metadata: Metadata, environment left out (it has a file of its own).
        cells: Every cell of the plan.
        skipped: Cell id to the outcome that was known when the plan was made.
    """

    metadata: RunMetadata
    cells: tuple[CellIdentity, ...]
    skipped: Mapping[str, Outcome]


def plan_to_json(plan: StoredPlan) -> dict[str, Any]:
    """Return the content of ``plan.json``."""
    return {
        "metadata": to_json(plan.metadata),
        "cells": [_identity_to_json(cell) for cell in plan.cells],
        "skipped": {cell_id: plain(outcome) for cell_id, outcome in plan.skipped.items()},
    }


def _identity_to_json(cell: CellIdentity) -> dict[str, Any]:
    # Plans are long: this is several times faster than walking through every value.
    values = {item.name: getattr(cell, item.name) for item in dataclasses.fields(cell)}
    return {**values, "axes": dict(cell.axes), "params": dict(cell.params)}


def read_plan(run_dir: Path) -> StoredPlan:
    """Read ``plan.json`` and ``environment.json`` of a run.

    Raises:
        ResultsError: A file is missing or damaged.
    """
    stored = _read_json(run_dir / PLAN_FILE)
    try:
        metadata = from_json(stored["metadata"])
        cells = tuple(CellIdentity(**cell) for cell in stored["cells"])
        skipped = {
            cell_id: Outcome(**{**outcome, "status": Status(outcome["status"])})
            for cell_id, outcome in stored["skipped"].items()
        }
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"{run_dir / PLAN_FILE}: damaged ({error})") from None
    environment = _read_json(run_dir / ENVIRONMENT_FILE)
    metadata = dataclasses.replace(metadata, environment=environment)
    return StoredPlan(metadata=metadata, cells=cells, skipped=skipped)


def rebuild_results(run_dir: Path) -> Results:
    """Return the results of a run from its plan and journal, finished or not.

    The run counts as complete when every cell of the plan has its outcome and no failure
    stopped it.

    Raises:
        ResultsError: A file is missing or damaged, or an invariant is broken.
    """
    plan = read_plan(run_dir)
    journal = run_dir / JOURNAL_FILE
    histories = read_journal(journal) if journal.exists() else {}
    records = [_record(cell, histories, plan.skipped) for cell in plan.cells]
    records = _number(records)
    complete = not any(_is_open(record) for record in records)
    return build_results(records, dataclasses.replace(plan.metadata, complete=complete))


def _is_open(record: CellRecord) -> bool:
    return record.status is Status.INTERRUPTED or record.reason == "aborted"


def _record(
    cell: CellIdentity, histories: Mapping[str, History], skipped: Mapping[str, Outcome]
) -> CellRecord:
    if cell.cell_id in skipped:
        return cell_record(cell, History(outcome=skipped[cell.cell_id]))
    return cell_record(cell, histories.get(cell.cell_id, History()))


def cell_record(cell: CellIdentity, history: History) -> CellRecord:
    """Merge the repeats of a cell's newest attempt with its outcome."""
    repeats = history.repeats
    outcome = history.outcome or (_CUT_SHORT if repeats else _NOT_RUN)
    kept = [r for r in repeats if r.phase is Phase.WARMUP or outcome.status in MEASURED]
    last = repeats[-1] if repeats else None
    identity = _with_engine(cell, last)
    return CellRecord(
        identity=identity,
        status=outcome.status,
        reason=outcome.reason,
        error=outcome.error,
        log_path=outcome.log_path,
        attempt=history.attempt,
        order_index=history.order_index,
        started_at_us=repeats[0].started_at_us if repeats else None,
        setup_s=outcome.setup_s,
        wall_s=_seconds(repeats, outcome.wall_s) if history.attempt else None,
        measure_s=_seconds(r for r in kept if r.phase is Phase.MEASURE) if kept else None,
        effective=last.effective if last else {},
        assumptions=_unique(r.assumptions for r in repeats),
        warnings=_unique(r.warnings for r in repeats),
        artifacts=last.artifacts if last else {},
        series=tuple(chain.from_iterable(r.series for r in kept)),
    )


def _with_engine(cell: CellIdentity, last: RepeatRecord | None) -> CellIdentity:
    # Some engines know their version only once they run: they report it as a setting.
    found = {} if last is None else last.effective
    version, distribution = found.get("engine_version", ""), found.get("engine_distribution", "")
    return dataclasses.replace(
        cell,
        engine_version=cell.engine_version or str(version),
        engine_distribution=cell.engine_distribution or str(distribution),
    )


def _seconds(repeats: Iterable[RepeatRecord], more: float = 0.0) -> float:
    return round(sum(repeat.wall_s for repeat in repeats) + more, 9)


def _unique(groups: Iterable[Iterable[_T]]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(groups)))


def _number(records: list[CellRecord]) -> list[CellRecord]:
    """Turn places in the journal into places among the finished cells of the plan."""
    places = sorted(r.order_index for r in records if r.order_index is not None)
    rank = {place: index for index, place in enumerate(places)}
    return [
        record
        if record.order_index is None
        else dataclasses.replace(record, order_index=rank[record.order_index])
        for record in records
    ]


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ResultsError(f"{path.parent}: no {path.name}; not the folder of a run") from None
    except (OSError, ValueError) as error:
        raise ResultsError(f"cannot read {path}: {error}") from None
    if not isinstance(values, dict):
        raise ResultsError(f"{path}: damaged (not a JSON object)")
    return values
