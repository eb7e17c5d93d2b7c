"""One cell by arithmetic: the request, then what a budget makes of it."""

from __future__ import annotations

from collections.abc import Iterator

from kvbench.engine import Cell, CellOutput, Evidence, Observation
from kvbench.errors import CellFailed
from kvbench.layout import Arrangement
from kvbench.model.sizing import logical_size, size_at
from kvbench.model.spec import ModelSpec
from kvbench.report.geometry import ARTIFACT, geometry_json
from kvbench_analytic.arrange import admitted, cell_arrangement
from kvbench_analytic.budget import CellBudget, cell_budget
from kvbench_analytic.explorer import explorer_artifacts
from kvbench_analytic.lengths import workload_totals
from kvbench_analytic.more_gpus import next_degree

#: Nothing is asked about contexts beyond this when a model states no maximum.
_LONGEST_TOKENS = 1 << 30


def size_cell(cell: Cell) -> CellOutput:
    """Return every figure that the cell's settings decide.

    Raises:
        CellFailed: The cell has no model.
        ModelError: The layout refuses the model with these settings.
    """
    if cell.model is None:
        raise CellFailed("no_model", "stage size needs a model")
    arrangement = cell_arrangement(cell, cell.model)
    budget = cell_budget(cell)
    values = dict(_request(cell, cell.model, arrangement))
    if cell.workload is not None:
        values |= workload_totals(cell.workload, cell.seed, arrangement)
    if budget is not None:
        values |= _pool(cell, arrangement, budget)
    return CellOutput(
        observations=tuple(
            Observation(metric=name, value=value, evidence=Evidence.ANALYTIC)
            for name, value in values.items()
        ),
        effective={
            "layout": arrangement.layout,
            "block_size": arrangement.block_size,
            "kv_dtype": arrangement.kv_dtype,
        },
        assumptions=(*arrangement.assumptions, *(budget.assumptions if budget else ())),
        artifacts={
            ARTIFACT: geometry_json(cell.model, cell.device),
            **explorer_artifacts(cell, cell.model),
        },
    )


def _request(cell: Cell, model: ModelSpec, arrangement: Arrangement) -> Iterator[tuple[str, float]]:
    tokens = int(cell.settings["context_tokens"])
    size = (
        size_at(arrangement.costs, tokens)
        if cell.settings["pp"] == 1
        else logical_size(
            model,
            tokens,
            kv_dtype=str(cell.settings["kv_dtype"]),
            tp=int(cell.settings["tp"]),
            pp=int(cell.settings["pp"]),
        )
    )
    paged_bytes = arrangement.paged_bytes(tokens)
    yield "slope_bytes_per_token", float(size.slope_bytes_per_token)
    yield "intercept_bytes", float(size.intercept_bytes)
    yield "logical_bytes", size.logical_bytes
    yield "paged_bytes", paged_bytes
    yield "admission_bytes", arrangement.admission_bytes(tokens)
    yield "tail_waste_bytes", paged_bytes - size.logical_bytes
    yield "fragmentation_ratio", 1 - size.logical_bytes / paged_bytes if paged_bytes else 0.0
    yield "request_blocks", sum(arrangement.resident_blocks(tokens))
    yield "block_bytes", arrangement.bytes_per_block
    yield "block_size_tokens", arrangement.block_size
    if model.weight_bytes is not None:
        yield "weight_bytes", model.weight_bytes


def _pool(cell: Cell, arrangement: Arrangement, budget: CellBudget) -> dict[str, float]:
    tokens = int(cell.settings["context_tokens"]) + int(cell.settings["new_tokens"])
    size = budget.size
    blocks = arrangement.num_blocks(size.expected)
    values: dict[str, float] = {
        "kv_budget_bytes": size.expected,
        "pool_blocks": blocks,
        "pool_bytes": blocks * arrangement.bytes_per_block,
        "capacity_tokens": arrangement.capacity_tokens(blocks),
        "max_concurrency_requests": arrangement.max_concurrency(blocks, tokens),
        "concurrent_requests": admitted(arrangement, size.expected, tokens),
        "max_context_tokens": _longest_context(cell, arrangement, size.expected),
    }
    if budget.requested_bytes is not None:
        values |= {f"{name}_budget_bytes": term for name, term in budget.terms.items()}
        values |= {
            "device_budget_bytes": budget.requested_bytes,
            "kv_budget_low_bytes": size.low,
            "kv_budget_high_bytes": size.high,
            "concurrent_requests_low": admitted(arrangement, size.low, tokens),
            "concurrent_requests_high": admitted(arrangement, size.high, tokens),
            "scheduler_limit_requests": budget.sequences,
            **next_degree(cell),
        }
    return values


def _longest_context(cell: Cell, arrangement: Arrangement, budget_bytes: int) -> int:
    """Longest context at which the asked requests fit, by bisection; 0 when not even 1 token."""
    requests, reserve = int(cell.settings["requests"]), int(cell.settings["new_tokens"])
    most = (cell.model.max_context_tokens if cell.model else None) or _LONGEST_TOKENS
    low, high = 0, max(0, most - reserve) + 1
    while high - low > 1:
        middle = (low + high) // 2
        fits = admitted(arrangement, budget_bytes, middle + reserve) >= requests
        low, high = (middle, high) if fits else (low, middle)
    return low
