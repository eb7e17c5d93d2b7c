"""What the next larger tensor-parallel degree of a cell would hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kvbench.engine import Cell, Scalar
from kvbench.errors import ModelError
from kvbench.layout import Arrangement
from kvbench.model.spec import ModelSpec
from kvbench_analytic.arrange import admitted, cell_arrangement
from kvbench_analytic.budget import device_budget

#: Degrees that are tried: up to this many times the cell's own.
_FACTOR = 4


def next_degree(cell: Cell) -> dict[str, float]:
    """Return the next degree and the requests that it admits, empty when there is none.

    One GPU more is seldom a choice: heads divide evenly among ranks. The next degree is the
    smallest larger one, at most four times the cell's, that divides the query heads and that the
    layout accepts; pipeline stages stay as they are.
    """
    if cell.model is None or cell.device is None:
        return {}
    tokens = int(cell.settings["context_tokens"]) + int(cell.settings["new_tokens"])
    tp = int(cell.settings["tp"])
    for degree in range(tp + 1, _FACTOR * tp + 1):
        grown = replace(cell, settings=_with_degree(cell.settings, degree))
        arrangement = _accepted(grown, cell.model, degree)
        if arrangement is None:
            continue
        size = device_budget(grown, cell.model, cell.device).size
        return {
            "next_tp_ranks": degree,
            "next_tp_requests": admitted(arrangement, size.expected, tokens),
            "next_tp_requests_low": admitted(arrangement, size.low, tokens),
            "next_tp_requests_high": admitted(arrangement, size.high, tokens),
        }
    return {}


def _with_degree(settings: Mapping[str, Scalar], degree: int) -> dict[str, Scalar]:
    return {**settings, "tp": degree}


def _accepted(cell: Cell, model: ModelSpec, degree: int) -> Arrangement | None:
    if model.query_heads % degree:
        return None
    try:
        return cell_arrangement(cell, model)
    except ModelError:
        return None
