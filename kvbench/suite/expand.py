"""From a benchmark's axes to its points, in a fixed order.

1. *product*: every combination of the ``matrix``, the last axis changing fastest;
2. *zip*: each of them with every position of the ``zip``;
3. *exclude*: minus the points (of some or all engines) that an ``exclude`` matches;
4. *include*: plus the ``include`` points, in the order of the file.

Cells are listed engine by engine. The fifth stage, *fit*, is ``kvbench.plan.fit``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from kvbench.engine import Scalar
from kvbench.suite.spec import Benchmark, Condition, Exclude

Point: TypeAlias = Mapping[str, Scalar]
Axes: TypeAlias = Mapping[str, tuple[Scalar, ...]]

#: Condition that an ``exclude`` or ``where`` may state beside the axes.
ENGINE = "engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """Cells of one benchmark and how many there were after each stage (points times engines)."""

    product: int
    zipped: int
    excluded: int
    included: int
    cells: tuple[tuple[str, Point], ...]


def size_of(matrix: Axes, zipped: Axes) -> int:
    """Points of the product and the zip, without making them."""
    positions = len(next(iter(zipped.values()))) if zipped else 1
    return prod(len(values) for values in matrix.values()) * positions


def product_points(matrix: Axes, zipped: Axes) -> list[Point]:
    """Points after the stages product and zip."""
    names = (*matrix, *zipped)
    positions = list(zip(*zipped.values(), strict=True)) if zipped else [()]
    return [
        dict(zip(names, (*combination, *position), strict=True))
        for combination in itertools.product(*matrix.values())
        for position in positions
    ]


def holds(conditions: Iterable[Condition], engine: str, point: Point) -> bool:
    """Whether all conditions hold for a cell."""
    return all(
        condition.matches(engine if condition.axis == ENGINE else point[condition.axis])
        for condition in conditions
    )


def kept_points(engine: str, points: Iterable[Point], excludes: Sequence[Exclude]) -> list[Point]:
    """Points that no exclude takes away from ``engine``."""
    return [
        point
        for point in points
        if not any(holds(exclude.conditions, engine, point) for exclude in excludes)
    ]


def expand(benchmark: Benchmark) -> Expansion:
    """Make the cells of a loaded benchmark as (engine, point)."""
    points = product_points(benchmark.matrix, benchmark.zip)
    kept = {engine: kept_points(engine, points, benchmark.exclude) for engine in benchmark.engines}
    cells = tuple(
        (engine, point)
        for engine in benchmark.engines
        for point in (*kept[engine], *benchmark.include)
    )
    engines = len(benchmark.engines)
    return Expansion(
        product=size_of(benchmark.matrix, {}) * engines,
        zipped=len(points) * engines,
        excluded=sum(map(len, kept.values())),
        included=len(cells),
        cells=cells,
    )
