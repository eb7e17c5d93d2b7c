"""A plan: what would run, and what would not, with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvbench.engine import Cell, EngineConfig
from kvbench.suite.spec import Protocol, Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """A cell with everything the runner needs.

    Attributes:
        cell: The cell.
        config: Live engine it needs; cells with equal ``config_id`` share it.
        config_id: Content id of ``config`` (plugin, version and engine-scope settings).
        protocol: Repeats and limits, already reduced for deterministic engines.
        engine_version: Version of the engine, empty when only the worker can know.
        engine_distribution: Distribution that owns the engine.
        exclusive: The cell must not run beside any other.
        monotonic: Axes of which more never needs less memory.
        skip_status: ``skipped`` or ``unsupported`` when it will not run, empty otherwise.
        skip_reason: Stable code (``kv_exceeds_device``, ``engine_unavailable`` …).
        skip_message: The same in words, with remedy.
    """

    cell: Cell
    config: EngineConfig
    config_id: str
    protocol: Protocol
    engine_version: str
    engine_distribution: str
    exclusive: bool
    monotonic: tuple[str, ...]
    skip_status: str = ""
    skip_reason: str = ""
    skip_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCounts:
    """Cells of one benchmark after each expansion stage (points times engines)."""

    benchmark: str
    product: int
    zipped: int
    excluded: int
    included: int
    fit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of one suite.

    Attributes:
        suite: The suite.
        plan_id: SHA-256 over all cell ids, in order.
        cells: Every cell, runnable or not, by ordinal.
        counts: One row per benchmark.
        axis_types: Axis name to ``int``, ``float``, ``bool`` or ``str``: the Arrow type of its
            ``param_<axis>`` column.
    """

    suite: Suite
    plan_id: str
    cells: tuple[PlannedCell, ...]
    counts: tuple[StageCounts, ...]
    axis_types: Mapping[str, str]
