"""Hooks of the pool plugin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvbench import __version__, hookimpl
from kvbench.engine import Availability, Cell, CellOutput, EngineInfo, Evidence, Metric, Stage
from kvbench_pool.options import OPTIONS
from kvbench_pool.pool_metrics import METRICS

if TYPE_CHECKING:
    import click


@hookimpl
def kvbench_engine() -> EngineInfo:
    """Say who the engine is; it runs anywhere."""
    return EngineInfo(
        name="pool",
        version=__version__,
        distribution="kvbench",
        summary="Replays requests through simulated KV pools: blocks, sharing, preemption, waste.",
        evidence=frozenset({Evidence.SIMULATED, Evidence.ENGINE}),
        stages=frozenset({Stage.ALLOCATE}),
        options=OPTIONS,
        probe=lambda: Availability(available=True),
        deterministic=True,
    )


@hookimpl
def kvbench_metrics() -> Sequence[Metric]:
    """Register what the simulation can observe."""
    return METRICS


@hookimpl
def kvbench_allocate(cell: Cell, session: Any) -> CellOutput:
    """Run the study that the cell names."""
    from kvbench_pool.studies import run_study

    return run_study(cell)


@hookimpl
def kvbench_commands(cli: click.Group) -> None:
    """Add ``kvbench simulate``."""
    from kvbench_pool.simulate_command import simulate

    cli.add_command(simulate)
