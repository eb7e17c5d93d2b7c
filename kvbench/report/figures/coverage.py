"""The coverage grid: one square per cell, its status by letter and shade."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from kvbench.report.figures.style import INK, new_figure, panels
from kvbench.report.rows import groups_of

#: Status -> letter in its square and shade; letters carry the meaning, shades help the eye.
LETTERS: dict[str, tuple[str, str]] = {
    "passed": ("", "#dfe8e2"),
    "failed": ("F", "#b03052"),
    "timeout": ("T", "#b03052"),
    "invalid": ("I", "#d1662a"),
    "skipped": ("S", "#ffffff"),
    "unsupported": ("U", "#ffffff"),
    "interrupted": ("–", "#c9ced3"),
}
_PER_ROW = 48
MAX_SQUARES = 2400


def coverage_grid(frame: pd.DataFrame) -> Figure:
    """Draw every cell of a run in the plan's order, benchmark by benchmark.

    Args:
        frame: Columns ``benchmark, status`` in the order of the plan.
    """
    rows = _rows(frame.head(MAX_SQUARES))
    figure = new_figure((8.0, max(1.2, 0.55 + 0.165 * len(rows))))
    (axis,) = panels(figure)
    squares = [
        Rectangle((place, height), 0.86, 0.86, facecolor=LETTERS[status][1], edgecolor="#8a939b")
        for height, (_, statuses) in enumerate(rows)
        for place, status in enumerate(statuses)
    ]
    axis.add_collection(PatchCollection(squares, match_original=True))
    for height, (_, statuses) in enumerate(rows):
        _letters(axis, height, statuses)
    axis.set_xlim(-0.3, _PER_ROW + 0.3)
    axis.set_ylim(len(rows) + 0.2, -0.3)
    axis.set_yticks([height + 0.43 for height in range(len(rows))], [name for name, _ in rows])
    axis.set_xticks([])
    axis.grid(visible=False)
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
    return figure


def _letters(axis: Axes, height: int, statuses: list[str]) -> None:
    for place, status in enumerate(statuses):
        letter, shade = LETTERS[status]
        if letter:
            ink = "white" if shade.startswith(("#b", "#d1")) else INK
            spot = (place + 0.43, height + 0.45)
            axis.text(*spot, letter, size=6, color=ink, ha="center", va="center")


def _rows(frame: pd.DataFrame) -> list[tuple[str, list[str]]]:
    found = []
    for benchmark, part in groups_of(frame, "benchmark"):
        statuses = list(part["status"])
        for start in range(0, len(statuses), _PER_ROW):
            name = str(benchmark) if start == 0 else ""
            found.append((name, statuses[start : start + _PER_ROW]))
    return found
