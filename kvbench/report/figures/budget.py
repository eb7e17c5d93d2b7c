"""A device's memory by term: what stands between it and the cache."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvbench.report.evidence import tag
from kvbench.report.figures.style import (
    INK,
    QUIET,
    byte_locator,
    new_figure,
    panels,
    value_ticks,
)
from kvbench.report.quantities import binary, interval
from kvbench.report.rows import Row, rows_of

#: Shade and hatch of the terms in order of appearance; the cache has its own.
_SHADES = (
    ("#3d4f5c", ""),
    ("#b9c4cc", "////"),
    ("#e9b7a0", "...."),
    ("#f3d9a4", ""),
    ("#d9d2e9", "xxxx"),
    ("#dfe3e6", "\\\\\\\\"),
)
_CACHE = "#2f7fb8"
MAX_BARS = 18


def memory_by_term(frame: pd.DataFrame, terms: Sequence[str], evidence: str) -> Figure:
    """Draw one stacked bar for each point; a tick marks what the engine may use.

    Args:
        frame: Columns ``series, allowed, cache, cache_low, cache_high`` and one for each term,
            all in bytes.
        terms: Names of the term columns, in order.
        evidence: Kind of evidence, named below the figure.
    """
    rows = rows_of(frame.head(MAX_BARS))
    figure = new_figure((8.0, max(2.4, 1.5 + 0.36 * len(rows))))
    (axis,) = panels(figure)
    for place, row in enumerate(rows):
        _bar(axis, place, row, terms)
    _finish(figure, axis, rows, evidence)
    axis.set_yticks(range(len(rows)), [row.series for row in rows])
    axis.invert_yaxis()
    axis.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4, fontsize=8.5)
    return figure


def memory_waterfall(row: Row, terms: Sequence[str], evidence: str) -> Figure:
    """Draw one point from what the engine may use down to the cache, term by term."""
    figure = new_figure((8.0, 1.3 + 0.4 * (len(terms) + 2)))
    (axis,) = panels(figure)
    axis.barh(0, row.allowed, height=0.62, facecolor="#eef1f3", edgecolor=INK)
    _note(axis, 0, row.allowed, binary(row.allowed))
    left = row.allowed
    for place, term in enumerate(terms, start=1):
        shade, hatch = _SHADES[(place - 1) % len(_SHADES)]
        axis.barh(place, row[term], left=left - row[term], height=0.62, facecolor=shade,
                  edgecolor=INK, hatch=hatch, linewidth=0.6)  # fmt: skip
        _note(axis, place, left, f"−{binary(row[term])}")
        left -= row[term]
    axis.barh(len(terms) + 1, row.cache, height=0.62, facecolor=_CACHE, edgecolor=INK)
    _note(axis, len(terms) + 1, row.cache, _cache_words(row))
    names = ["allowed", *(term.replace("_", " ") for term in terms), "KV cache"]
    _finish(figure, axis, [row], evidence)
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.set_title(row.series, loc="left", fontsize=10)
    return figure


def _bar(axis: Axes, place: int, row: Row, terms: Sequence[str]) -> None:
    left = 0.0
    for (shade, hatch), term in zip(_SHADES, terms, strict=False):
        name = term.replace("_", " ") if place == 0 else None
        axis.barh(place, row[term], left=left, height=0.62, facecolor=shade, edgecolor=QUIET,
                  linewidth=0.5, hatch=hatch, label=name)  # fmt: skip
        left += row[term]
    axis.barh(place, row.cache, left=left, height=0.62, facecolor=_CACHE, edgecolor=QUIET,
              linewidth=0.5, label="KV cache" if place == 0 else None)  # fmt: skip
    name = "allowed to the engine" if place == 0 else None
    ends = [place - 0.42, place + 0.42]
    axis.plot([row.allowed] * 2, ends, color=INK, linewidth=1.6, label=name)
    _note(axis, place, max(row.allowed, left + row.cache), f"KV {_cache_words(row)}")


def _finish(figure: Figure, axis: Axes, rows: Sequence[Row], evidence: str) -> None:
    most = max(row.allowed for row in rows)
    axis.set_xlim(0, most * 1.32)
    axis.grid(visible=False, axis="y")
    axis.xaxis.set_major_locator(byte_locator("bytes", most * 1.1))
    axis.xaxis.set_major_formatter(value_ticks("bytes"))
    axis.set_xlabel("memory of one rank")
    figure.supxlabel(f"evidence: {tag(evidence)}", x=0.01, ha="left", fontsize=8, color=QUIET)


def _cache_words(row: Row) -> str:
    if row.cache_low < row.cache_high:
        return f"{binary(row.cache)} ({interval(row.cache_low, row.cache_high, 'bytes')})"
    return binary(row.cache)


def _note(axis: Axes, place: int, x: float, words: str) -> None:
    axis.annotate(words, (x, place), xytext=(5, 0), textcoords="offset points", va="center",
                  fontsize=8.5)  # fmt: skip
