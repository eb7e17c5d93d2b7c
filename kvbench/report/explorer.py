"""Data of the explorer: every geometry that the cells of a run embed, with its defaults."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd

from kvbench.report.frames import RunFrames
from kvbench.report.geometry import ARTIFACT
from kvbench.report.labels import missing

_DEFAULTS: dict[str, Any] = {"context": 4096, "requests": 1, "block_size": 16, "tp": 1}


def explorer_data(run: RunFrames) -> dict[str, Any] | None:
    """Return what the page's explorer needs, ``None`` when no cell embeds a geometry."""
    geometries = list(_geometries(run))
    if not geometries:
        return None
    kept = ("model", "dtype", "weight_bytes", "max_context_tokens", "caches")
    models = {item["model"]: {key: item[key] for key in kept} for item in geometries}
    devices = {item["device"]["name"]: item["device"] for item in geometries if item["device"]}
    return {
        "models": list(models.values()),
        "kv_dtypes": geometries[0]["kv_dtypes"],
        "devices": [devices[name] for name in sorted(devices)],
        "budgets": _budgets(run),
        "defaults": _defaults(run.cells, next(iter(models)), geometries[0]["kv_dtypes"]),
    }


def _geometries(run: RunFrames) -> Iterable[dict[str, Any]]:
    packed = dict.fromkeys(run.results.cells["artifacts_json"].to_pylist())
    texts = dict.fromkeys(
        json.loads(artifacts)[ARTIFACT] for artifacts in packed if f'"{ARTIFACT}"' in artifacts
    )
    for text in texts:
        geometry = json.loads(text)
        if geometry.get("schema") == 1:
            yield geometry


def _budgets(run: RunFrames) -> list[int]:
    """Cache budgets that the run itself used, largest first."""
    rows = run.values[run.values["metric"].isin(["kv_budget_bytes", "pool_bytes"])]
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
