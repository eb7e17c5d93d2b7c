"""``[devices.NAME]`` tables: every mistake with its own line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvbench.device.catalog import KEYS
from kvbench.suite.problems import INVALID, Problems
from kvbench.suite.types import Field, Number, Record, Size, Text, Type

_TYPES: Mapping[str, Type] = {"memory_bytes": Size(), "source": Text()}

#: What a table may hold.
DEVICE = Record(
    help="A device that is not in the catalog (see kvbench gpus).",
    fields={
        name: Field(
            type=_TYPES.get(name, Number(minimum=0)),
            help=meaning,
            required=name == "memory_bytes",
        )
        for name, meaning in KEYS.items()
    },
)


def check_device_tables(tables: Mapping[str, Any], problems: Problems) -> frozenset[str]:
    """Note unknown, missing and wrong keys of all tables.

    Returns:
        Names of the tables that cannot be used.
    """
    return frozenset(name for name, table in tables.items() if not _is_right(name, table, problems))


def _is_right(name: str, table: Mapping[str, Any], problems: Problems) -> bool:
    parsed = DEVICE.parse(table, ("devices", name), problems)
    return parsed is not INVALID and len(parsed) == len(table) and "memory_bytes" in parsed
