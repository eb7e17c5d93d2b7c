"""Shares of a whole as stacked bars: what the allocated slots of a pool were there for."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from kvbench.report.evidence import tag
from kvbench.report.figures.style import QUIET, new_figure, panels
from kvbench.report.quantities import percent
from kvbench.report.rows import rows_of

#: Metrics that add up to all allocated slots, each with its words, shade and hatch.
PARTS: dict[str, tuple[str, str, str]] = {
    "live_ratio": ("holding a token", "#2f7fb8", ""),
    "state_pages_ratio": ("states of fixed size", "#8c7bb5", ""),
    "tail_waste_ratio": ("empty tail of the last block", "#f3d9a4", ""),
    "reserved_waste_ratio": ("held for tokens to come", "#cfe0ec", "////"),
    "padding_waste_ratio": ("never written", "#e9b7a0", "...."),
}
MAX_BARS = 18


def slot_shares(frame: pd.DataFrame, evidence: str) -> Figure:
    """Draw one bar for each row.

    Args:
        frame: Column ``series`` and one column for each metric of ``PARTS`` that is known.
        evidence: Kind of evidence, named below the figure.
    """
    rows = frame.head(MAX_BARS)
    figure = new_figure((8.0, max(2.4, 1.3 + 0.34 * len(rows))))
    (axis,) = panels(figure)
    left = pd.Series(0.0, index=rows.index)
    for name in (part for part in PARTS if part in rows):
        words, shade, hatch = PARTS[name]
        axis.barh(range(len(rows)), rows[name], left=left, height=0.62, facecolor=shade,
                  edgecolor=QUIET, linewidth=0.5, hatch=hatch, label=words)  # fmt: skip
        left = left + rows[name].fillna(0.0)
    for place, row in enumerate(rows_of(rows)):
        axis.annotate(f"{percent(row['live_ratio'])} live", (1.0, place), xytext=(6, 0),
                      textcoords="offset points", va="center", fontsize=8.5)  # fmt: skip
    axis.set_yticks(range(len(rows)), rows["series"])
    axis.invert_yaxis()
    axis.set_xlim(0, 1)
    axis.grid(visible=False, axis="y")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: percent(value)))
    axis.set_xlabel("share of the allocated slots, averaged over the run")
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=2, fontsize=8.5)
    figure.supxlabel(f"evidence: {tag(evidence)}", x=0.01, ha="left", fontsize=8, color=QUIET)
    return figure
