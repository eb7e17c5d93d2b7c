"""Curves that a cell states point by point: a ratio over capacities, seats or any amount."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvbench.report.evidence import LOOKS, tag
from kvbench.report.figures.style import (
    COLOURS,
    INK,
    QUIET,
    byte_locator,
    label_ends,
    new_figure,
    panels,
    scale_y,
    spans_octaves,
    value_ticks,
)
from kvbench.report.labels import in_plain_words
from kvbench.report.rows import groups_of


def curve_lines(
    points: pd.DataFrame, *, x_name: str, x_unit: str, limits: Sequence[float]
) -> Figure:
    """Draw the curves of one cell.

    Args:
        points: Columns ``x, metric, evidence, unit, value``.
        x_name: Metric that the x values are of.
        x_unit: Its unit.
        limits: Values that no curve passes, drawn as lines (an infinite cache).
    """
    figure = new_figure()
    (axis,) = panels(figure)
    _scale_amounts(axis, points["x"], x_unit)
    scale_y(axis, [*points["value"], *limits], points["unit"].iloc[0])
    ends = []
    for index, (metric, line) in enumerate(groups_of(points, "metric")):
        line, colour = line.sort_values("x"), COLOURS[index % len(COLOURS)]
        look = LOOKS[line["evidence"].iloc[0]]
        face = colour if look.filled else "white"
        axis.plot(line["x"], line["value"], color=colour, linestyle=("-", "--", ":")[index % 3],
                  marker=look.marker, markersize=4, markerfacecolor=face)  # fmt: skip
        ends.append(
            (line["x"].iloc[-1], line["value"].iloc[-1], in_plain_words(str(metric)), colour)
        )
    for limit in limits:
        axis.axhline(limit, color=QUIET, linestyle=(0, (6, 3)), linewidth=1.2)
        axis.annotate("without any limit", (0.01, limit), xycoords=("axes fraction", "data"),
                      xytext=(0, 3), textcoords="offset points", fontsize=8.5,
                      color=INK)  # fmt: skip
    axis.set_xlabel(in_plain_words(x_name))
    label_ends(axis, ends)
    kinds = " ".join(tag(kind) for kind in points["evidence"].unique())
    figure.supxlabel(f"evidence: {kinds}", x=0.01, ha="left", fontsize=8, color=QUIET)
    return figure


def _scale_amounts(axis: Axes, values: pd.Series, unit: str) -> None:
    if spans_octaves(sorted(values)):
        axis.set_xscale("log", base=2)
        axis.minorticks_off()
    else:
        axis.xaxis.set_major_locator(byte_locator(unit, float(values.max())))
    axis.xaxis.set_major_formatter(value_ticks(unit))
