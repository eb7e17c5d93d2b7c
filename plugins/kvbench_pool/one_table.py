"""Policies other than vLLM's, and some studies, keep one table per request: what that means."""

from __future__ import annotations

from collections.abc import Iterator

from kvbench.engine import Cell
from kvbench.errors import CellFailed
from kvbench.layout import Arrangement
from kvbench_pool.settings import arrangement_of


def table_problem(arrangement: Arrangement | None, whose: str) -> str | None:
    """Return why one table per request cannot hold a model's cache, ``None`` where it can.

    A block of such a table holds its tokens in all layers. In a layout whose groups draw ids
    from one pool a block holds them in the layers of one group only.

    Args:
        arrangement: The model in its layout, ``None`` without a model.
        whose: Who keeps one table, as in ``policy 'radix'``.
    """
    groups = arrangement.groups if arrangement else ()
    fixed = [group.kind for group in groups if group.fixed_blocks is not None]
    if fixed:
        return (
            f"{whose} knows no {fixed[0]!r} layers, whose cache has a fixed size; use policy 'vllm'"
        )
    if arrangement and arrangement.null_blocks and len(groups) > 1:
        return (
            f"{whose} keeps one table per request, and layout {arrangement.layout!r} "
            f"has {len(groups)} groups of layers with a table each; use layout 'paged'"
        )
    return None


def check_one_table(cell: Cell, whose: str) -> None:
    """Refuse a cell whose model needs more than one table per request.

    Raises:
        CellFailed: It does.
    """
    problem = table_problem(arrangement_of(cell), whose)
    if problem:
        raise CellFailed("unsupported_layers", problem)


def table_assumptions(arrangement: Arrangement | None) -> Iterator[str]:
    """Say what one table per request keeps beyond what the model needs."""
    if arrangement and any(group.window_tokens for group in arrangement.groups):
        yield "Windowed layers keep every token: this policy frees nothing by window."


def reserve_assumption(max_model_len: int) -> str:
    """Say what a policy reserves that provides for the longest sequence."""
    return f"Each request reserves {max_model_len} tokens for its whole life."
