"""Hooks of the analytic plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvbench import __version__, hookimpl
from kvbench.engine import (
    Availability,
    Cell,
    CellOutput,
    Direction,
    EngineInfo,
    Evidence,
    Metric,
    Stage,
)
from kvbench.metrics import shared
from kvbench_analytic.options import OPTIONS

if TYPE_CHECKING:
    from kvbench.explain.finding import Explanation
    from kvbench.model.spec import ModelSpec

_ANALYTIC = Evidence.ANALYTIC
_SHARED = (
    "slope_bytes_per_token",
    "intercept_bytes",
    "logical_bytes",
    "paged_bytes",
    "admission_bytes",
    "tail_waste_bytes",
    "fragmentation_ratio",
    "request_blocks",
    "block_bytes",
    "block_size_tokens",
    "pool_blocks",
    "pool_bytes",
    "capacity_tokens",
    "max_concurrency_requests",
    "max_context_tokens",
    "weight_bytes",
)


def _own(name: str, unit: str, direction: Direction, meaning: str) -> Metric:
    return Metric(
        name=name, unit=unit, direction=direction, evidence=_ANALYTIC, meaning=meaning, exact=True
    )


#: Terms of a device's budget, in words.
_TERMS = {
    "weights": "the weights on one rank",
    "activation": "the largest step's activations",
    "graphs": "captured graphs",
    "non_torch": "communication buffers and the driver",
    "safety": "memory kept free on purpose",
}

_OWN = (
    _own(
        "concurrent_requests",
        "requests",
        Direction.HIGHER,
        "Whole requests of this length (and their new tokens) that the budget admits at once.",
    ),
    _own(
        "kv_budget_bytes",
        "bytes",
        Direction.HIGHER,
        "Bytes left for the cache on one rank.",
    ),
    _own(
        "kv_budget_low_bytes",
        "bytes",
        Direction.HIGHER,
        "Bytes left for the cache when every uncertain term is at its worst.",
    ),
    _own(
        "kv_budget_high_bytes",
        "bytes",
        Direction.HIGHER,
        "Bytes left for the cache when every uncertain term is at its best.",
    ),
    _own(
        "concurrent_requests_low",
        "requests",
        Direction.HIGHER,
        "Whole requests that the low end of the budget admits at once.",
    ),
    _own(
        "concurrent_requests_high",
        "requests",
        Direction.HIGHER,
        "Whole requests that the high end of the budget admits at once.",
    ),
    _own(
        "scheduler_limit_requests",
        "requests",
        Direction.NONE,
        "Requests that one step of the engine may schedule (max_num_seqs, its default on this "
        "device); more never run at once, whatever the budget admits.",
    ),
    _own(
        "next_tp_ranks",
        "ranks",
        Direction.NONE,
        "The next larger tensor-parallel degree: the smallest that divides the heads and that "
        "the layout accepts.",
    ),
    _own(
        "next_tp_requests",
        "requests",
        Direction.NONE,
        "Whole requests of this length that the budget admits at that degree.",
    ),
    _own(
        "next_tp_requests_low",
        "requests",
        Direction.NONE,
        "The same at the low end of the budget.",
    ),
    _own(
        "next_tp_requests_high",
        "requests",
        Direction.NONE,
        "The same at the high end of the budget.",
    ),
    _own(
        "device_budget_bytes",
        "bytes",
        Direction.NONE,
        "Bytes of the device that the engine may use: its memory times the utilization.",
    ),
    *(
        _own(f"{term}_budget_bytes", "bytes", Direction.LOWER, f"Expected bytes of {what}.")
        for term, what in _TERMS.items()
    ),
    _own(
        "workload_logical_bytes",
        "bytes",
        Direction.LOWER,
        "Logical bytes of the workload's requests at their full lengths, all together.",
    ),
    _own(
        "workload_paged_bytes",
        "bytes",
        Direction.LOWER,
        "Paged bytes of the workload's requests at their full lengths, all together.",
    ),
    _own(
        "workload_fragmentation_ratio",
        "ratio",
        Direction.LOWER,
        "Unused share of the workload's blocks when every request is at its full length.",
    ),
)


@hookimpl
def kvbench_engine() -> EngineInfo:
    """Say who the engine is; it runs anywhere."""
    return EngineInfo(
        name="analytic",
        version=__version__,
        distribution="kvbench",
        summary="Bytes, blocks, concurrency and contexts by arithmetic, for any layout.",
        evidence=frozenset({_ANALYTIC}),
        stages=frozenset({Stage.SIZE}),
        options=OPTIONS,
        probe=lambda: Availability(available=True),
        deterministic=True,
    )


@hookimpl
def kvbench_metrics() -> Sequence[Metric]:
    """Register what arithmetic can answer."""
    return (*(shared(name, _ANALYTIC, exact=True) for name in _SHARED), *_OWN)


@hookimpl
def kvbench_explain(text: str, model: ModelSpec | None) -> Explanation | None:
    """Take apart start-up lines of engines that have no plugin here."""
    from kvbench_analytic.other_logs import explain_other_log

    return explain_other_log(text, model)


@hookimpl
def kvbench_size(cell: Cell, session: Any) -> CellOutput:
    """Size the cell's model."""
    from kvbench_analytic.size import size_cell

    return size_cell(cell)
