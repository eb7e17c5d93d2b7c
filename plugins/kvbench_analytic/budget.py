"""The cache's budget of a cell: stated in bytes, or what a device leaves."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvbench.device.budget import make_budget
from kvbench.device.conditions import Conditions, step_defaults
from kvbench.device.estimate import Estimate
from kvbench.device.spec import DeviceSpec
from kvbench.engine import Cell
from kvbench.model.spec import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class CellBudget:
    """Bytes for the cache on one rank, with the interval of what is uncertain.

    Attributes:
        size: The cache's bytes, never negative.
        requested_bytes: Device bytes the engine may use, ``None`` without a device.
        terms: Expected bytes of what else it uses them for, by name.
        sequences: Requests that one step of the engine may schedule, 0 without a device.
        assumptions: One sentence per term.
    """

    size: Estimate
    requested_bytes: int | None = None
    terms: dict[str, int] = field(default_factory=dict)
    sequences: int = 0
    assumptions: tuple[str, ...] = ()


def cell_budget(cell: Cell) -> CellBudget | None:
    """Return the cell's budget, ``None`` when neither bytes nor a device are given.

    Raises:
        DeviceError: Settings that no engine can have.
        ModelError: A device's budget is asked for and the model's weights are unknown.
    """
    stated = cell.settings.get("budget_bytes")
    if stated is not None:
        return CellBudget(size=Estimate.exactly(int(stated)))
    if cell.device is None or cell.model is None:
        return None
    return device_budget(cell, cell.model, cell.device)


def device_budget(cell: Cell, model: ModelSpec, device: DeviceSpec) -> CellBudget:
    """Return what ``device`` leaves for the cache under the cell's settings.

    Raises:
        DeviceError: Settings that no engine can have.
        ModelError: The model's weights are unknown.
    """
    budget = make_budget(model, conditions_of(cell, device))
    left = budget.kv_bytes
    return CellBudget(
        size=Estimate(low=max(0, left.low), expected=max(0, left.expected), high=max(0, left.high)),
        requested_bytes=budget.requested.expected,
        terms={term.name: term.size.expected for term in budget.terms},
        sequences=budget.at.sequences,
        assumptions=(
            f"memory of {device.name}: {device.source}",
            *(f"{term.name}: {term.kind}; {term.provenance}" for term in budget.terms),
        ),
    )


def conditions_of(cell: Cell, device: DeviceSpec) -> Conditions:
    """Return what the cell's budget on ``device`` depends on."""
    tokens, sequences = step_defaults(device)
    step = int(cell.settings.get("max_num_batched_tokens", tokens))
    return Conditions(
        device=device,
        utilization=float(cell.settings["utilization"]),
        tp=int(cell.settings["tp"]),
        pp=int(cell.settings["pp"]),
        tokens=step,
        sequences=min(sequences, step),
    )
