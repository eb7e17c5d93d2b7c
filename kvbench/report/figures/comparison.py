"""Comparisons as a forest plot: ratio of medians with its interval, the verdict in words."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from kvbench.report.evidence import LOOKS
from kvbench.report.figures.style import INK, QUIET, new_figure, panels
from kvbench.report.quantities import times
from kvbench.report.rows import Row, rows_of

MAX_ROWS = 24


def ratio_forest(frame: pd.DataFrame) -> Figure:
    """Draw ratios of pairs of cells, one row each, in the order given.

    Args:
        frame: Columns ``label, evidence, ratio, ratio_low, ratio_high, verdict``; rows without
            a ratio are left out.
    """
    rows = frame[frame["ratio"].notna() & (frame["ratio"] > 0)].head(MAX_ROWS)
    figure = new_figure((8.0, max(2.2, 1.2 + 0.3 * len(rows))))
    (axis,) = panels(figure)
    axis.axvline(1.0, color=QUIET, linewidth=1.0)
    for place, row in enumerate(rows_of(rows)):
        _row(axis, place, row)
    axis.set_yticks(range(len(rows)), rows["label"])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.grid(visible=False, axis="y")
    _ratio_axis(axis, rows)
    return figure


def _row(axis: Axes, place: int, row: Row) -> None:
    ratio, look = row.ratio, LOOKS[row.evidence]
    low, high = row.ratio_low, row.ratio_high
    if low == low and high == high:
        axis.plot([low, high], [place, place], color=INK, linewidth=1.4)
    axis.plot(
        [ratio],
        [place],
        color=INK,
        marker=look.marker,
        markerfacecolor=INK if look.filled else "white",
    )
    axis.annotate(
        f"{times(ratio)} {row.verdict}",
        (1.0, place),
        xycoords=("axes fraction", "data"),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        annotation_clip=False,
    )


def _ratio_axis(axis: Axes, rows: pd.DataFrame) -> None:
    ends = [1.0, *rows["ratio"], *rows["ratio_low"].dropna(), *rows["ratio_high"].dropna()]
    if max(ends) / min(ends) > 3:
        axis.set_xscale("log", base=2)
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_minor_formatter(NullFormatter())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: times(value)))
    axis.set_xlabel("new over base (1× = no difference)")
