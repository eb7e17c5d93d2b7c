"""Data of the explorer: every geometry, layout and budget that the cells of a run embed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd

from kvbench.report.arrangements import ARTIFACT as ARRANGEMENTS
from kvbench.report.frames import RunFrames
from kvbench.report.geometry import ARTIFACT as GEOMETRY
from kvbench.report.labels import missing

_DEFAULTS: dict[str, Any] = {"context": 4096, "requests": 1, "block_size": 16, "tp": 1}


def explorer_data(run: RunFrames) -> dict[str, Any] | None:
    """Return what the page's explorer needs, ``None`` when no cell embeds a geometry."""
    geometries, arrangements = _embedded(run, GEOMETRY), _embedded(run, ARRANGEMENTS)
    if not geometries:
        return None
    kept = ("model", "dtype", "weight_bytes", "max_context_tokens", "caches")
    models = {item["model"]: {key: item[key] for key in kept} for item in geometries}
    devices = {item["device"]["name"]: item["device"] for item in geometries if item["device"]}
    return {
        "models": list(models.values()),
        "kv_dtypes": geometries[0]["kv_dtypes"],
        "devices": [devices[name] for name in sorted(devices)],
        "layouts": _layouts(arrangements),
        "fitted": _fitted(arrangements),
        "budgets": _budgets(run),
        "defaults": _defaults(run.cells, next(iter(models)), geometries[0]["kv_dtypes"]),
    }


def _embedded(run: RunFrames, artifact: str) -> list[dict[str, Any]]:
    """Different JSON texts of one artifact over all cells, in order of appearance."""
    packed = dict.fromkeys(run.results.cells["artifacts_json"].to_pylist())
    texts = dict.fromkeys(
        json.loads(artifacts)[artifact] for artifacts in packed if f'"{artifact}"' in artifacts
    )
    return [value for value in map(json.loads, texts) if value.get("schema") == 1]


def _layouts(arrangements: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each model, layout and engine's options: plans by choice, grids united."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for item in arrangements:
        if not item["plans"]:
            continue
        stated = ", ".join(f"{name} = {value}" for name, value in sorted(item["engine"].items()))
        name = f"{item['layout']} ({stated})" if stated else item["layout"]
        entry = found.setdefault(
            (item["model"], name),
            {
                "model": item["model"],
                "name": name,
                "max_model_len": item["max_model_len"],
                "plans": {},
            },
        )
        for dtype, ranks, block_size, place in item["grid"]:
            key = f"{dtype}|{ranks}|{'' if block_size is None else block_size}"
            entry["plans"][key] = item["plans"][place]
    return list(found.values())


def _fitted(arrangements: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Budgets that the run expects of its devices, by model; equal ones once."""
    found: dict[str, dict[str, Any]] = {}
    for item in arrangements:
        if item["budget"]:
            budget = {"model": item["model"], **item["budget"]}
            settings = {name: value for name, value in budget.items() if name != "ranks"}
            first = found.setdefault(json.dumps(settings, sort_keys=True), budget)
            first["ranks"] = {**first["ranks"], **budget["ranks"]}
    return list(found.values())


def _budgets(run: RunFrames) -> list[int]:
    """Cache budgets that the run states without a device, largest first."""
    values = run.values[run.values["device"].isna()]
    rows = values[values["metric"].isin(["kv_budget_bytes", "pool_bytes"])]
    first = rows[rows["metric"] == "kv_budget_bytes"]
    chosen = rows if first.empty else first
    return sorted({int(value) for value in chosen["value"]}, reverse=True)[:12]


def _defaults(cells: pd.DataFrame, model: str, dtypes: dict[str, Any]) -> dict[str, Any]:
    found = dict(_DEFAULTS)
    for role in found:
        stated = [value for value in cells[role] if not missing(value)]
        if stated:
            found[role] = int(sorted(stated)[len(stated) // 2])
    kinds = [value for value in cells["kv_dtype"] if value in dtypes]
    return {**found, "model": model, "kv_dtype": kinds[0] if kinds else "auto"}
