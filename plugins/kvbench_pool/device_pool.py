"""The pool that a device leaves for the cache, when a cell states neither blocks nor bytes."""

from __future__ import annotations

from dataclasses import dataclass

from kvbench.device.budget import make_budget
from kvbench.device.conditions import Conditions, step_defaults
from kvbench.engine import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePool:
    """Bytes for the pool on one rank, as the analytic engine expects them too.

    Attributes:
        budget_bytes: The expected budget, never negative.
        assumption: Where it comes from, one sentence.
    """

    budget_bytes: int
    assumption: str


def device_pool(cell: Cell) -> DevicePool | None:
    """Return what the cell's device leaves for the cache, ``None`` without device or model.

    The engine's default number of seats counts, not the cell's ``max_num_seqs``: a sweep over
    seats is a sweep over one pool.

    Raises:
        DeviceError: Settings that no engine can have.
        ModelError: The model's weights are unknown.
    """
    if cell.device is None or cell.model is None:
        return None
    step = int(cell.settings["max_num_batched_tokens"])
    conditions = Conditions(
        device=cell.device,
        utilization=float(cell.settings["utilization"]),
        tp=int(cell.settings["tp"]),
        pp=int(cell.settings["pp"]),
        tokens=step,
        sequences=min(step_defaults(cell.device)[1], step),
    )
    left = max(0, make_budget(cell.model, conditions).kv_bytes.expected)
    return DevicePool(
        budget_bytes=left,
        assumption=f"The pool is what {cell.device.name} is expected to leave for the cache of "
        f"{cell.model.name}: {left:,} bytes a rank; the simulation knows no interval of it.",
    )
