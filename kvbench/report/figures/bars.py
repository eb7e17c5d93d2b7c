"""A metric over named things: horizontal bars, hatched by kind of evidence, valued at the end."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvbench.report.evidence import LOOKS, ORDER, tag
from kvbench.report.figures.style import (
    COLOURS,
    QUIET,
    byte_locator,
    new_figure,
    panels,
    value_ticks,
)
from kvbench.report.labels import in_plain_words, with_series
from kvbench.report.quantities import in_words
from kvbench.report.rows import rows_of

MAX_BARS = 18


def metric_bars(frame: pd.DataFrame) -> Figure:
    """Draw one metric of one benchmark, a bar for each cell (the first ``MAX_BARS``).

    Args:
        frame: Rows of ``RunFrames.values`` of one metric, named by a column ``series`` or, without
            one, by the axes in which they differ.
    """
    rows = (frame if "series" in frame else with_series(frame, ())).head(MAX_BARS)
    figure = new_figure((8.0, max(2.2, 1.1 + 0.3 * len(rows))))
    (axis,) = panels(figure)
    for place, row in enumerate(rows_of(rows)):
        look = LOOKS[row.evidence]
        colour = COLOURS[ORDER.index(row.evidence)]
        axis.barh(
            place,
            row.value,
            height=0.66,
            facecolor=colour if look.filled else "#eef1f3",
            edgecolor=colour,
            hatch=look.hatch,
        )
        axis.annotate(
            in_words(row.value, row.unit),
            (max(row.value, 0), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
        )
    _finish(axis, rows)
    kinds = [kind for kind in ORDER if kind in set(rows["evidence"])]
    text = "evidence: " + ", ".join(tag(kind) for kind in kinds)
    figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color=QUIET)
    return figure


def _finish(axis: Axes, rows: pd.DataFrame) -> None:
    unit = rows["unit"].iloc[0]
    axis.set_yticks(range(len(rows)), rows["series"])
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.set_xlim(0, (max(rows["value"].max(), 0) or 1) * 1.16)
    axis.xaxis.set_major_locator(byte_locator(unit, rows["value"].max()))
    axis.xaxis.set_major_formatter(value_ticks(unit))
    axis.set_xlabel(in_plain_words(rows["metric"].iloc[0]))
