"""One quiet style for every figure: paper size, fonts, colours that keep apart in grey."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)
from PIL import Image

from kvbench.report.quantities import in_words, plain_number

#: Dots per inch of every PNG; a full-width figure is a slide of 1600 x 900.
DPI = 200
WIDE = (8.0, 4.5)

#: Ordered so that neighbours differ in lightness, not only in hue.
COLOURS = ("#12232e", "#d1662a", "#2f7fb8", "#7a3e9d", "#4f9d69", "#b03052", "#8a7a1f", "#7d8790")
INK, QUIET, GRID = "#1d2329", "#5c666f", "#dde1e4"

_BINARY = {"bytes", "bytes_per_token", "tokens", "blocks", "requests", "count"}
_COUNTED = {"tokens", "blocks", "requests", "count"}

#: Colours kept in a PNG: enough for lines and text, a fraction of the bytes.
_PALETTE = 96

_RC: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "savefig.dpi": DPI,
    "svg.fonttype": "none",
    "svg.hashsalt": "kvbench",
    "path.simplify": True,
}


def new_figure(size: tuple[float, float] = WIDE) -> Figure:
    """Return an empty figure of the house style that belongs to no window."""
    with mpl.rc_context(_RC):
        figure = Figure(figsize=size, dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        return figure


def panels(figure: Figure, count: int = 1, columns: int = 1, **options: Any) -> list[Axes]:
    """Return ``count`` axes of the house style in a grid of ``columns``."""
    rows = -(-count // columns)
    with mpl.rc_context(_RC):
        grid = figure.subplots(rows, columns, squeeze=False, **options)
    axes = [axis for row in grid for axis in row]
    for unused in axes[count:]:
        unused.set_axis_off()
    return axes[:count]


def to_png(figure: Figure) -> bytes:
    """Return the figure as a small PNG without metadata: equal figures give equal bytes."""
    with mpl.rc_context(_RC):
        figure.canvas.draw()
    figure.set_layout_engine("none")  # the layout is settled; the SVG need not repeat it
    image = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")  # type: ignore[attr-defined]
    small = image.quantize(_PALETTE, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    out = io.BytesIO()
    small.save(out, "PNG", compress_level=6, dpi=(DPI, DPI))
    return out.getvalue()


def to_svg(figure: Figure) -> bytes:
    """Return the figure as SVG with text as text and without a date."""
    out = io.BytesIO()
    with mpl.rc_context(_RC):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def scale_x(axis: Axes, values: Iterable[float], name: str) -> None:
    """Set up a numeric x axis: base 2 when the values span it, ticks where the values are."""
    found = sorted(set(values))
    if spans_octaves(found):
        axis.set_xscale("log", base=2)
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_minor_formatter(NullFormatter())
    if len(found) <= 9:
        axis.xaxis.set_major_locator(FixedLocator(_apart(found)))
    axis.xaxis.set_major_formatter(FuncFormatter(_tick))
    axis.set_xlabel(name)


def scale_y(axis: Axes, values: Iterable[float], unit: str, name: str = "") -> None:
    """Set up the value axis of a unit: binary ticks for bytes, from 0 unless it spans octaves."""
    found = [value for value in values if value == value]
    if spans_octaves([value for value in found if value > 0], 32) and min(found) > 0:
        base = 2 if unit in _BINARY else 10
        axis.set_yscale("log", base=base)
        if base == 10 and not spans_octaves(found, 1000):
            # Within a few decades the powers of ten alone would leave an axis almost unlabelled.
            axis.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
        axis.yaxis.set_minor_locator(NullLocator())
        axis.yaxis.set_minor_formatter(NullFormatter())
    elif _counts_from_zero(found, unit):
        axis.set_yscale("symlog", base=2, linthresh=1)
        axis.set_ylim(0, max(found) * 1.5)
        axis.yaxis.set_minor_locator(NullLocator())
    else:
        axis.set_ylim(*_linear_limits(found))
        axis.yaxis.set_major_locator(byte_locator(unit, max(map(abs, found), default=1.0)))
    axis.yaxis.set_major_formatter(value_ticks(unit))
    if name:
        axis.set_ylabel(name)


def spans_octaves(values: Sequence[float], factor: float = 8) -> bool:
    """Whether positive values spread so far that only a logarithmic axis shows them."""
    return bool(values) and min(values) > 0 and max(values) / min(values) >= factor


def value_ticks(unit: str) -> FuncFormatter:
    """Tick labels of a unit; counted things are plain numbers, the axis title names them."""
    shown = "" if unit in _COUNTED else unit
    return FuncFormatter(lambda value, _: in_words(value, shown))


def _counts_from_zero(values: Sequence[float], unit: str) -> bool:
    """Whether counts reach from 0 to so many that a linear axis hides the small ones."""
    return unit in _COUNTED and min(values, default=1) == 0 and max(values) >= 32


def label_ends(axis: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write labels beside the last points of lines, pushed apart where they would overlap.

    Args:
        axis: Axes whose scales are already set.
        ends: x, y, text and colour of each line's last point.
    """
    axis.get_xlim(), axis.get_ylim()  # settles pending autoscaling, which transData does not
    height = 13.0 * axis.figure.dpi / 72
    heights = [axis.transData.transform((x, y))[1] for x, y, _, _ in ends]
    placed = _spread(heights, height, axis.bbox.y0 + height / 2)
    for (x, y, text, colour), target in zip(ends, placed, strict=True):
        shift = (target - axis.transData.transform((x, y))[1]) * 72 / axis.figure.dpi
        axis.annotate(
            text,
            (x, y),
            xytext=(8, shift),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=8.5,
            annotation_clip=False,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8},
        )


def _spread(heights: Sequence[float], gap: float, floor: float) -> list[float]:
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    placed = list(heights)
    for below, above in pairwise(order):
        placed[above] = max(placed[above], placed[below] + gap)
    overshoot = sum(placed[index] - heights[index] for index in order) / max(1, len(order))
    lowest = min([value - overshoot for value in placed], default=0.0)
    return [value - overshoot + max(0.0, floor - lowest) for value in placed]


def _apart(values: Sequence[float]) -> list[float]:
    """Drop ticks that would touch their neighbour on a base-2 axis."""
    kept: list[float] = []
    for value in values:
        if not kept or kept[-1] <= 0 or value / kept[-1] > 1.3 or len(values) <= 4:
            kept.append(value)
    return kept


def _linear_limits(values: Sequence[float]) -> tuple[float, float]:
    low, high = min([0.0, *values]), max([0.0, *values])
    room = (high - low) * 0.08 or 1.0
    return (low - room if low < 0 else 0.0), high + room


def byte_locator(unit: str, largest: float) -> FixedLocator | MaxNLocator:
    """Ticks of a linear axis from 0: powers of two for bytes, round decimals for the rest."""
    if unit not in {"bytes", "bytes_per_token"} or largest < 4:
        return MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10])
    step = 1
    while largest / step > 7:
        step *= 2
    return FixedLocator([index * step for index in range(int(largest / step) + 2)])


def _tick(value: float, _: Any) -> str:
    return plain_number(value)
