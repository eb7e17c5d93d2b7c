"""Hooks of the vLLM plugin. Nothing here imports vLLM, torch or an HTTP client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from kvbench import hookimpl
from kvbench.engine import Cell, CellOutput, EngineConfig, EngineInfo, Evidence, Metric, Stage
from kvbench.metrics import shared
from kvbench_vllm.installed import installed, probe
from kvbench_vllm.options import OPTIONS

if TYPE_CHECKING:
    from kvbench.layout import Layout

_ENGINE = Evidence.ENGINE
_ENGINE_EXACT = (
    "block_size_tokens",
    "block_bytes",
    "pool_blocks",
    "pool_bytes",
    "capacity_tokens",
    "max_concurrency_requests",
    "used_blocks",
    "cached_blocks",
    "running_requests",
    "waiting_requests",
    "peak_used_blocks",
    "mean_used_blocks",
    "peak_used_bytes",
    "peak_usage_ratio",
    "peak_running_requests",
    "peak_waiting_requests",
    "hit_tokens",
    "query_tokens",
    "prefix_hit_ratio",
    "evicted_blocks",
    "preemptions_count",
    "steps_count",
    "requests_count",
)


@hookimpl
def kvbench_engine() -> EngineInfo:
    """Say what is installed; the probe names the remedy when nothing usable is."""
    found = installed()
    return EngineInfo(
        name="vllm",
        version=found.version,
        distribution=found.distribution,
        summary="vLLM itself: the pool it makes, how it fills, how it serves.",
        evidence=frozenset({Evidence.ANALYTIC, Evidence.ENGINE, Evidence.DEVICE}),
        stages=frozenset({Stage.SIZE, Stage.ALLOCATE}),
        options=OPTIONS,
        probe=probe,
        exclusive=True,
    )


@hookimpl
def kvbench_metrics() -> Sequence[Metric]:
    """Register the engine's own accounting and what its process holds."""
    return (
        *(shared(name, _ENGINE, exact=True) for name in _ENGINE_EXACT),
        shared("process_used_bytes", Evidence.DEVICE),
        shared("device_used_bytes", Evidence.DEVICE),
    )


@hookimpl
def kvbench_layouts() -> Sequence[Layout]:
    """Offer the ``vllm`` layout, which needs no vLLM."""
    from kvbench_vllm.layout import VllmLayout

    return (VllmLayout(),)


@hookimpl
def kvbench_environment() -> Mapping[str, str]:
    """Record which distribution owns the module ``vllm``, and the torch beside it."""
    return installed().provenance()


@hookimpl
def kvbench_open(config: EngineConfig) -> AbstractContextManager[Any]:
    """Start vLLM in this worker process; cells with equal engine options share it."""
    from kvbench_vllm.in_process import open_engine

    return open_engine(config)


@hookimpl
def kvbench_size(cell: Cell, session: Any) -> CellOutput:
    """Report the pool that vLLM made, in its own figures."""
    from kvbench_vllm.accounting import report_pool

    return report_pool(cell, session)


@hookimpl
def kvbench_allocate(cell: Cell, session: Any) -> CellOutput:
    """Run the cell's workload step by step and report the state of vLLM's block pool."""
    from kvbench_vllm.stepping import run_workload

    return run_workload(cell, session)
