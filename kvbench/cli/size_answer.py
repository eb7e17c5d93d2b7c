"""What ``kvbench size`` answers for one model at one point: plain dictionaries for output."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from kvbench.layout import Arrangement, Group
from kvbench.model.sizing import size_at
from kvbench.model.spec import ModelSpec

#: Columns of the flat formats, in order.
COLUMNS = (
    "model", "layout", "tokens", "requests", "block_size", "kv_dtype", "tp", "pp",
    "slope_bytes_per_token", "intercept_bytes", "logical_bytes", "blocks", "paged_bytes",
    "tail_waste_bytes", "fragmentation", "admission_blocks", "admission_bytes",
)  # fmt: skip
BUDGET_COLUMNS = (
    "num_blocks", "bytes_per_block", "blocks_per_request", "capacity_tokens", "max_concurrency",
)  # fmt: skip


def point(
    model: ModelSpec,
    arrangement: Arrangement,
    *,
    tokens: int,
    requests: int,
    tp: int,
    pp: int,
    budget_bytes: int | None,
) -> dict[str, Any]:
    """Figures of one request of ``tokens`` tokens on one rank, and totals over ``requests``."""
    size = size_at(arrangement.costs, tokens)
    blocks = sum(arrangement.resident_blocks(tokens))
    paged = arrangement.paged_bytes(tokens)
    row: dict[str, Any] = {
        "model": model.name,
        "layout": arrangement.layout,
        "evidence": "analytic",
        "tokens": tokens,
        "requests": requests,
        "block_size": arrangement.block_size,
        "kv_dtype": arrangement.kv_dtype,
        "tp": tp,
        "pp": pp,
        "slope_bytes_per_token": _number(size.slope_bytes_per_token),
        "intercept_bytes": _number(size.intercept_bytes),
        "logical_bytes": size.logical_bytes,
        "blocks": blocks,
        "paged_bytes": paged,
        "tail_waste_bytes": paged - size.logical_bytes,
        "fragmentation": 1 - size.logical_bytes / paged if paged else 0.0,
        "admission_blocks": arrangement.admission_blocks(tokens),
        "admission_bytes": arrangement.admission_bytes(tokens),
        "total_logical_bytes": size.logical_bytes * requests,
        "total_blocks": blocks * requests,
        "total_paged_bytes": paged * requests,
    }
    if budget_bytes is not None:
        row.update(_budget(arrangement, tokens, budget_bytes))
    return row


def _budget(arrangement: Arrangement, tokens: int, budget_bytes: int) -> dict[str, Any]:
    blocks = arrangement.num_blocks(budget_bytes)
    concurrency = arrangement.max_concurrency(blocks, tokens)
    longest = getattr(arrangement, "max_model_len", None)
    logged = {} if longest is None else {"engine_logged": _logged(arrangement, blocks, longest)}
    return {
        **logged,
        "budget_bytes": budget_bytes,
        "num_blocks": blocks,
        "null_blocks": arrangement.null_blocks,
        "bytes_per_block": arrangement.bytes_per_block,
        "blocks_per_request": arrangement.admission_blocks(tokens),
        "capacity_tokens": arrangement.capacity_tokens(blocks),
        "max_concurrency": concurrency,
        "bound_by": "kv_budget" if concurrency >= 1 else "one request exceeds the budget",
    }


def _logged(arrangement: Arrangement, blocks: int, longest: int) -> dict[str, Any]:
    """What the engine's start-up log would say: its capacity is at its longest request."""
    return {
        "max_model_len": longest,
        "kv_cache_size_tokens": arrangement.capacity_tokens(blocks),
        "max_concurrency": arrangement.max_concurrency(blocks, longest),
    }


def groups(arrangement: Arrangement, tokens: int) -> list[dict[str, Any]]:
    """The groups with the blocks that a request of ``tokens`` tokens holds in each."""
    resident = arrangement.resident_blocks(tokens)
    return [_group(group, count) for group, count in zip(arrangement.groups, resident, strict=True)]


def _group(group: Group, blocks: int) -> dict[str, Any]:
    return {
        "kind": group.kind,
        "layers": group.layers,
        "block_size": group.block_size,
        "page_bytes": group.page_bytes,
        "page_unpadded_bytes": group.page_unpadded_bytes,
        "window_tokens": group.window_tokens,
        "fixed_blocks": group.fixed_blocks,
        "blocks": blocks,
    }


def lengths_summary(
    arrangement: Arrangement, lengths: Sequence[int], budget_bytes: int | None
) -> dict[str, Any]:
    """Totals over requests of different lengths, all held at once."""
    by_length = {tokens: lengths.count(tokens) for tokens in set(lengths)}
    ordered = sorted(lengths)
    logical = sum(size_at(arrangement.costs, t).logical_bytes * n for t, n in by_length.items())
    paged = sum(arrangement.paged_bytes(t) * n for t, n in by_length.items())
    summary = {
        "requests": len(lengths),
        "total_tokens": sum(lengths),
        "p50_tokens": _quantile(ordered, 0.50),
        "p95_tokens": _quantile(ordered, 0.95),
        "p99_tokens": _quantile(ordered, 0.99),
        "max_tokens": ordered[-1],
        "total_logical_bytes": logical,
        "total_blocks": sum(sum(arrangement.resident_blocks(t)) * n for t, n in by_length.items()),
        "total_paged_bytes": paged,
        "total_tail_waste_bytes": paged - logical,
        "fragmentation": 1 - logical / paged if paged else 0.0,
    }
    if budget_bytes is not None:
        admission = sum(arrangement.admission_bytes(t) * n for t, n in by_length.items())
        pool = arrangement.num_blocks(budget_bytes) * arrangement.bytes_per_block
        summary["max_concurrency"] = pool * len(lengths) / admission if admission else 0.0
    return summary


def _quantile(ordered: Sequence[int], share: float) -> int:
    """Smallest length that at least ``share`` of the requests do not exceed."""
    return ordered[max(0, -(-int(share * 1_000_000) * len(ordered) // 1_000_000) - 1)]


def _number(value: Fraction | int) -> int | float:
    return int(value) if value == int(value) else float(value)
