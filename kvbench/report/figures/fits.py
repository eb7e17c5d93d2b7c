"""What fits: contexts against concurrent requests, one square for each pair."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from kvbench.report.evidence import tag
from kvbench.report.figures.style import QUIET, new_figure, panels
from kvbench.report.quantities import plain_number
from kvbench.report.rows import rows_of

#: State -> symbol in its square, shade and words; symbols carry the meaning.
STATES: dict[str, tuple[str, str, str]] = {
    "fits": ("●", "#bcd6c4", "fits"),
    "maybe": ("◐", "#f3e3b3", "fits only if the uncertain terms are kind"),
    "preempts": ("~", "#f3d9a4", "fits with preemption"),
    "no": ("", "#ffffff", "does not fit"),
}
MAX_PANELS = 4
#: Contexts that a panel has room for.
MAX_CONTEXTS = 12


def fit_map(parts: Sequence[tuple[str, pd.DataFrame]], evidence: str) -> Figure:
    """Draw a panel for each part.

    Args:
        parts: Title and rows of each panel; columns ``context, requests, state``.
        evidence: Kind of evidence, named below the figure.
    """
    shown = list(parts)[:MAX_PANELS]
    figure = new_figure((8.0, 3.2 if len(shown) < 3 else 5.6))
    axes = panels(figure, len(shown), columns=min(2, len(shown)))
    for axis, (title, part) in zip(axes, shown, strict=True):
        _panel(axis, part)
        axis.set_title(title, loc="left", fontsize=10)
    used = {state for _, part in shown for state in part["state"]}
    words = [f"{STATES[name][0] or 'empty'}: {STATES[name][2]}" for name in STATES if name in used]
    text = f"{';  '.join(words)}\nevidence: {tag(evidence)}"
    figure.supxlabel(text, x=0.01, ha="left", fontsize=8, color=QUIET)
    return figure


def thinned(contexts: Sequence[float]) -> list[float]:
    """At most ``MAX_CONTEXTS`` of the sorted ``contexts``, evenly spread, both ends among them."""
    last, wanted = len(contexts) - 1, MAX_CONTEXTS - 1
    if last <= wanted:
        return list(contexts)
    return [contexts[round(place * last / wanted)] for place in range(MAX_CONTEXTS)]


def _panel(axis: Axes, part: pd.DataFrame) -> None:
    contexts, requests = sorted(part["context"].unique()), sorted(part["requests"].unique())
    squares = []
    for row in rows_of(part):
        symbol, shade, _ = STATES[row.state]
        x, y = contexts.index(row.context), requests.index(row.requests)
        squares.append(Rectangle((x, y), 1, 1, facecolor=shade, edgecolor="#aab3ba"))
        if symbol:
            axis.text(x + 0.5, y + 0.5, symbol, ha="center", va="center", fontsize=7.5)
    axis.add_collection(PatchCollection(squares, match_original=True))
    axis.set_xlim(0, len(contexts))
    axis.set_ylim(0, len(requests))
    axis.set_xticks([i + 0.5 for i in range(len(contexts))], [plain_number(v) for v in contexts])
    axis.set_yticks([i + 0.5 for i in range(len(requests))], [plain_number(v) for v in requests])
    axis.grid(visible=False)
    axis.tick_params(length=0, labelsize=8)
    axis.set_xlabel("context, tokens per request")
    axis.set_ylabel("concurrent requests")
