"""What the report's explorer needs of a cell: its layout over a grid, its device's budgets.

It depends on the model, the layout's engine, the device and the settings of its budget, and not
on the cell's context, so that a run of many cells stores few different texts.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from kvbench.device.budget import make_budget
from kvbench.device.conditions import Conditions
from kvbench.device.estimate import Estimate
from kvbench.engine import Cell, Scalar
from kvbench.errors import ModelError
from kvbench.layout import RuledArrangement
from kvbench.model.spec import ModelSpec
from kvbench.report.arrangements import ARTIFACT, Choice, arrangements_json
from kvbench_analytic.arrange import arranged, engine_settings
from kvbench_analytic.budget import conditions_of

#: What the explorer offers beside the cell's own settings.
_DTYPES, _DEGREES = ("auto", "fp8_e4m3"), (1, 2, 4, 8)
_BLOCK_SIZES = (None, 16, 32, 64, 128)


def explorer_artifacts(cell: Cell, model: ModelSpec) -> dict[str, str]:
    """Return the artifact of a cell; none for pipeline stages, which the explorer has not."""
    settings = cell.settings
    if int(settings["pp"]) != 1:
        return {}
    block_size = settings.get("block_size")
    device = None if settings.get("budget_bytes") is not None else cell.device
    text = _artifact(
        model,
        str(settings["layout"]),
        engine_settings(cell),
        str(settings["kv_dtype"]),
        int(settings["tp"]),
        None if block_size is None else int(block_size),
        None if device is None else conditions_of(cell, device),
    )
    return {ARTIFACT: text} if text else {}


@lru_cache(maxsize=256)
def _artifact(
    model: ModelSpec,
    layout: str,
    engine: tuple[tuple[str, Scalar], ...],
    kv_dtype: str,
    tp: int,
    block_size: int | None,
    conditions: Conditions | None,
) -> str:
    degrees = sorted({*_DEGREES, tp})
    plans = _plans(
        model,
        layout,
        engine,
        tuple(dict.fromkeys([*_DTYPES, kv_dtype])),
        tuple(degrees),
        tuple(dict.fromkeys([*_BLOCK_SIZES, block_size])),
    )
    if not plans and conditions is None:
        return ""
    return arrangements_json(
        model=model.name,
        engine=dict(engine),
        plans=plans,
        conditions=conditions,
        budgets={} if conditions is None else _budgets(model, conditions, degrees),
    )


@lru_cache(maxsize=64)
def _plans(
    model: ModelSpec,
    layout: str,
    engine: tuple[tuple[str, Scalar], ...],
    dtypes: tuple[str, ...],
    degrees: tuple[int, ...],
    block_sizes: tuple[int | None, ...],
) -> dict[Choice, RuledArrangement | str]:
    """Every arrangement or the reason of its refusal; none for a layout without rules."""
    found: dict[Choice, RuledArrangement | str] = {}
    for choice in ((d, n, size) for d in dtypes for n in degrees for size in block_sizes):
        dtype, degree, block_size = choice
        try:
            plan = arranged(model, layout, block_size, dtype, degree, 1, engine)
        except ModelError as error:
            found[choice] = str(error)
            continue
        if not isinstance(plan, RuledArrangement):
            return {}
        found[choice] = plan
    return found


def _budgets(model: ModelSpec, at: Conditions, degrees: list[int]) -> dict[int, Estimate]:
    return {degree: make_budget(model, replace(at, tp=degree)).kv_bytes for degree in degrees}
