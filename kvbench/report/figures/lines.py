"""A metric along a numeric axis: one line per series, its shape telling the evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvbench.report.evidence import LOOKS, ORDER, tag
from kvbench.report.figures.style import (
    COLOURS,
    QUIET,
    label_ends,
    new_figure,
    panels,
    scale_x,
    scale_y,
)
from kvbench.report.labels import axis_name, in_plain_words, value_text, with_series
from kvbench.report.rows import groups_of
from kvbench.results.schema import PARAM_PREFIX

#: Markers of one line; more would hide it.
MAX_MARKERS = 32
#: Lines that one panel can carry with direct labels.
MAX_LINES = 8
MAX_PANELS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """A horizontal reference line: a budget, a limit, a peak."""

    value: float
    text: str


def metric_lines(
    frame: pd.DataFrame, axis: str, *, panel: str | None = None, ceilings: Sequence[Ceiling] = ()
) -> Figure:
    """Draw one metric of one benchmark along ``axis``.

    Args:
        frame: Rows of ``RunFrames.values`` of one metric (several kinds of evidence may occur).
        axis: Numeric axis (without ``param_``).
        panel: Axis whose values get a panel each.
        ceilings: Reference lines in the metric's unit.
    """
    figure = new_figure()
    parts = _parts(frame, panel)
    axes = panels(figure, len(parts), columns=min(2, len(parts)), sharex=True, sharey=True)
    for target, (title, part) in zip(axes, parts, strict=True):
        _scale(target, frame, axis, ceilings)
        _draw(target, with_series(part, {axis, panel or ""}), PARAM_PREFIX + axis)
        target.set_title(title, loc="left", fontsize=10)
        for ceiling in ceilings:
            _reference(target, ceiling)
    for target in axes[1:]:
        target.set_ylabel("")
    _say_evidence(figure, frame)
    return figure


def _parts(frame: pd.DataFrame, panel: str | None) -> list[tuple[str, pd.DataFrame]]:
    if panel is None:
        return [("", frame)]
    groups = groups_of(frame, PARAM_PREFIX + panel)
    found = [(f"{panel.replace('_', ' ')} {value_text(value)}", part) for value, part in groups]
    return found[:MAX_PANELS]


def _scale(target: Axes, frame: pd.DataFrame, axis: str, ceilings: Sequence[Ceiling]) -> None:
    """Scale a panel by the values of all panels: they share their axes."""
    values = [*frame["value"], *(ceiling.value for ceiling in ceilings)]
    scale_x(target, frame[PARAM_PREFIX + axis], axis_name(axis))
    scale_y(target, values, frame["unit"].iloc[0], in_plain_words(frame["metric"].iloc[0]))


def _draw(target: Axes, frame: pd.DataFrame, column: str) -> None:
    ends = []
    lines = list(groups_of(frame, "series"))[:MAX_LINES]
    for index, (name, line) in enumerate(lines):
        colour = COLOURS[index % len(COLOURS)]
        _line(target, line.sort_values(column), column, colour)
        last = line.sort_values(column).iloc[-1]
        ends.append((last[column], last["value"], str(name), colour))
    label_ends(target, ends)


def _line(target: Axes, line: pd.DataFrame, column: str, colour: str) -> None:
    look = LOOKS[line["evidence"].iloc[0]]
    spread = (line["high"] > line["low"]).any()
    target.plot(
        line[column],
        line["value"],
        color=colour,
        linestyle=look.dash,
        marker=look.marker,
        markevery=max(1, len(line) // MAX_MARKERS),
        markerfacecolor=colour if look.filled else "white",
        markeredgecolor=colour,
    )
    if spread:
        target.fill_between(line[column], line["low"], line["high"], color=colour, alpha=0.15)


def _reference(target: Axes, ceiling: Ceiling) -> None:
    target.axhline(ceiling.value, color=QUIET, linestyle=(0, (6, 3)), linewidth=1.2)
    target.annotate(
        ceiling.text,
        (0.01, ceiling.value),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        color=QUIET,
        fontsize=8.5,
    )


def _say_evidence(figure: Figure, frame: pd.DataFrame) -> None:
    present = frame["evidence"].unique()
    kinds = [kind for kind in ORDER if kind in present]
    figure.supxlabel(
        "evidence: " + ", ".join(tag(kind) for kind in kinds), x=0.01, ha="left",
        fontsize=8, color=QUIET,
    )  # fmt: skip
