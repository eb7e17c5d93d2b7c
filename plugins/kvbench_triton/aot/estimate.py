"""Static estimates from a compiled kernel: programs at once, and issue slots against memory.

Both are bounds, not predictions: the issue estimate ignores slow units and dependencies, so a
kernel can use at most ``1 / ratio`` of the memory bandwidth, and may use less.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvbench_triton.aot.machine_code import Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A GPU as the estimates see it.

    Attributes:
        product: The GPU the figures are of.
        units: Multiprocessors.
        clock_hz: Clock of the multiprocessors.
        bandwidth_bytes_per_s: Memory bandwidth.
        bandwidth_source: Where it comes from.
        registers: Registers of one multiprocessor (of one lane of a SIMD on AMD).
        register_unit: Registers are handed out to a warp in multiples of this.
        shared_bytes: Shared memory of one multiprocessor.
        shared_reserved_bytes: Shared memory each program costs besides its own.
        warps: Warps of one multiprocessor.
        lanes: Threads of a warp.
    """

    product: str
    units: int
    clock_hz: float
    bandwidth_bytes_per_s: float
    bandwidth_source: str
    registers: int
    register_unit: int
    shared_bytes: int
    shared_reserved_bytes: int
    warps: int
    lanes: int = 32


def _nvidia(
    product: str, units: int, clock_hz: float, bandwidth: float, source: str, shared_kib: int
) -> Machine:
    return Machine(
        product=product,
        units=units,
        clock_hz=clock_hz,
        bandwidth_bytes_per_s=bandwidth,
        bandwidth_source=source,
        registers=65536,
        register_unit=256,
        shared_bytes=shared_kib * 1024,
        shared_reserved_bytes=1024,
        warps=64,
    )


MACHINES = {
    "sm_80": _nvidia("A100 80 GB", 108, 1.41e9, 2.039e12, "datasheet", 164),
    "sm_90": _nvidia("H200", 132, 1.755e9, 4.3e12, "copy measured by others", 228),
    "sm_100": _nvidia("B200", 148, 1.965e9, 8.0e12, "datasheet", 228),
    "gfx942": Machine(
        product="MI300X",
        units=304,
        clock_hz=2.1e9,
        bandwidth_bytes_per_s=5.3e12,
        bandwidth_source="datasheet",
        registers=4 * 512 * 64,
        register_unit=8 * 64,
        shared_bytes=64 * 1024,
        shared_reserved_bytes=0,
        warps=32,
        lanes=64,
    ),
}

#: Schedulers of a multiprocessor (SIMDs of an AMD compute unit), each issuing once per cycle.
SCHEDULERS = 4


def programs_per_unit(code: Code, machine: Machine) -> int:
    """Programs that one multiprocessor holds at once, by registers, shared memory and warps."""
    warps = code.threads // machine.lanes
    per_warp = -(-code.registers * machine.lanes // machine.register_unit) * machine.register_unit
    by_registers = machine.registers // per_warp // warps
    by_shared = machine.shared_bytes // (code.shared_bytes + machine.shared_reserved_bytes)
    return min(by_registers, by_shared, machine.warps // warps)


def issue_ratio(code: Code, tile_bytes: int, machine: Machine) -> float:
    """Cycles to issue one tile's loop over cycles to read the tile from memory.

    Args:
        code: The kernel; one round of its loop handles one tile.
        tile_bytes: Cache bytes of one tile and one KV head, scales included.
        machine: Clock, schedulers and bandwidth.
    """
    issue_cycles = code.loop_instructions * (code.threads // machine.lanes) / SCHEDULERS
    bytes_per_cycle = machine.bandwidth_bytes_per_s / machine.units / machine.clock_hz
    return issue_cycles / (tile_bytes / bytes_per_cycle)
