"""Charts of what a pool did: shares of its slots, curves over its capacity."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from kvbench.report.evidence import ORDER
from kvbench.report.figures.chart import Chart
from kvbench.report.figures.curves import curve_lines
from kvbench.report.figures.shares import MAX_BARS, PARTS, slot_shares
from kvbench.report.frames import RunFrames
from kvbench.report.labels import differing_axes, in_plain_words, point_name, with_series
from kvbench.report.quantities import in_words, percent
from kvbench.report.rows import Row, groups_of, rows_of
from kvbench.results.schema import PARAM_PREFIX

#: Cells whose curves are drawn.
MAX_CURVES = 4


def share_charts(run: RunFrames) -> Iterator[Chart]:
    """Yield a chart for each benchmark that says what its allocated slots were there for."""
    rows = run.values[run.values["metric"].isin(PARTS)]
    for (benchmark, evidence), frame in groups_of(rows, "benchmark", "evidence"):
        wide = frame.pivot_table(index="cell_id", columns="metric", values="value", sort=False)
        if "live_ratio" not in wide:
            continue
        cells = with_series(frame.drop_duplicates("cell_id"), ()).set_index("cell_id")
        wide = wide.assign(series=cells["series"].reindex(wide.index)).reset_index(drop=True)
        facts = [f"{row['series']}: {_parts(row)}" for row in rows_of(wide.head(6))]
        left = len(wide) - MAX_BARS
        yield Chart(
            slug=f"{benchmark}-slots",
            section="fragmentation",
            title=f"What the allocated slots hold ({benchmark})",
            caption="Everything but tokens and states is waste, by cause."
            + (f" {left} more cells are in the table." if left > 0 else ""),
            alt=f"{'; '.join(facts)}.",
            evidence=[str(evidence)],
            figure=slot_shares(wide, str(evidence)),
        )


def curve_charts(run: RunFrames) -> Iterator[Chart]:
    """Yield a chart for each cell that states a ratio over some amount."""
    cells = run.cells[run.cells["cell_id"].isin(run.curves["cell_id"])]
    axes = differing_axes(cells) if len(cells) else []
    for row in rows_of(cells.head(MAX_CURVES)):
        curves = run.curves[run.curves["cell_id"] == row["cell_id"]]
        amounts = curves[curves["unit"] != "ratio"]
        ratios = curves[curves["unit"] == "ratio"]
        if amounts.empty or ratios.empty:
            continue
        x = _amounts(amounts)
        point = point_name({axis: row[PARAM_PREFIX + axis] for axis in axes}) or row["engine"]
        yield _curve_chart(run, row, x, ratios.merge(x[["sample", "x"]], on="sample"), point)


def _amounts(amounts: pd.DataFrame) -> pd.DataFrame:
    """The amounts of one metric, bytes before others."""
    units = sorted(amounts["unit"].unique(), key=lambda unit: (unit != "bytes", unit))
    first = amounts[amounts["unit"] == units[0]]
    one: pd.DataFrame = first[first["metric"] == first["metric"].iloc[0]]
    return one.assign(x=one["value"]).drop(columns="value")


def _curve_chart(
    run: RunFrames, row: Row, x: pd.DataFrame, points: pd.DataFrame, point: str
) -> Chart:
    name, unit = str(x["metric"].iloc[0]), str(x["unit"].iloc[0])
    ratios = [in_plain_words(metric) for metric in points["metric"].unique()]
    title = f"{', '.join(ratios)} against {in_plain_words(name)}"
    limit = run.values[
        (run.values["cell_id"] == row["cell_id"]) & (run.values["metric"] == "infinite_hit_ratio")
    ]["value"]
    facts = []
    for metric, line in groups_of(points.sort_values("x"), "metric"):
        first, last = line.iloc[0], line.iloc[-1]
        facts.append(
            f"{metric}: {percent(first['value'])} at {in_words(first['x'], unit)}, "
            f"{percent(last['value'])} at {in_words(last['x'], unit)}"
        )
    present = set(points["evidence"])
    return Chart(
        slug=f"curve-{row['ordinal']}",
        section="sharing" if "hit" in title else "more",
        title=f"{title[:1].upper()}{title[1:]} ({row['benchmark']}, {point})",
        caption="Each point is one capacity or amount that was tried.",
        alt=f"{'; '.join(facts)}.",
        evidence=[kind for kind in ORDER if kind in present],
        figure=curve_lines(points, x_name=name, x_unit=unit, limits=list(limit[:1])),
    )


def _parts(row: Row) -> str:
    words = [f"{percent(row[name])} {PARTS[name][0]}" for name in PARTS if row.get(name)]
    return ", ".join(words)
