"""``exclude`` and ``include`` tables: points taken out of a benchmark, and points added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kvbench.engine import Scalar
from kvbench.names import did_you_mean
from kvbench.suite.conditions import check_conditions
from kvbench.suite.expand import ENGINE, Axes, Point, holds, kept_points, product_points
from kvbench.suite.lines import KeyPath
from kvbench.suite.problems import Problems, shown
from kvbench.suite.spec import Benchmark, Condition, Exclude
from kvbench.suite.types import identity

#: Checks the values of a table of options at a place in the file.
Values = Callable[[Mapping[str, Scalar], KeyPath], dict[str, Scalar]]


def read_excludes(
    tables: Sequence[Mapping[str, Any]], benchmark: Benchmark, key: KeyPath, problems: Problems
) -> tuple[Exclude, ...]:
    """Return the excludes that match something; the others are noted."""
    axes: Axes = {**_axes(benchmark), ENGINE: benchmark.engines}
    points = product_points(benchmark.matrix, benchmark.zip) if tables else []
    found = []
    for index, table in enumerate(tables):
        conditions: Mapping[str, Condition] = table["conditions"]
        where: KeyPath = (*key, "exclude", index)
        if not check_conditions(conditions, axes, where, problems):
            continue
        exclude = Exclude(conditions=tuple(conditions.values()), reason=table["reason"])
        found.append(exclude)
        if not _matches_any(exclude, benchmark.engines, points):
            problems.add(where, "matches no point; remove it or correct its conditions")
    return tuple(found)


def read_includes(
    tables: Sequence[Mapping[str, Scalar]],
    benchmark: Benchmark,
    values: Values,
    key: KeyPath,
    problems: Problems,
) -> tuple[Point, ...]:
    """Return the points that name every axis with a right value; the others are noted."""
    axes = _axes(benchmark)
    found = []
    for index, table in enumerate(tables):
        where: KeyPath = (*key, "include", index)
        if _names_every_axis(table, axes, where, problems):
            right = values(table, where)
            if right.keys() == axes.keys():
                found.append({name: right[name] for name in axes})
    return tuple(found)


def has_points(benchmark: Benchmark, key: KeyPath, problems: Problems) -> bool:
    """Whether any cell is left; that none is, and includes that are there already, is noted."""
    points = product_points(benchmark.matrix, benchmark.zip)
    seen = {
        _identity(point)
        for engine in benchmark.engines
        for point in kept_points(engine, points, benchmark.exclude)
    }
    if not seen and not benchmark.include:
        problems.add(key, "has no cell left: its excludes take every point")
    for index, point in enumerate(benchmark.include):
        if _identity(point) in seen:
            listed = ", ".join(f"{name} = {shown(value)}" for name, value in point.items())
            problems.add((*key, "include", index), f"is in the plan already: {listed}")
        seen.add(_identity(point))
    return bool(seen)


def _axes(benchmark: Benchmark) -> Axes:
    return {**benchmark.matrix, **benchmark.zip}


def _identity(point: Point) -> tuple[tuple[str, object], ...]:
    return tuple(map(identity, point.values()))


def _names_every_axis(
    table: Mapping[str, Scalar], axes: Axes, key: KeyPath, problems: Problems
) -> bool:
    for name in table:
        if name not in axes:
            hint = did_you_mean(name, axes)
            problems.add((*key, name), f"is no axis of this benchmark{hint}")
    missing = [name for name in axes if name not in table]
    if missing:
        listed = ", ".join(missing)
        problems.add(key, f"expected a value for every axis; missing: {listed}")
    return table.keys() == axes.keys()


def _matches_any(exclude: Exclude, engines: Sequence[str], points: Sequence[Point]) -> bool:
    if all(condition.axis != ENGINE for condition in exclude.conditions):
        engines = engines[:1]
    return any(holds(exclude.conditions, engine, point) for engine in engines for point in points)
