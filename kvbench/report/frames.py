"""Results as the data frames that verdicts, tables and figures are made of."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from kvbench.results.schema import PARAM_PREFIX

if TYPE_CHECKING:
    from kvbench.results import Results

#: What an axis or option is about: column of the frames -> names that engines use for it.
ROLES: dict[str, tuple[str, ...]] = {
    "model": ("model",),
    "context": ("tokens", "context", "context_tokens", "prompt_tokens", "max_model_len"),
    "requests": ("requests", "concurrency", "num_requests", "batch", "max_num_seqs"),
    "block_size": ("block_size", "page_size"),
    "kv_dtype": ("kv_dtype", "kv_cache_dtype"),
    "tp": ("tp", "tensor_parallel_size"),
    "pp": ("pp", "pipeline_parallel_size"),
    "device": ("device", "gpu"),
    "workload": ("workload", "trace"),
}

_POINT = ["cell_id", "metric", "evidence", "unit"]
_CELL_COLUMNS = ["cell_id", "ordinal", "benchmark", "stage", "engine", "plugin", "status"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunFrames:
    """One run as pandas frames.

    Attributes:
        results: The results they were made of.
        cells: One row per cell by ordinal: identity, ``param_*``, status, one column per role
            (``None`` where neither an axis nor an option nor the engine says).
        values: One row per cell, metric and kind of evidence, with the columns of ``cells`` and
            ``n`` (repeats), ``value`` (median over the repeats), ``low``, ``high``: the range
            over the repeats, or the bounds the engine stated as ``<metric>_low`` and ``_high``.
        curves: Samples of exact metrics that have several values in a repeat: not repetitions but
            the points of a curve. ``cell_id, metric, evidence, unit, sample, value``.
        series: Samples with a time offset: ``cell_id, metric, evidence, unit, repeat, t_s,
            value`` in order of time.
    """

    results: Results
    cells: pd.DataFrame
    values: pd.DataFrame
    curves: pd.DataFrame
    series: pd.DataFrame


def run_frames(results: Results) -> RunFrames:
    """Return the frames of ``results``; only measured samples of passed cells have values."""
    cells = _cells(results)
    samples = results.measured().to_pandas()
    timed = samples["t_offset_us"].notna()
    curved = ~timed & _is_curve(samples, results)
    return RunFrames(
        results=results,
        cells=cells,
        values=_values(samples[~timed & ~curved], cells),
        curves=samples[curved & (samples["repeat"] == 0)][[*_POINT, "sample", "value"]],
        series=_series(samples[timed]),
    )


def axis_role(axis: str) -> str:
    """Role of an axis by its name, the name itself when it has none."""
    return next((role for role, names in ROLES.items() if axis in names), axis)


def _cells(results: Results) -> pd.DataFrame:
    wanted = [
        *_CELL_COLUMNS,
        *(f"{PARAM_PREFIX}{axis}" for axis in results.axes),
        *("reason", "error", "engine_version", "wall_s"),
    ]
    frame: pd.DataFrame = results.cells.select(wanted).to_pandas()
    options = _options(results)
    for role, names in ROLES.items():
        frame[role] = [_first(option, names) for option in options]
    return frame.sort_values("ordinal", ignore_index=True)


def _options(results: Results) -> list[dict[str, Any]]:
    requested = results.cells["params_json"].to_pylist()
    effective = results.cells["effective_json"].to_pylist()
    return [
        {**json.loads(found or "{}"), **_stated(json.loads(asked))}
        for asked, found in zip(requested, effective, strict=True)
    ]


def _stated(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value not in (None, "", "auto")}


def _first(options: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((options[name] for name in names if options.get(name) is not None), None)


def _is_curve(samples: pd.DataFrame, results: Results) -> pd.Series:
    """Whether a row belongs to an exact metric with several values: it has no distribution."""
    exact = {key for key, metric in results.metadata.metrics.items() if metric.exact}
    keys = samples[["cell_id", "metric", "evidence"]]
    several = samples[samples["sample"] > 0].drop_duplicates(["cell_id", "metric", "evidence"])
    found = {
        row
        for row in several[["cell_id", "metric", "evidence"]].itertuples(index=False, name=None)
        if row[1:] in exact
    }
    if not found:
        return pd.Series(data=False, index=samples.index)
    return pd.Series(
        [row in found for row in keys.itertuples(index=False, name=None)], index=samples.index
    )


def _values(samples: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    repeats = samples.groupby([*_POINT, "repeat"], sort=False)["value"].median().reset_index()
    grouped = repeats.groupby(_POINT, sort=False)["value"]
    points = grouped.agg(n="size", value="median", low="min", high="max").reset_index()
    points = _with_stated_bounds(points)
    joined = points.merge(cells, on="cell_id", how="left", sort=False)
    return joined.sort_values(["ordinal", "metric", "evidence"], ignore_index=True)


def _with_stated_bounds(points: pd.DataFrame) -> pd.DataFrame:
    """Fold ``x_low`` and ``x_high`` (``x_low_bytes`` ...) into the bounds of ``x``."""
    known = set(points["metric"].unique())
    for end in ("low", "high"):
        names = {name: re.sub(rf"_{end}(?=_|$)", "", name) for name in known}
        base = points["metric"].map(names)
        bounds = points[(base != points["metric"]) & base.isin(known)]
        if bounds.empty:
            continue
        key = ["cell_id", "metric", "evidence"]
        stated = bounds.assign(metric=base)[[*key, "value"]].rename(columns={"value": "stated"})
        points = points.drop(index=bounds.index).merge(stated, on=key, how="left", sort=False)
        points[end] = points["stated"].fillna(points[end])
        points = points.drop(columns="stated")
    return points


def _series(samples: pd.DataFrame) -> pd.DataFrame:
    frame = samples.assign(t_s=samples["t_offset_us"].astype(np.float64) / 1e6)
    columns = [*_POINT, "repeat", "t_s", "value"]
    return frame.sort_values([*_POINT, "repeat", "t_s"], kind="stable")[columns].reset_index(
        drop=True
    )
