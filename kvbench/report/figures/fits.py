"""What fits: contexts against concurrent requests, one square for each pair."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from kvbench.report.evidence import LOOKS, ORDER, tag
from kvbench.report.figures.style import QUIET, new_figure, panels
from kvbench.report.quantities import plain_number
from kvbench.report.rows import rows_of


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How a square looks; the symbol and the hatch carry the meaning, not the shade.

    Attributes:
        symbol: Character in the square.
        shade: Its colour.
        words: What it means.
        evidence: Kind of evidence that decides it, empty for that of the map's own numbers; its
            hatch fills the square.
    """

    symbol: str
    shade: str
    words: str
    evidence: str


STATES: dict[str, State] = {
    "fits": State(symbol="●", shade="#bcd6c4", words="fits", evidence=""),
    "maybe": State(
        symbol="◐",
        shade="#f3e3b3",
        words="fits only if the uncertain terms are kind",
        evidence="",
    ),
    "staggered": State(
        symbol="○",
        shade="#dfeae2",
        words="ran without preemption, not all at full length at once",
        evidence="simulated",
    ),
    "preempts": State(
        symbol="~", shade="#f3d9a4", words="fits with preemption", evidence="simulated"
    ),
    "waits": State(
        symbol="×", shade="#ffffff", words="does not fit: never ran at once", evidence="simulated"
    ),
    "no": State(symbol="", shade="#ffffff", words="does not fit", evidence=""),
}
MAX_PANELS = 4
#: Ground of a symbol that stands out from the hatch behind it.
_APART: dict[str, Any] = {
    "bbox": {"boxstyle": "circle,pad=0.12", "facecolor": "white", "edgecolor": "none"}
}
#: Contexts that a panel has room for.
MAX_CONTEXTS = 12


def fit_map(parts: Sequence[tuple[str, pd.DataFrame]], evidence: str) -> Figure:
    """Draw a panel for each part; the kind of evidence of each state is named below.

    Args:
        parts: Title and rows of each panel; columns ``context, requests, state``.
        evidence: Kind of evidence of the numbers that fit.
    """
    shown = list(parts)[:MAX_PANELS]
    figure = new_figure((8.0, 3.6 if len(shown) < 3 else 6.0))
    axes = panels(figure, len(shown), columns=min(2, len(shown)))
    for axis, (title, part) in zip(axes, shown, strict=True):
        _panel(axis, part)
        axis.set_title(title, loc="left", fontsize=10)
    used = {state for _, part in shown for state in part["state"]}
    figure.supxlabel(_legend(used, evidence), x=0.01, ha="left", fontsize=8, color=QUIET)
    return figure


def _legend(used: Collection[str], evidence: str) -> str:
    """A line for each kind of evidence: the symbols of the states that it decides."""
    lines = []
    for kind in ORDER:
        drawn = [state for name, state in STATES.items() if name in used]
        states = [state for state in drawn if (state.evidence or evidence) == kind]
        words = [f"{state.symbol or 'empty'}: {state.words}" for state in states]
        hatched = "hatched, " if any(state.evidence for state in states) else ""
        if words:
            lines.append(f"{tag(kind)} ({hatched}{'; '.join(words)})")
    return "\n".join(lines)


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
        state = STATES[row.state]
        x, y = contexts.index(row.context), requests.index(row.requests)
        hatch = LOOKS[state.evidence].hatch if state.evidence else ""
        square = Rectangle((x, y), 1, 1, facecolor=state.shade, edgecolor="#aab3ba", hatch=hatch)
        if hatch:  # a collection would draw all its squares with one hatch
            axis.add_patch(square)
        else:
            squares.append(square)
        if state.symbol:
            axis.text(
                x + 0.5,
                y + 0.5,
                state.symbol,
                ha="center",
                va="center",
                fontsize=8,
                **(_APART if hatch else {}),
            )
    axis.add_collection(PatchCollection(squares, match_original=True))
    axis.set_xlim(0, len(contexts))
    axis.set_ylim(0, len(requests))
    axis.set_xticks([i + 0.5 for i in range(len(contexts))], [plain_number(v) for v in contexts])
    axis.set_yticks([i + 0.5 for i in range(len(requests))], [plain_number(v) for v in requests])
    axis.grid(visible=False)
    axis.tick_params(length=0, labelsize=8)
    axis.set_xlabel("context, tokens per request")
    axis.set_ylabel("concurrent requests")
