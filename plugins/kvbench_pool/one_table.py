"""Policies other than vLLM's keep one table per request: what that means for a model."""

from __future__ import annotations

from collections.abc import Iterator

from kvbench.layout import Arrangement


def table_problem(arrangement: Arrangement | None, policy: str) -> str | None:
    """Return why one table per request cannot hold a model's cache, ``None`` where it can.

    A block of such a policy holds its tokens in all layers. In a layout whose groups draw ids
    from one pool a block holds them in the layers of one group only.
    """
    groups = arrangement.groups if arrangement else ()
    fixed = [group.kind for group in groups if group.fixed_blocks is not None]
    if fixed:
        return (
            f"policy {policy!r} knows no {fixed[0]!r} layers, whose cache has a fixed size; "
            "use policy 'vllm'"
        )
    if arrangement and arrangement.null_blocks and len(groups) > 1:
        return (
            f"policy {policy!r} keeps one table per request, and layout {arrangement.layout!r} "
            f"has {len(groups)} groups of layers with a table each; use layout 'paged'"
        )
    return None


def table_assumptions(arrangement: Arrangement | None) -> Iterator[str]:
    """Say what one table per request keeps beyond what the model needs."""
    if arrangement and any(group.window_tokens for group in arrangement.groups):
        yield "Windowed layers keep every token: this policy frees nothing by window."


def reserve_assumption(max_model_len: int) -> str:
    """Say what a policy reserves that provides for the longest sequence."""
    return f"Each request reserves {max_model_len} tokens for its whole life."
