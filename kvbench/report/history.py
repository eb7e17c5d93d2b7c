"""Several runs side by side: metrics over runs, where they change, and what changed with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd

from kvbench.compare.pairs import compare_runs
from kvbench.compare.settings import setting_changes
from kvbench.report.frames import RunFrames
from kvbench.report.labels import point_name
from kvbench.report.rows import rows_of
from kvbench.results.metadata import environment_changes
from kvbench.results.schema import PARAM_PREFIX
from kvbench.results.verdict import PairVerdict, Verdict

_CHANGED = {Verdict.BETTER, Verdict.WORSE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step from a run to the next.

    Attributes:
        base: Id of the earlier run.
        new: Id of the later run.
        environment: What is different around them: name, before, after; options that the cells
            were given first, then the machine and its software.
        pairs: Verdicts of their cells.
    """

    base: str
    new: str
    environment: tuple[tuple[str, str, str], ...]
    pairs: tuple[PairVerdict, ...]

    @property
    def changed(self) -> tuple[PairVerdict, ...]:
        """Pairs with a verdict of better or worse."""
        return tuple(pair for pair in self.pairs if pair.verdict in _CHANGED)


def changes(runs: Sequence[RunFrames]) -> list[Change]:
    """Return the step from each run to the next, in the order of ``runs``."""
    return [change(base, new) for base, new in pairwise(runs)]


def change(base: RunFrames, new: RunFrames) -> Change:
    """Return what is different between two runs."""
    before, after = base.results.metadata, new.results.metadata
    return Change(
        base=before.run_id,
        new=after.run_id,
        environment=tuple(
            (key, _said(old), _said(now))
            for key, old, now in (
                *setting_changes(base.results, new.results),
                *environment_changes(before.environment, after.environment),
            )
        ),
        pairs=tuple(compare_runs(base.results, new.results)),
    )


def trends(runs: Sequence[RunFrames], steps: Sequence[Change]) -> pd.DataFrame:
    """Return one row for each run and compared metric of a cell that is in several runs.

    Columns ``benchmark, engine, point, metric, evidence, unit, place`` (number of the run, from
    0), ``run_id, value, low, high, mark`` (verdict against the run before when it changed, else
    empty) and ``shift`` (largest change of the line, as a factor of at least 1).
    """
    parts = [_placed(run, place) for place, run in enumerate(runs)]
    rows = pd.concat(parts, ignore_index=True)
    key = ["benchmark", "engine", "point", "metric", "evidence"]
    groups = rows.groupby(key, sort=False, dropna=False)["value"]
    seen, low, high = (groups.transform(name) for name in ("size", "min", "max"))
    rows = rows.assign(shift=(high / low.where(low > 0)).fillna(1.0))[seen > 1]
    marks = {
        (place, pair.benchmark, pair.engine, point_name(pair.where), pair.metric): str(pair.verdict)
        for place, step in enumerate(steps, start=1)
        for pair in step.changed
    }
    names = rows[["place", *key[:4]]].itertuples(index=False, name=None)
    return rows.assign(mark=[marks.get(name, "") for name in names])


def change_points(steps: Sequence[Change]) -> Iterator[tuple[Change, dict[str, int]]]:
    """Yield the steps in which a metric changed, with the number of pairs by verdict."""
    for step in steps:
        counts = {str(v): sum(pair.verdict == v for pair in step.pairs) for v in _CHANGED}
        if any(counts.values()):
            yield step, {name: counts[name] for name in sorted(counts, reverse=True)}


def _placed(run: RunFrames, place: int) -> pd.DataFrame:
    values = run.values
    axes = [name for name in values.columns if name.startswith(PARAM_PREFIX)]
    points = [
        point_name({name[len(PARAM_PREFIX) :]: value for name, value in row.items()})
        for row in rows_of(values[axes])
    ]
    columns = ["benchmark", "engine", "metric", "evidence", "unit", "value", "low", "high"]
    run_id = run.results.metadata.run_id
    return values[columns].assign(point=points, place=place, run_id=run_id)


def _said(value: object) -> str:
    return "unknown" if value is None else str(value)
