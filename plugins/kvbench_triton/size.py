"""The ``size`` stage: what one decode step has to move, by arithmetic alone."""

from __future__ import annotations

from kvbench.engine import Cell, CellOutput, Evidence, Observation
from kvbench_triton.config import Target
from kvbench_triton.scenario import Scenario, resolve

#: Multiprocessors by words in a device's name, for the split that a run on it would choose.
_TARGETS = (
    ("b200", Target(family="sm_100", multiprocessors=148, native_fp8=True)),
    ("h200", Target(family="sm_90", multiprocessors=132, native_fp8=True)),
    ("h100", Target(family="sm_90", multiprocessors=132, native_fp8=True)),
    ("a100", Target(family="sm_80", multiprocessors=108)),
    ("mi300", Target(family="gfx942", multiprocessors=304)),
)


def known_target(device_name: str) -> Target | None:
    """The kernels' target of a catalog device, ``None`` when it is not one of them."""
    name = device_name.lower()
    return next((target for word, target in _TARGETS if word in name), None)


def size_cell(cell: Cell) -> CellOutput:
    """Predict bytes, splits and the floor of one step; needs neither torch nor a device.

    The split is that of the named device, or of an H100 when none of the known ones is named.
    """
    named = known_target(cell.device.name) if cell.device else None
    scenario = resolve(cell, named or dict(_TARGETS)["h100"])
    assumptions = [
        "One decode step of one layer; every byte crosses the memory bus once.",
        "" if named else "Split as on 132 multiprocessors: the suite names no known device.",
    ]
    return CellOutput(
        observations=(
            *predicted(scenario),
            *pool_figures(scenario, Evidence.ANALYTIC),
            *_floor(cell, scenario),
        ),
        effective=effective(scenario),
        assumptions=tuple(filter(None, assumptions)),
    )


def predicted(scenario: Scenario) -> tuple[Observation, ...]:
    """Traffic and split of a scenario, analytic in every stage."""
    traffic = scenario.traffic
    values = {
        "kv_read_bytes": traffic.kv_bytes,
        "moved_bytes": traffic.moved_bytes,
        "partial_bytes": traffic.partial_bytes,
        "decode_flops": traffic.flops,
        "work_items": len(scenario.plan.items),
        "span_tokens": scenario.plan.span_tiles * scenario.config.block_n,
    }
    return tuple(
        Observation(metric=name, value=value, evidence=Evidence.ANALYTIC)
        for name, value in values.items()
    )


def pool_figures(scenario: Scenario, evidence: Evidence) -> tuple[Observation, ...]:
    """Blocks and bytes of the pools when every sequence is in them."""
    shape = scenario.shape
    slots = scenario.blocks * shape.page_size
    values = {
        "block_bytes": shape.block_bytes * scenario.layers,
        "pool_blocks": scenario.blocks,
        "pool_bytes": shape.block_bytes * scenario.layers * scenario.blocks,
        "used_blocks": scenario.blocks,
        "fragmentation_ratio": 1 - sum(scenario.lengths) / slots,
    }
    return tuple(
        Observation(metric=name, value=value, evidence=evidence) for name, value in values.items()
    )


def effective(scenario: Scenario) -> dict[str, str | int | float | bool]:
    """Choices the plugin made for the cell."""
    config = scenario.config
    return {
        "kv_dtype": scenario.shape.kv_dtype,
        "block_h": config.block_h,
        "block_n": config.block_n,
        "warps": config.warps,
        "stages": config.stages,
        "split": scenario.plan.split,
    }


def _floor(cell: Cell, scenario: Scenario) -> tuple[Observation, ...]:
    if cell.device is None or not cell.device.bandwidth_bytes_per_s:
        return ()
    floor = scenario.traffic.floor_s(cell.device.bandwidth_bytes_per_s, cell.device.flops_per_s)
    return (Observation(metric="floor_s", value=floor, evidence=Evidence.ANALYTIC),)
