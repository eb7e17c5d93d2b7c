"""A device as a capacity review sees it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One accelerator.

    Attributes:
        name: Catalog name (``h100-80g``) or the name of a ``[devices.NAME]`` table.
        memory_bytes: Bytes the driver reports as the device's total.
        bandwidth_bytes_per_s: Peak memory bandwidth by the datasheet, 0 when unknown.
        flops_per_s: Dense bf16 peak by the datasheet, 0 when unknown.
        source: Where the figures come from.
    """

    name: str
    memory_bytes: int
    bandwidth_bytes_per_s: int = 0
    flops_per_s: int = 0
    source: str = ""
