"""Blocks of a pool over time, stacked by what they are there for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvbench.report.evidence import LOOKS, tag
from kvbench.report.figures.style import INK, QUIET, byte_locator, new_figure, panels, value_ticks
from kvbench.report.rows import groups_of

#: Metrics that add up to blocks that hold something, from the bottom, with shade and hatch.
LAYERS: dict[str, tuple[str, str, str]] = {
    "used_blocks": ("used by running requests", "#2f7fb8", ""),
    "cached_blocks": ("free, still holding a reusable prefix", "#cfe0ec", "////"),
}

#: The same in more detail, where an engine splits its pool; parts without blocks are left out.
PARTS: dict[str, tuple[str, str, str]] = {
    "part_live_blocks": ("tokens of one request", "#2f7fb8", ""),
    "part_shared_blocks": ("tokens that requests share", "#7fb2d6", "\\\\\\\\"),
    "part_tail_blocks": ("empty tails of blocks", "#f3c98b", "...."),
    "part_reserved_blocks": ("reserved ahead", "#e08e45", "xxxx"),
    "part_state_blocks": ("states of fixed size", "#8c7bb5", "----"),
    "part_cached_blocks": ("free, still holding a reusable prefix", "#cfe0ec", "////"),
}

#: Metrics drawn below the pool, on an axis of their own.
BESIDE = ("running_requests", "waiting_requests")


def blocks_over_time(
    series: pd.DataFrame, *, pool_blocks: float | None = None, evidence: str = ""
) -> Figure:
    """Draw one repeat of one cell.

    A long replay keeps the largest value of each stretch of time, for each series at its own
    moment; together they could exceed the pool, so that the upper layer is cut at the pool.

    Args:
        series: Rows of ``RunFrames.series`` of one cell, repeat and kind of evidence.
        pool_blocks: Size of the pool, drawn as a line when it is known.
        evidence: Kind of evidence, named below the figure.
    """
    lines = {str(name): part for name, part in groups_of(series, "metric")}
    beside = [name for name in BESIDE if name in lines]
    figure = new_figure()
    options: dict[str, Any] = {"height_ratios": [3, 1][: 1 + bool(beside)], "sharex": True}
    axes = panels(figure, 1 + bool(beside), **options)
    _stack(axes[0], lines, layers_of(series), pool_blocks)
    if beside:
        _requests(axes[1], {name: lines[name] for name in beside})
    axes[-1].set_xlabel("time, s")
    figure.supxlabel(f"evidence: {tag(evidence)}", x=0.01, ha="left", fontsize=8, color=QUIET)
    return figure


def layers_of(series: pd.DataFrame) -> dict[str, tuple[str, str, str]]:
    """Return the layers that a cell's series make, by metric, from the bottom."""
    highest = series.groupby("metric")["value"].max()
    parts = {name: look for name, look in PARTS.items() if highest.get(name, 0) > 0}
    return parts or {name: look for name, look in LAYERS.items() if name in highest}


def shares_over_time(lines: Mapping[tuple[str, str], pd.DataFrame]) -> Figure:
    """Draw several shares of one pool over time, each with its kind of evidence in words.

    Args:
        lines: Rows of ``RunFrames.series`` of one cell by (what the legend says, evidence).
    """
    figure = new_figure()
    (axis,) = panels(figure)
    for (name, evidence), line in lines.items():
        look = LOOKS[evidence]
        axis.plot(
            line["t_s"],
            line["value"],
            color=INK if look.filled or evidence == "engine" else "#2f7fb8",
            linestyle=look.dash,
            linewidth=1.4,
            marker=look.marker,
            markevery=max(1, len(line) // 12),
            markerfacecolor="white",
            label=f"{name} {tag(evidence)}",
        )
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter(value_ticks("ratio"))
    axis.set_xlabel("time, s")
    axis.set_ylabel("share of the pool")
    axis.legend(loc="lower center", ncols=2, fontsize=8.5)
    return figure


def _stack(
    axis: Axes,
    lines: dict[str, pd.DataFrame],
    layers: Mapping[str, tuple[str, str, str]],
    pool_blocks: float | None,
) -> None:
    times = np.unique(np.concatenate([lines[name]["t_s"].to_numpy() for name in layers]))
    floor = np.zeros(len(times))
    for name, (text, shade, hatch) in layers.items():
        top = floor + _held(lines[name], times)
        if pool_blocks:
            top = np.minimum(top, np.maximum(pool_blocks, floor))
        axis.fill_between(times, floor, top, step="post", facecolor=shade, edgecolor=QUIET,
                          hatch=hatch, linewidth=0.4, label=text)  # fmt: skip
        floor = top
    highest = max([floor.max(), pool_blocks or 0.0])
    if pool_blocks:
        axis.axhline(pool_blocks, color=INK, linestyle=(0, (6, 3)), linewidth=1.2, label="pool")
    axis.set_ylim(0, highest * 1.25 or 1)
    axis.yaxis.set_major_locator(byte_locator("blocks", highest))
    axis.yaxis.set_major_formatter(value_ticks("blocks"))
    axis.set_ylabel("blocks")
    axis.legend(loc="upper left", ncols=3, fontsize=8.5)


def _requests(axis: Axes, lines: dict[str, pd.DataFrame]) -> None:
    for (name, line), dash in zip(lines.items(), ("-", ":"), strict=False):
        axis.plot(line["t_s"], line["value"], color=INK, linestyle=dash, linewidth=1.0,
                  drawstyle="steps-post", label=name.split("_")[0])  # fmt: skip
    axis.set_ylim(bottom=0)
    axis.set_ylabel("requests")
    axis.legend(loc="upper left", ncols=2, fontsize=8.5)


def _held(line: pd.DataFrame, times: np.ndarray) -> np.ndarray:
    """Values of a step function at ``times``: the last one stated, 0 before the first."""
    places = np.searchsorted(line["t_s"].to_numpy(), times, side="right") - 1
    values = line["value"].to_numpy()
    return np.where(places >= 0, values[np.maximum(places, 0)], 0.0)
