"""One metric over runs: a line per cell, change points ringed and named."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from kvbench.report.evidence import LOOKS
from kvbench.report.figures.style import COLOURS, INK, label_ends, new_figure, panels, scale_y
from kvbench.report.labels import in_plain_words
from kvbench.report.rows import groups_of, rows_of

#: Lines of one trend figure.
MAX_LINES = 6


def trend_lines(frame: pd.DataFrame, run_names: Sequence[str]) -> Figure:
    """Draw one metric of one kind of evidence over runs.

    Args:
        frame: Rows of ``history.trends``.
        run_names: Label of each run, in order.
    """
    figure = new_figure()
    (axis,) = panels(figure)
    scale_y(axis, frame["value"], frame["unit"].iloc[0], in_plain_words(frame["metric"].iloc[0]))
    ends = []
    lines = list(groups_of(frame, "engine", "point"))[:MAX_LINES]
    for index, ((engine, point), line) in enumerate(lines):
        colour, look = COLOURS[index % len(COLOURS)], LOOKS[line["evidence"].iloc[0]]
        face = colour if look.filled else "white"
        axis.plot(line["place"], line["value"], color=colour, linestyle=look.dash,
                  marker=look.marker, markerfacecolor=face)  # fmt: skip
        axis.fill_between(line["place"], line["low"], line["high"], color=colour, alpha=0.15)
        last = line.iloc[-1]
        ends.append((last["place"], last["value"], str(point or engine), colour))
    for row in rows_of(frame[frame["mark"] != ""]):
        axis.plot([row.place], [row.value], marker="o", markersize=13, color=INK, fillstyle="none",
                  linestyle="none")  # fmt: skip
        axis.annotate(row.mark, (row.place, row.value), xytext=(-9, 6), ha="right", fontsize=8,
                      textcoords="offset points")  # fmt: skip
    axis.set_xticks(range(len(run_names)), run_names)
    axis.set_xlim(-0.2, len(run_names) - 0.8)
    label_ends(axis, ends)
    return figure
