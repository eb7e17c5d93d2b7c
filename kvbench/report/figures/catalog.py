"""Which figures a run has data for, in the order in which a report shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from kvbench.report.evidence import ORDER
from kvbench.report.figures.bars import MAX_BARS, metric_bars
from kvbench.report.figures.chart import Chart
from kvbench.report.figures.lines import MAX_LINES, MAX_PANELS, Ceiling, metric_lines
from kvbench.report.frames import RunFrames, axis_role
from kvbench.report.labels import (
    axis_name,
    differing_axes,
    in_plain_words,
    value_text,
    with_series,
)
from kvbench.report.quantities import in_words, interval
from kvbench.report.rows import groups_of, rows_of
from kvbench.results.schema import PARAM_PREFIX

#: Most metric charts of one report, so that the file stays small.
MAX_CHARTS = 14

#: Metrics that get the first charts, in this order, each with its section.
_FIRST = {
    "concurrent_requests": "capacity",
    "max_concurrency_requests": "capacity",
    "max_context_tokens": "capacity",
    "capacity_tokens": "capacity",
    "kv_budget_bytes": "capacity",
    "p99_ttft_s": "latency",
    "p99_inter_token_s": "latency",
    "p99_queue_s": "latency",
    "p50_ttft_s": "latency",
    "p50_inter_token_s": "latency",
    "paged_bytes": "bytes",
    "logical_bytes": "bytes",
    "fragmentation_ratio": "fragmentation",
    "workload_fragmentation_ratio": "fragmentation",
    "moved_bytes_per_s": "bandwidth",
    "prefix_hit_ratio": "sharing",
    "shared_saved_bytes": "sharing",
    "shared_saved_blocks": "sharing",
    "peak_used_bytes": "occupancy",
    "peak_used_blocks": "occupancy",
}

#: Metrics that say the same as another one of the same benchmark: drawn only without it.
_REPEATS = {
    "logical_bytes": "paged_bytes",
    "max_concurrency_requests": "concurrent_requests",
    "peak_used_blocks": "peak_used_bytes",
    "shared_saved_blocks": "shared_saved_bytes",
}

#: Metric -> metrics of the same cells that it cannot exceed, drawn as lines of reference.
_CEILINGS = {"moved_bytes_per_s": ("copy_bytes_per_s", "read_bytes_per_s")}

#: Parts of a whole that a chart of shares shows together.
_SHARES = {
    "live_ratio",
    "state_pages_ratio",
    "tail_waste_ratio",
    "reserved_waste_ratio",
    "padding_waste_ratio",
}

#: Parts of a pool, which its chart over time shows together.
_POOL_PARTS = {
    f"part_{part}_ratio"
    for part in ("live", "shared", "tail", "reserved", "state", "cached", "free", "null")
}

#: Metrics that sentences and tables say better than a chart.
_NOT_DRAWN = {
    "mean_null_entries_count",
    "next_tp_ranks",
    "next_tp_requests",
    "scheduler_limit_requests",
}

#: Metrics without a chart of their own.
_BESIDE_OTHERS = (
    _SHARES | _POOL_PARTS | _NOT_DRAWN | {name for names in _CEILINGS.values() for name in names}
)

#: Axes in which panels are split when one panel would hold too many lines.
_PANEL_ROLES = ("device", "kv_dtype", "layout", "tp", "block_size", "workload", "model")


def metric_charts(run: RunFrames) -> list[Chart]:
    """Return a chart for each metric of each benchmark that varies, the telling ones first."""
    found: list[Chart] = []
    for (benchmark, metric), frame in _ranked(run):
        chart = _metric_chart(str(benchmark), str(metric), frame, run)
        if chart is not None:
            found.append(chart)
        if len(found) == MAX_CHARTS:
            break
    return found


def numeric_axes(frame: pd.DataFrame) -> list[str]:
    """Axes of ``frame`` with at least two different numbers, the longest first."""
    found = []
    for axis in differing_axes(frame):
        column = frame[PARAM_PREFIX + axis]
        if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column):
            found.append((axis, column.nunique()))
    found = [(axis, count) for axis, count in found if count > 1]
    return [axis for axis, _ in sorted(found, key=lambda item: -item[1])]


def _ranked(run: RunFrames) -> Iterator[tuple[tuple[str, str], pd.DataFrame]]:
    groups = dict(groups_of(run.values, "benchmark", "metric"))
    names = list(_FIRST)

    def place(key: tuple[str, str]) -> int:
        return names.index(key[1]) if key[1] in names else len(names)

    drawn: set[tuple[object, ...]] = set()
    for key in sorted(groups, key=place):
        if key[1] in _BESIDE_OTHERS or key[1].endswith("_budget_bytes"):
            continue
        numbers = (key[0], *groups[key]["value"])
        told = (key[0], _REPEATS.get(key[1], "")) in groups or numbers in drawn
        if not told and (key[1] in names or _directed(key[1], run)):
            drawn.add(numbers)
            yield key, groups[key]


def _directed(metric: str, run: RunFrames) -> bool:
    registry = run.results.metadata.metrics
    return any(name == metric and row.direction != "none" for (name, _), row in registry.items())


def _metric_chart(benchmark: str, metric: str, frame: pd.DataFrame, run: RunFrames) -> Chart | None:
    if frame["value"].nunique() < 2:
        return None
    axis = _best_axis(frame)
    draw: Callable[..., Chart | None] = _bars if axis is None else _lines
    return draw(benchmark, metric, frame, axis, _meaning(metric, run), _ceilings(frame, run))


def _ceilings(frame: pd.DataFrame, run: RunFrames) -> list[Ceiling]:
    """Medians of the metrics that this one cannot exceed, over its cells and its evidence."""
    found = []
    for name in _CEILINGS.get(str(frame["metric"].iloc[0]), ()):
        same = run.values["cell_id"].isin(frame["cell_id"]) & (run.values["metric"] == name)
        values = run.values[same & run.values["evidence"].isin(frame["evidence"])]["value"]
        if len(values):
            middle = float(values.median())
            words = in_words(middle, str(frame["unit"].iloc[0]))
            found.append(Ceiling(value=middle, text=f"{in_plain_words(name)}: {words}"))
    return found


def _best_axis(frame: pd.DataFrame) -> str | None:
    """The axis to draw along: one that the metric depends on, contexts and blocks first."""
    axes = [axis for axis in numeric_axes(frame) if _depends(frame, axis)]
    for role in ("context", "block_size", "requests"):
        for axis in axes:
            if axis_role(axis) == role:
                return axis
    return axes[0] if axes else None


def _depends(frame: pd.DataFrame, axis: str) -> bool:
    return bool((with_series(frame, {axis}).groupby("series")["value"].nunique() > 1).any())


def _without_idle_axes(frame: pd.DataFrame) -> pd.DataFrame:
    """One row for each point of the axes that the metric depends on."""
    idle = {axis for axis in numeric_axes(frame) if not _depends(frame, axis)}
    return frame.assign(series=with_series(frame, idle)["series"]).drop_duplicates("series")


def _lines(
    benchmark: str,
    metric: str,
    frame: pd.DataFrame,
    axis: str,
    meaning: str,
    ceilings: Sequence[Ceiling],
) -> Chart | None:
    frame = frame[frame[PARAM_PREFIX + axis].notna()]
    panel = _panel_axis(frame, axis)
    drawn = _drawable(frame, axis, panel)
    title = f"{_title(metric)} against {axis_name(axis)}"
    return Chart(
        slug=f"{benchmark}-{metric}",
        section=_FIRST.get(metric, "more"),
        title=f"{title} ({benchmark})",
        caption=f"{meaning} {_omitted(frame, drawn)}".strip(),
        alt=f"{title}. {_ends(drawn, axis)}" + "".join(f" {row.text}." for row in ceilings),
        evidence=_kinds(drawn),
        figure=metric_lines(drawn, axis, panel=panel, ceilings=ceilings),
    )


def _bars(
    benchmark: str,
    metric: str,
    frame: pd.DataFrame,
    axis: None,
    meaning: str,
    ceilings: Sequence[Ceiling],
) -> Chart:
    title = f"{_title(metric)} of each cell"
    frame = _without_idle_axes(frame)
    rows = frame.head(MAX_BARS)
    facts = [f"{row.series}: {in_words(row.value, row.unit)}" for row in rows_of(rows)]
    return Chart(
        slug=f"{benchmark}-{metric}",
        section=_FIRST.get(metric, "more"),
        title=f"{title} ({benchmark})",
        caption=f"{meaning} {_omitted(frame, rows)}".strip(),
        alt=f"{title}. {'; '.join(facts)}.",
        evidence=_kinds(rows),
        figure=metric_bars(frame),
    )


def _panel_axis(frame: pd.DataFrame, axis: str) -> str | None:
    axes = [name for name in differing_axes(frame) if name != axis]
    if with_series(frame, {axis})["series"].nunique() <= MAX_LINES:
        return None
    for role in _PANEL_ROLES:
        for name in axes:
            if axis_role(name) == role and frame[PARAM_PREFIX + name].nunique() > 1:
                return name
    return axes[0] if axes else None


def _drawable(frame: pd.DataFrame, axis: str, panel: str | None) -> pd.DataFrame:
    """Keep what the panels can show: their first values, and the first lines of each."""
    if panel is not None:
        shown = frame[PARAM_PREFIX + panel].dropna().unique()[:MAX_PANELS]
        frame = frame[frame[PARAM_PREFIX + panel].isin(shown)]
    names = with_series(frame, {axis, panel or ""})["series"]
    return frame[names.isin(names.unique()[:MAX_LINES])]


def _omitted(frame: pd.DataFrame, drawn: pd.DataFrame) -> str:
    left = len(frame) - len(drawn)
    return f"{left:,} more values are in the table." if left else ""


def _ends(frame: pd.DataFrame, axis: str) -> str:
    named = with_series(frame, {axis})
    column, unit = PARAM_PREFIX + axis, frame["unit"].iloc[0]
    facts = []
    for name, line in list(groups_of(named, "series"))[:MAX_LINES]:
        line = line.sort_values(column)
        rows = rows_of(line.iloc[[0, -1]])
        ends = [f"{in_words(row.value, unit)} at {value_text(row[column])}" for row in rows]
        facts.append(f"{name}: {', '.join(ends)}")
    whole = interval(frame["value"].min(), frame["value"].max(), unit)
    return f"{'; '.join(facts)}. All values: {whole}."


def _kinds(frame: pd.DataFrame) -> list[str]:
    present = set(frame["evidence"].unique())
    return [kind for kind in ORDER if kind in present]


def _meaning(metric: str, run: RunFrames) -> str:
    registry = run.results.metadata.metrics
    return next((row.meaning for (name, _), row in registry.items() if name == metric), "")


def _title(metric: str) -> str:
    words = in_plain_words(metric)
    return words[:1].upper() + words[1:]
