"""The ``measure`` stage: decode attention, checked against float64, timed where a device is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

from kvbench.engine import Cell, CellOutput, Evidence, Observation
from kvbench.errors import EngineUnavailable
from kvbench_triton import timing
from kvbench_triton.allocate import check_fits
from kvbench_triton.backend import INTERPRETER, TORCH_CPU, Backend
from kvbench_triton.ceilings import Ceilings
from kvbench_triton.nvml import DeviceState, state_warnings
from kvbench_triton.problem import Problem, build_problem, relative_error, scatter_rows
from kvbench_triton.reference import reference_decode
from kvbench_triton.scenario import Scenario, resolve
from kvbench_triton.session import Session
from kvbench_triton.size import effective, predicted
from kvbench_triton.timing import Timing

#: Largest error of float32 operands, and of bf16 or fp16 operands and outputs on a device.
MAX_ERROR = {Evidence.ENGINE: 1e-5, Evidence.DEVICE: 2e-2}

#: Interpreted tiles a cell may have: about a minute.
MAX_INTERPRETED_TILES = 2048


def measure_cell(cell: Cell, session: Session) -> CellOutput:
    """Decode once and compare with float64; on a device also time it against its ceilings.

    Raises:
        CellFailed: ``oom``.
        EngineUnavailable: The backend or the shape is not available, or too large to interpret.
    """
    backend = session.backend
    scenario = resolve(cell, backend.target)
    buffers = 1
    if backend.on_device:
        buffers = timing.rotation(scenario.traffic.kv_bytes, backend.l2_bytes)
    check_fits(scenario, backend, buffers)
    problem, launch = _prepare(cell, scenario, backend, buffers)
    launch(0)
    error = relative_error(problem, problem.out)
    device = _timed(cell, session, problem, launch) if backend.on_device else None
    return _output(scenario, backend, error, device)


def _prepare(
    cell: Cell, scenario: Scenario, backend: Backend, buffers: int
) -> tuple[Problem, Callable[[int], None]]:
    """Return the tensors, and what decodes with the block table of one buffer."""
    if backend.name == TORCH_CPU:
        problem = build_problem(scenario, backend, buffers=1, seed=cell.seed, write=scatter_rows)
        return problem, lambda buffer: _torch_decode(problem, buffer)
    if backend.name == INTERPRETER:
        refuse_large(scenario)
    from kvbench_triton.attention import paged_decode, prepare_step, write_rows

    problem = build_problem(scenario, backend, buffers=buffers, seed=cell.seed, write=write_rows)
    step = prepare_step(
        scenario.shape, scenario.config, backend.target, scenario.plan, backend.device
    )
    return problem, lambda buffer: paged_decode(
        step, problem.query, problem.cache, problem.tables[buffer], problem.out, problem.sinks
    )


def _torch_decode(problem: Problem, buffer: int) -> None:
    """Decode in float32 with plain torch operations: correctness and allocation size only."""
    problem.out.copy_(
        reference_decode(
            problem.query,
            problem.cache,
            problem.tables[buffer],
            problem.scenario.lengths,
            problem.sinks,
            dtype=torch.float32,
        )
    )


def refuse_large(scenario: Scenario) -> None:
    """Refuse what the interpreter would take minutes for.

    Raises:
        EngineUnavailable: More than ``MAX_INTERPRETED_TILES`` tiles.
    """
    visible = sum(map(scenario.shape.visible, scenario.lengths))
    tiles = visible * scenario.shape.kv_heads // scenario.config.block_n
    if tiles > MAX_INTERPRETED_TILES:
        raise EngineUnavailable(
            f"{tiles} tiles are too many to interpret",
            f"lower sequences, cached_tokens or KV heads to {MAX_INTERPRETED_TILES} tiles of "
            f"{scenario.config.block_n} tokens, or use a device",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """What a device told about one cell; ``peak_bytes_per_s`` is the datasheet's, 0 unknown."""

    timed: Timing
    ceilings: Ceilings
    before: DeviceState
    after: DeviceState
    peak_bytes_per_s: int


def _timed(
    cell: Cell, session: Session, problem: Problem, launch: Callable[[int], None]
) -> _Measured:
    launches = [lambda buffer=buffer: launch(buffer) for buffer in range(len(problem.tables))]
    ceilings = session.ceilings
    before = session.nvml.read()
    timed = timing.time_launches(session.runtime, launches, int(cell.settings["replays"]))
    return _Measured(
        timed=timed,
        ceilings=ceilings,
        before=before,
        after=session.nvml.read(),
        peak_bytes_per_s=cell.device.bandwidth_bytes_per_s if cell.device else 0,
    )


def _output(
    scenario: Scenario, backend: Backend, error: float, device: _Measured | None
) -> CellOutput:
    wrong = not error <= MAX_ERROR[backend.evidence]
    moved = scenario.traffic.moved_bytes
    return CellOutput(
        observations=(
            *predicted(scenario),
            Observation(metric="error_ratio", value=error, evidence=backend.evidence),
            *(device_figures(device.timed, device.ceilings, moved) if device else ()),
        ),
        effective=effective(scenario)
        | {"backend": backend.name, "target": backend.target.family, "device": backend.product},
        assumptions=(_meaning(backend),),
        warnings=_warnings(device, moved) if device else (),
        invalid="wrong_result" if wrong else "",
        invalid_message=f"relative error {error:.1e} against float64" if wrong else "",
        artifacts={"device state": _state(device)} if device else {},
    )


def device_figures(timed: Timing, ceilings: Ceilings, moved_bytes: int) -> tuple[Observation, ...]:
    """Every sample, and the bandwidth of the median against both ceilings."""
    achieved = moved_bytes / timed.median_s
    values = {
        "moved_bytes_per_s": achieved,
        "copy_bytes_per_s": ceilings.copy_bytes_per_s,
        "read_bytes_per_s": ceilings.read_bytes_per_s,
        "of_copy_ratio": achieved / ceilings.copy_bytes_per_s,
        "of_read_ratio": achieved / ceilings.read_bytes_per_s,
        "measured_floor_s": moved_bytes / ceilings.read_bytes_per_s,
    }
    samples = [("decode_s", seconds) for seconds in timed.seconds]
    return tuple(
        Observation(metric=name, value=value, evidence=Evidence.DEVICE)
        for name, value in (*samples, *values.items())
    )


def _meaning(backend: Backend) -> str:
    if backend.on_device:
        return f"Measured on {backend.product}; all buffers together exceed its L2 cache fourfold."
    return (
        f"Backend {backend.name}: the arithmetic was checked on the CPU with float32 operands; "
        "time and bandwidth of a device are not known."
    )


def _warnings(device: _Measured, moved_bytes: int) -> tuple[str, ...]:
    clocks = (device.before.sm_clock_hz, device.after.sm_clock_hz)
    return (
        *timing.doubts(device.timed, clocks, moved_bytes, device.peak_bytes_per_s),
        *state_warnings(device.before, device.after, pid=os.getpid()),
    )


def _state(device: _Measured) -> str:
    return json.dumps({"before": asdict(device.before), "after": asdict(device.after)}, indent=1)
