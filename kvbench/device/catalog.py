"""Devices by name: the catalog of cards in use, and ``[devices.NAME]`` tables beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kvbench.device.spec import DeviceSpec
from kvbench.device.table import ALIASES, EXACT_BYTES, FP8_TFLOPS, ROWS, Row
from kvbench.errors import DeviceError
from kvbench.names import did_you_mean
from kvbench.quantity import QuantityError, parse_bytes

_GIB = 2**30
_MIB = 2**20
#: No accelerator has more: a larger figure is a slip of units.
_LARGEST_BYTES = 1 << 50
_TOTALS = "total as processes are told it, from public logs"
_VENDORS = re.compile(r"\b(?:nvidia|geforce|tesla|amd|instinct|gpu)\b")
_RATES = ("bandwidth_bytes_per_s", "flops_per_s", "fp8_flops_per_s")
#: Keys of a ``[devices.NAME]`` table, each with what it takes.
KEYS: Mapping[str, str] = MappingProxyType(
    {
        "memory_bytes": 'total as engines see it, an integer or "80GiB"',
        "bandwidth_bytes_per_s": "peak memory bandwidth, a number",
        "flops_per_s": "dense bf16 peak, a number",
        "fp8_flops_per_s": "dense fp8 peak, a number",
        "source": "where the figures come from",
    }
)


def _spec(name: str, row: Row) -> DeviceSpec:
    low, usual, high = (round(figure * _GIB) for figure in row.memory)
    exact, where = EXACT_BYTES.get(name, (0, ""))
    return DeviceSpec(
        name=name,
        memory_bytes=exact or usual,
        memory_low_bytes=low,
        memory_high_bytes=high,
        board_bytes=row.board * _MIB,
        bandwidth_bytes_per_s=row.bandwidth * 10**9,
        flops_per_s=round(row.tflops * 10**12),
        fp8_flops_per_s=round(FP8_TFLOPS.get(name, 0) * 10**12),
        source=f"memory: {where or _TOTALS}; bandwidth and peak: {row.datasheet}",
    )


#: Every device of the catalog by name.
DEVICES: Mapping[str, DeviceSpec] = MappingProxyType(
    {name: _spec(name, row) for name, row in ROWS.items()}
)


def load_device(
    name: str, tables: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> DeviceSpec:
    """Return the device called ``name``.

    Args:
        name: A table of ``tables``, a catalog name, or another common name (``RTX 4090``,
            ``NVIDIA H100 80GB HBM3``).
        tables: The ``[devices]`` tables of a suite or file; they win over the catalog.

    Raises:
        DeviceError: An unknown name, or a table with a wrong key or value.
    """
    if name in tables:
        return _table_device(name, tables[name])
    plain = _plain(name)
    known = ALIASES.get(plain, plain)
    if known not in DEVICES:
        raise DeviceError(f"no device {name!r}{_hint(plain, [*DEVICES, *tables])}")
    return DEVICES[known]


def _hint(plain: str, known: list[str]) -> str:
    variants = [name for name in known if name.startswith(f"{plain}-")]
    return f"; choose {' or '.join(variants)}" if variants else did_you_mean(plain, known)


def _plain(name: str) -> str:
    words = re.sub(r"[\s_]+", "-", _VENDORS.sub(" ", name.lower()).strip())
    return re.sub(r"(?<=\d)gi?b\b", "g", words)


def _table_device(name: str, table: Mapping[str, Any]) -> DeviceSpec:
    if not isinstance(table, Mapping):
        raise DeviceError(f"device {name!r}: expected a table, got {type(table).__name__}")
    for key in table:
        if key not in KEYS:
            raise DeviceError(f"device {name!r}: unknown key {key!r}{did_you_mean(key, KEYS)}")
    if "memory_bytes" not in table:
        raise DeviceError(f"device {name!r}: memory_bytes is missing ({KEYS['memory_bytes']})")
    source = table.get("source", f"[devices.{name}]")
    if not isinstance(source, str):
        raise DeviceError(f"device {name!r}: source must be a string, got {source!r}")
    bandwidth, flops, fp8_flops = (_rate(name, key, table.get(key, 0)) for key in _RATES)
    return DeviceSpec(
        name=name,
        memory_bytes=_memory(name, table["memory_bytes"]),
        bandwidth_bytes_per_s=bandwidth,
        flops_per_s=flops,
        fp8_flops_per_s=fp8_flops,
        source=source,
    )


def _memory(name: str, value: object) -> int:
    try:
        size = parse_bytes(value)  # type: ignore[arg-type]
    except QuantityError as error:
        raise DeviceError(f"device {name!r}: memory_bytes: {error}") from None
    if not 0 < size <= _LARGEST_BYTES:
        raise DeviceError(
            f"device {name!r}: memory_bytes must be between 1 and 2^50 bytes, got {size}"
        )
    return size


def _rate(name: str, key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e21:
        raise DeviceError(f"device {name!r}: {key} must be {KEYS[key]} from 0 up, got {value!r}")
    return round(value)
