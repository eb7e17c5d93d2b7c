"""The cache's budget of a cell: stated in bytes, or what a device leaves."""

from __future__ import annotations

from dataclasses import dataclass

from kvbench.engine import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Bytes for the cache on one rank, with the interval of what is uncertain.

    Attributes:
        low_bytes: Every uncertain term at its worst.
        expected_bytes: Every term at its expected value.
        high_bytes: Every uncertain term at its best.
        assumptions: One sentence per term.
    """

    low_bytes: int
    expected_bytes: int
    high_bytes: int
    assumptions: tuple[str, ...] = ()


def cell_budget(cell: Cell) -> Budget | None:
    """Return the cell's budget, ``None`` when neither bytes nor a device are given."""
    stated = cell.settings.get("budget_bytes")
    if stated is not None:
        return Budget(low_bytes=int(stated), expected_bytes=int(stated), high_bytes=int(stated))
    return None
