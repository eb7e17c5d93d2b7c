"""The ``allocate`` stage: a real pool, filled sequence by sequence, watched at every level."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from kvbench.engine import Cell, CellOutput, Evidence, Observation
from kvbench.errors import CellFailed
from kvbench_triton.backend import Backend
from kvbench_triton.cache import PagedCache, allocate_cache
from kvbench_triton.cuda_runtime import allocator_levels
from kvbench_triton.memory import LEVELS, MemoryLadder, contradictions, decompose, explain, table
from kvbench_triton.scenario import Scenario, resolve
from kvbench_triton.session import Session, release
from kvbench_triton.size import effective, pool_figures

#: Moments of the fill at which the ladder is read.
_QUARTERS = 4

_DEVICE_METRICS = {
    "device": "device_used_bytes",
    "process": "process_used_bytes",
    "reserved": "reserved_bytes",
    "allocated": "allocated_bytes",
    "requested": "requested_bytes",
}


def allocate_cell(cell: Cell, session: Session) -> CellOutput:
    """Allocate the pools, fill them by quarters, empty them, and read the ladder each time.

    Raises:
        CellFailed: ``oom`` when the pools do not fit the device.
        EngineUnavailable: The backend or the shape is not available.
    """
    backend = session.backend
    scenario = resolve(cell, backend.target)
    check_fits(scenario, backend)
    ladders = [_read("before the pool", session, scenario, pools=(), filled=0)]
    pools = allocate_pools(scenario, backend)
    ladders += _fill(pools, scenario, session)
    ladders.append(_read("all sequences freed", session, scenario, pools, filled=0))
    pools.clear()
    release()
    pool_moments = ladders[1:]
    return CellOutput(
        observations=(
            *pool_figures(scenario, Evidence.ANALYTIC),
            *_pool_observations(pool_moments, scenario),
            *_device_observations(ladders, backend),
        ),
        effective=effective(scenario) | {"backend": backend.name, "device": backend.product},
        assumptions=(explain(pool_moments[: _QUARTERS + 1]),),
        warnings=tuple(line for ladder in ladders for line in contradictions(ladder)),
        artifacts={"memory ladder, bytes": table(ladders), "steps": _steps(ladders[-2])},
    )


def check_fits(scenario: Scenario, backend: Backend, copies: int = 1) -> None:
    """Refuse pools larger than the device before the allocator is asked.

    Raises:
        CellFailed: ``oom``, with both sizes.
    """
    wanted = scenario.blocks * scenario.shape.block_bytes * scenario.layers * copies
    if backend.on_device and wanted > backend.memory_bytes:
        raise CellFailed(
            "oom",
            f"the cache needs {wanted} bytes, {backend.product} has {backend.memory_bytes}; "
            "fewer sequences, tokens or layers, or a smaller kv_dtype",
        )


def allocate_pools(scenario: Scenario, backend: Backend) -> list[PagedCache]:
    """One pool per layer.

    Raises:
        CellFailed: ``oom``.
    """
    try:
        return [
            allocate_cache(scenario.shape, scenario.blocks, backend.device)
            for _ in range(scenario.layers)
        ]
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise CellFailed("oom", str(error).splitlines()[0] if str(error) else "oom") from error


def _fill(pools: list[PagedCache], scenario: Scenario, session: Session) -> list[MemoryLadder]:
    """Write rows of zeros for a quarter of the sequences at a time."""
    ladders = [_read("pool allocated", session, scenario, pools, filled=0)]
    done = 0
    for quarter in range(1, _QUARTERS + 1):
        until = -(-len(scenario.lengths) * quarter // _QUARTERS)
        _write(pools, scenario, done, until)
        done = until
        moment = f"{done} of {len(scenario.lengths)} sequences"
        ladders.append(_read(moment, session, scenario, pools, filled=done))
    return ladders


def _write(pools: Sequence[PagedCache], scenario: Scenario, first: int, until: int) -> None:
    """Touch every block of sequences ``first … until``; blocks are handed out in order."""
    pages = [-(-length // scenario.shape.page_size) for length in scenario.lengths]
    for pool in pools:
        pool.pool[sum(pages[:first]) : sum(pages[:until])].view(torch.uint8).zero_()


def _read(
    moment: str, session: Session, scenario: Scenario, pools: Sequence[PagedCache], filled: int
) -> MemoryLadder:
    """Read every level at once; what the backend cannot tell stays ``None``."""
    lengths = scenario.lengths[:filled]
    shape = scenario.shape
    blocks = sum(-(-length // shape.page_size) for length in lengths)
    known: dict[str, Any] = {
        "kv_tensor": sum(pool.nbytes for pool in pools),
        "used_blocks": blocks * shape.block_bytes * scenario.layers,
        "live_tokens": sum(lengths) * shape.token_bytes * scenario.layers,
    }
    if session.backend.on_device:
        torch.cuda.synchronize()
        state = session.nvml.read()
        known |= {"device": state.used_bytes, "process": state.process_bytes(os.getpid())}
        known |= allocator_levels(torch.cuda.memory_stats())
    return MemoryLadder(moment=moment, **known)


def _pool_observations(
    ladders: Sequence[MemoryLadder], scenario: Scenario
) -> tuple[Observation, ...]:
    """What the pool itself reports, moment by moment."""
    shape, layers = scenario.shape, scenario.layers
    series = []
    for ladder in ladders:
        used = (ladder.used_blocks or 0) // (shape.block_bytes * layers)
        live = (ladder.live_tokens or 0) // (shape.token_bytes * layers)
        series.append(Observation(metric="used_blocks", value=used, evidence=Evidence.ENGINE))
        series.append(Observation(metric="live_tokens", value=live, evidence=Evidence.ENGINE))
    pool = ladders[0].kv_tensor or 0
    return (
        *series,
        Observation(metric="pool_bytes", value=pool, evidence=Evidence.ENGINE),
        Observation(metric="pool_blocks", value=scenario.blocks, evidence=Evidence.ENGINE),
        Observation(
            metric="block_bytes", value=shape.block_bytes * layers, evidence=Evidence.ENGINE
        ),
    )


def _device_observations(
    ladders: Sequence[MemoryLadder], backend: Backend
) -> tuple[Observation, ...]:
    """Levels the device and its framework report; nothing without a device."""
    if not backend.on_device:
        return ()
    return tuple(
        Observation(metric=metric, value=value, evidence=Evidence.DEVICE)
        for ladder in ladders
        for level, metric in _DEVICE_METRICS.items()
        if (value := getattr(ladder, level)) is not None
    )


def _steps(ladder: MemoryLadder) -> str:
    """What lies between the levels of the filled pool."""
    lines = [
        f"{name}: {'not known' if value is None else value}"
        for name, value in decompose(ladder).items()
    ]
    assert len(lines) == len(LEVELS) - 1
    return "\n".join(lines)
