"""Hooks of the Triton plugin. Nothing here imports torch or Triton."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from kvbench import hookimpl
from kvbench.engine import (
    Availability,
    Cell,
    CellOutput,
    EngineConfig,
    EngineInfo,
    Evidence,
    Metric,
    Stage,
)
from kvbench_triton import installed
from kvbench_triton.metrics import METRICS
from kvbench_triton.options import OPTIONS

_SUMMARY = "Paged decode attention by our own Triton kernels, on a device or interpreted"


@hookimpl
def kvbench_engine() -> EngineInfo:
    """Say what can run here: predictions always, kernels with torch and Triton."""
    problem = installed.missing()
    only = f"; only predictions here: {problem}, {installed.REMEDY}" if problem else ""
    return EngineInfo(
        name="triton",
        version=installed.version("triton"),
        distribution="triton",
        summary=f"{_SUMMARY}{only}.",
        evidence=frozenset({Evidence.ANALYTIC, Evidence.ENGINE, Evidence.DEVICE}),
        stages=frozenset(Stage),
        options=OPTIONS,
        probe=lambda: Availability(available=True),
        exclusive=True,
    )


@hookimpl
def kvbench_metrics() -> Sequence[Metric]:
    """Register predictions, the pool's own figures and what a device measures."""
    return METRICS


@hookimpl
def kvbench_environment() -> Mapping[str, str]:
    """Record the versions that the kernels depend on."""
    found = {name: installed.version(name) for name in ("torch", "triton")}
    return {name: version for name, version in found.items() if version}


@hookimpl
def kvbench_open(config: EngineConfig) -> AbstractContextManager[Any]:
    """Open a session; it loads torch and finds its device when a stage first needs them."""
    from kvbench_triton.session import open_session

    return open_session(config)


@hookimpl
def kvbench_size(cell: Cell, session: Any) -> CellOutput:
    """Predict bytes moved and the floor of one decode step."""
    from kvbench_triton.size import size_cell

    return size_cell(cell)


@hookimpl
def kvbench_allocate(cell: Cell, session: Any) -> CellOutput:
    """Allocate a real paged cache, fill it, and read memory at every level."""
    session.require_backend()
    from kvbench_triton.allocate import allocate_cell

    return allocate_cell(cell, session)


@hookimpl
def kvbench_measure(cell: Cell, session: Any) -> CellOutput:
    """Run decode attention, check it, and time it where a device runs it."""
    session.require_backend()
    from kvbench_triton.measure import measure_cell

    return measure_cell(cell, session)
