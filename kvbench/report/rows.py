"""Rows and groups of data frames as plain Python values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd


class Row(dict[str, Any]):
    """One row of a frame; its columns are attributes."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def rows_of(frame: pd.DataFrame) -> list[Row]:
    """Return the rows of ``frame`` in order."""
    names = [str(name) for name in frame.columns]
    columns = [frame.iloc[:, place].tolist() for place in range(len(names))]
    return [Row(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def groups_of(frame: pd.DataFrame, *names: str) -> Iterator[tuple[Any, pd.DataFrame]]:
    """Yield the groups of ``frame`` in order of appearance.

    Args:
        frame: Any frame.
        names: Columns to group by.

    Yields:
        The value of the one column, or the tuple of values of several, and the group's rows.
    """
    for key, part in frame.groupby(list(names), sort=False, dropna=False):
        yield (key[0] if len(names) == 1 else key), part


def extremes(frame: pd.DataFrame) -> tuple[Row, Row]:
    """Return the first rows with the smallest and the largest ``value``."""
    values = frame["value"].to_numpy()
    low, high = int(values.argmin()), int(values.argmax())
    picked = rows_of(frame.iloc[[low, high]])
    return picked[0], picked[1]
