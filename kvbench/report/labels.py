"""Names of series and axes, from the columns in which rows differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from kvbench.report.evidence import tag
from kvbench.report.frames import axis_role
from kvbench.report.quantities import plain_number
from kvbench.report.rows import rows_of
from kvbench.results.schema import PARAM_PREFIX

_AXIS_NAMES = {
    "context": "context, tokens per request",
    "requests": "concurrent requests",
    "block_size": "block size, tokens",
    "tp": "tensor-parallel ranks",
}

#: Axes whose values need no name in front of them.
_SELF_EXPLAINING = {"model", "device", "workload", "engine", "kv_dtype", "policy", "layout"}


def axis_name(axis: str) -> str:
    """Axis title of an axis by its role, else the axis' own name in words."""
    return _AXIS_NAMES.get(axis_role(axis), in_plain_words(axis))


def in_plain_words(name: str) -> str:
    """Return a metric or axis name in words: no underscores, no ``ratio``, ``count`` or ``s``."""
    words = name.replace("-", "_").split("_")
    is_unit = words[-1] in {"ratio", "count", "s"} and words[-2:-1] != ["per"]
    return " ".join(words[:-1] if len(words) > 1 and is_unit else words)


def point_name(values: Mapping[str, Any]) -> str:
    """Return one point of the matrix in words (``gqa8, context_tokens 4,096``)."""
    parts = [_part(axis, value) for axis, value in values.items() if not missing(value)]
    return ", ".join(parts)


def with_series(frame: pd.DataFrame, without: Collection[str]) -> pd.DataFrame:
    """Add the column ``series``: what tells a row from the others, ``without`` some axes.

    Kind of evidence is part of the name as soon as the frame holds more than one.
    """
    axes = [axis for axis in differing_axes(frame) if axis not in without]
    kinds = frame["evidence"].nunique() > 1
    engines = frame["engine"].nunique() > 1
    columns = [*(PARAM_PREFIX + axis for axis in axes), "engine", "evidence"]
    # Named once for each combination: a long frame has few of them.
    place = frame.groupby(columns, sort=False, dropna=False).ngroup().to_numpy()
    names = []
    for row in rows_of(frame[columns].drop_duplicates()):
        parts = [_part(axis, row[PARAM_PREFIX + axis]) for axis in axes]
        parts += [str(row["engine"])] * engines
        name = ", ".join(filter(None, parts)) + f" {tag(row['evidence'])}" * kinds
        names.append(name.strip() or str(frame["engine"].iloc[0]))
    return frame.assign(series=[names[each] for each in place])


def differing_axes(frame: pd.DataFrame) -> list[str]:
    """Axes (without ``param_``) of which the rows of ``frame`` have several values."""
    columns = [name for name in frame.columns if name.startswith(PARAM_PREFIX)]
    return [name[len(PARAM_PREFIX) :] for name in columns if frame[name].nunique(dropna=False) > 1]


def missing(value: Any) -> bool:
    """Whether a cell of a frame says nothing."""
    return value is None or (isinstance(value, float) and value != value) or value is pd.NA


def value_text(value: Any) -> str:
    """Return an axis value as the suite wrote it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return plain_number(float(value))


def _part(axis: str, value: Any) -> str:
    if missing(value):
        return ""
    if axis in _SELF_EXPLAINING:
        return value_text(value)
    mark = ":" if isinstance(value, bool) else ""
    return f"{axis.replace('_', ' ')}{mark} {value_text(value)}"
