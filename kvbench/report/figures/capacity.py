"""Charts of a capacity review: memory by term, and what fits at which context."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kvbench.report.figures.budget import MAX_BARS, memory_by_term, memory_waterfall
from kvbench.report.figures.chart import Chart
from kvbench.report.figures.fits import MAX_PANELS, fit_map, thinned
from kvbench.report.frames import ROLES, RunFrames
from kvbench.report.labels import with_series
from kvbench.report.quantities import binary, plain_number
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
            for name in dict.fromkeys(frame["metric"])
            if name not in {_ALLOWED, _CACHE} and frame.loc[frame["metric"] == name, "value"].any()
        ]
        points = _budget_points(frame)
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
        parts = [(str(name), _states(part)) for name, part in groups_of(named, "series")]
        parts = [(name, part) for name, part in parts if part["state"].nunique() > 1]
        if not parts:
            continue
        left, contexts = len(parts) - MAX_PANELS, frame["context"].nunique()
        some = f" {len(drawn)} of {contexts:,} contexts are drawn."
        yield Chart(
            slug=f"{benchmark}-fits",
            section="capacity",
            title=f"What fits at once ({benchmark})",
            caption="Each square is a number of requests at one context."
            + (some if len(drawn) < contexts else "")
            + (f" {left} more points are in the table." if left > 0 else ""),
            alt=f"{'; '.join(_fit_words(name, part) for name, part in parts[:MAX_PANELS])}.",
            evidence=[evidence],
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


def _states(part: pd.DataFrame) -> pd.DataFrame:
    most = max(1, int(part["high"].max()))
    steps = [1 << power for power in range(min(10, most.bit_length()) + 1)]
    found = [
        {"context": row.context, "requests": step, "state": _state(step, row)}
        for row in rows_of(part.drop_duplicates("context"))
        for step in steps
    ]
    return pd.DataFrame(found)


def _state(requests: int, row: Row) -> str:
    if requests <= int(row.low):
        return "fits"
    return "maybe" if requests <= int(row.high) else "no"


def _fit_words(name: str, part: pd.DataFrame) -> str:
    sure = part[part["state"] == "fits"].groupby("context")["requests"].max()
    pairs = zip(sure.index.tolist(), sure.tolist(), strict=True)
    facts = [f"{plain_number(most)} at {plain_number(context)}" for context, most in pairs]
    return f"{name}: at least {', '.join(facts) or 'none'}"
