"""A device as a capacity review sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One accelerator.

    Attributes:
        name: Catalog name (``h100-80g``) or the name of a ``[devices.NAME]`` table.
        memory_bytes: Bytes that a process is told are the device's total (``cudaMemGetInfo``,
            ``hipMemGetInfo``): what engines multiply their utilization by. Smaller than the
            board's memory: the driver and ECC keep some for themselves.
        bandwidth_bytes_per_s: Peak memory bandwidth by the datasheet, 0 when unknown.
        flops_per_s: Dense bf16 peak by the datasheet, 0 when unknown.
        fp8_flops_per_s: Dense fp8 peak by the datasheet, 0 when unknown or where there is none.
        source: Where the figures come from.
        memory_low_bytes: Lowest total seen under any driver, 0 when only one is known.
        memory_high_bytes: Highest total seen under any driver, 0 when only one is known.
        board_bytes: Total as ``nvidia-smi`` or ``rocm-smi`` prints it, 0 when unknown.
    """

    name: str
    memory_bytes: int
    bandwidth_bytes_per_s: int = 0
    flops_per_s: int = 0
    fp8_flops_per_s: int = 0
    source: str = ""
    memory_low_bytes: int = 0
    memory_high_bytes: int = 0
    board_bytes: int = 0

    @property
    def memory_interval(self) -> tuple[int, int, int]:
        """Low, expected and high total bytes under the drivers seen."""
        return (
            self.memory_low_bytes or self.memory_bytes,
            self.memory_bytes,
            self.memory_high_bytes or self.memory_bytes,
        )
