"""Charts of a capacity review: memory by term, and what fits at which context."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kvbench.report.evidence import ORDER
from kvbench.report.figures.budget import MAX_BARS, memory_by_term, memory_waterfall
from kvbench.report.figures.chart import Chart
from kvbench.report.figures.fit_states import (
    SIMULATED_CAPTION,
    fit_states,
    fit_words,
    is_simulated,
)
from kvbench.report.figures.fits import MAX_PANELS, STATES, fit_map, thinned
from kvbench.report.frames import ROLES, RunFrames
from kvbench.report.labels import with_series
from kvbench.report.quantities import binary
from kvbench.report.rows import Row, groups_of, rows_of

#: ``<term>_budget_bytes`` is a term; these two are what it starts from and what is left.
_END = "_budget_bytes"
_ALLOWED, _CACHE = "device_budget_bytes", "kv_budget_bytes"
_CONCURRENCY = ("concurrent_requests", "max_concurrency_requests")


def budget_charts(run: RunFrames) -> Iterator[Chart]:
    """Yield the memory by term of each benchmark, and the waterfall of its first point."""
    rows = run.values[run.values["metric"].str.endswith(_END)]
    for (benchmark, evidence), frame in groups_of(rows, "benchmark", "evidence"):
        terms = [
            name.removesuffix(_END)
            for name in frame["metric"].unique()
            if name not in {_ALLOWED, _CACHE} and frame.loc[frame["metric"] == name, "value"].any()
        ]
        points = _budget_points(frame)
        terms = sorted(terms, key=lambda term: -points[term].max()) if len(points) else []
        if not terms or points.empty:
            continue
        shown = rows_of(points.head(MAX_BARS))
        facts = [f"{row.series}: {_budget_words(row, terms)}" for row in shown]
        left = len(points) - len(shown)
        more = f" {left} more points are in the table." if left > 0 else ""
        yield Chart(
            slug=f"{benchmark}-memory",
            section="capacity",
            title=f"Memory of one rank by term ({benchmark})",
            caption=f"What the engine uses for other things, and what is left for the cache.{more}",
            alt=f"{'; '.join(facts)}.",
            evidence=[evidence],
            figure=memory_by_term(points, terms, evidence),
        )
        yield Chart(
            slug=f"{benchmark}-waterfall",
            section="ladder",
            title=f"From the device to the cache ({benchmark})",
            caption="The first point of the chart of all points, term by term.",
            alt=f"{facts[0]}.",
            evidence=[evidence],
            figure=memory_waterfall(shown[0], terms, evidence),
        )


def fit_charts(run: RunFrames) -> Iterator[Chart]:
    """Yield a map of contexts against requests for each benchmark that says what fits."""
    metric = next((name for name in _CONCURRENCY if (run.values["metric"] == name).any()), "")
    rows = run.values[(run.values["metric"] == metric) & run.values["context"].notna()]
    for (benchmark, evidence), frame in groups_of(rows, "benchmark", "evidence"):
        if frame["context"].nunique() < 2:
            continue
        drawn = thinned(sorted(frame["context"].unique()))
        kept = frame[frame["context"].isin(drawn)]
        named = with_series(kept, ROLES["context"])
        groups = [(str(name), part) for name, part in groups_of(named, "series")]
        yield from _fit_chart((str(benchmark), str(evidence)), frame, groups, drawn, run)


def _fit_chart(
    key: tuple[str, str],
    frame: pd.DataFrame,
    groups: list[tuple[str, pd.DataFrame]],
    drawn: list[float],
    run: RunFrames,
) -> Iterator[Chart]:
    benchmark, evidence = key
    parts = [(name, fit_states(part, run)) for name, part in groups]
    parts = [(name, part) for name, part in parts if part["state"].nunique() > 1]
    parts.sort(key=lambda item: not is_simulated(item[1]))
    if not parts:
        return
    left, contexts = len(parts) - MAX_PANELS, frame["context"].nunique()
    some = f" {len(drawn)} of {contexts:,} contexts are drawn." if len(drawn) < contexts else ""
    shown = parts[:MAX_PANELS]
    used = {STATES[state].evidence or evidence for _, part in shown for state in part["state"]}
    yield Chart(
        slug=f"{benchmark}-fits",
        section="capacity",
        title=f"What fits at once ({benchmark})",
        caption="Each square is a number of requests at one context."
        + (SIMULATED_CAPTION if any(is_simulated(part) for _, part in shown) else "")
        + some
        + (f" {left} more points are in the table." if left > 0 else ""),
        alt=f"{'; '.join(fit_words(name, part) for name, part in shown)}.",
        evidence=[kind for kind in ORDER if kind in used],
        figure=fit_map(parts, evidence),
    )


def _budget_points(frame: pd.DataFrame) -> pd.DataFrame:
    """One row for each cell with different terms: its name, the terms, the cache's interval."""
    wide = frame.pivot_table(index="cell_id", columns="metric", values="value", sort=False)
    if _ALLOWED not in wide or _CACHE not in wide:
        return pd.DataFrame()
    cache = frame[frame["metric"] == _CACHE].set_index("cell_id")
    cells = with_series(frame.drop_duplicates("cell_id"), ROLES["context"]).set_index("cell_id")
    renamed = wide.rename(columns=lambda name: str(name).removesuffix(_END))
    points = renamed.assign(
        series=cells["series"],
        allowed=wide[_ALLOWED],
        cache=wide[_CACHE],
        cache_low=cache["low"],
        cache_high=cache["high"],
    )
    return points.dropna(subset=["allowed"]).drop_duplicates("series").fillna(0)


def _budget_words(row: Row, terms: list[str]) -> str:
    parts = [f"{term.replace('_', ' ')} {binary(row[term])}" for term in terms]
    return f"of {binary(row.allowed)}, {', '.join(parts)}, cache {binary(row.cache)}"
