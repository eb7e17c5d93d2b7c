"""The evidence ladder of one point as bars, the difference to the step below beside each."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvbench.report.evidence import LOOKS, ORDER, tag
from kvbench.report.figures.style import COLOURS, byte_locator, new_figure, panels, value_ticks
from kvbench.report.labels import in_plain_words
from kvbench.report.ladder import Ladder, Step
from kvbench.report.quantities import binary


def ladder_bars(ladder: Ladder) -> Figure:
    """Draw one ladder; shape and text tell the kinds of evidence apart."""
    figure = new_figure((8.0, 1.1 + 0.52 * len(ladder.steps)))
    (axis,) = panels(figure)
    for place, step in enumerate(ladder.steps):
        _bar(axis, place, step)
    names = [f"{in_plain_words(step.metric)}\n{tag(step.evidence)}" for step in ladder.steps]
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    top = max(step.value_bytes for step in ladder.steps) or 1
    axis.set_xlim(0, top * 1.42)
    axis.xaxis.set_major_locator(byte_locator("bytes", top))
    axis.xaxis.set_major_formatter(value_ticks("bytes"))
    axis.set_xlabel(f"bytes of {ladder.scope}")
    axis.set_title(ladder.name, loc="left", fontsize=10)
    return figure


def signed_bytes(value: float) -> str:
    """Return a difference with its sign."""
    return f"{'+' if value >= 0 else '−'}{binary(abs(value))}"


def _bar(axis: Axes, place: int, step: Step) -> None:
    look, colour = LOOKS[step.evidence], COLOURS[ORDER.index(step.evidence)]
    axis.barh(
        place,
        step.value_bytes,
        height=0.62,
        facecolor=colour if look.filled else "#eef1f3",
        edgecolor=colour,
        hatch=look.hatch,
    )
    text = binary(step.value_bytes)
    if step.difference_bytes is not None:
        text += f"  ({signed_bytes(step.difference_bytes)})"
    axis.annotate(
        text,
        (step.value_bytes, place),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
    )
