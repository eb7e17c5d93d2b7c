"""Conditions of ``exclude``, ``where`` and ``relative_to``, checked against the axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvbench.engine import Scalar
from kvbench.names import did_you_mean
from kvbench.suite.axis import kind_of
from kvbench.suite.expand import ENGINE, Axes
from kvbench.suite.lines import KeyPath
from kvbench.suite.problems import Problems, shown
from kvbench.suite.spec import Benchmark, Condition
from kvbench.suite.types import identity

_SHOWN_VALUES = 12


def values_of(benchmark: Benchmark) -> dict[str, tuple[Scalar, ...]]:
    """Every value that each axis takes, ``include`` and ``engine`` among them."""
    axes: dict[str, tuple[Scalar, ...]] = {**benchmark.matrix, **benchmark.zip}
    for point in benchmark.include:
        axes = {name: (*values, point[name]) for name, values in axes.items()}
    return {**axes, ENGINE: benchmark.engines}


def check_conditions(
    conditions: Mapping[str, Condition], axes: Axes, key: KeyPath, problems: Problems
) -> bool:
    """Note conditions on unknown axes and values; return whether all are right."""
    right = [
        check_condition(item, axes, (*key, name), problems) for name, item in conditions.items()
    ]
    return all(right)


def check_condition(condition: Condition, axes: Axes, key: KeyPath, problems: Problems) -> bool:
    """Note a condition that no point could satisfy; return whether it is right."""
    values = axes.get(condition.axis)
    if values is None:
        message = f"is no axis of this benchmark{did_you_mean(condition.axis, axes)}"
        problems.add(key, message)
        return False
    if condition.equals is not None:
        return check_value(condition.equals, condition.axis, values, key, problems)
    if condition.one_of:
        right = [
            check_value(value, condition.axis, values, (*key, index), problems)
            for index, value in enumerate(condition.one_of)
        ]
        return all(right)
    if kind_of(values[0]) != "number":
        problems.add(key, f"has bounds, but {condition.axis!r} is an axis of {kind_of(values[0])}s")
        return False
    return True


def check_value(
    value: Scalar, axis: str, values: Iterable[Scalar], key: KeyPath, problems: Problems
) -> bool:
    """Note a value that the axis does not take; return whether it does."""
    known = list(dict.fromkeys(values))
    if identity(value) in map(identity, known):
        return True
    near = did_you_mean(str(value), map(str, known)) if isinstance(value, str) else ""
    listed = ", ".join(shown(item) for item in known[:_SHOWN_VALUES])
    more = ", …" if len(known) > _SHOWN_VALUES else ""
    hint = near if "did you mean" in near else f"; it has {listed}{more}"
    problems.add(key, f"axis {axis!r} has no value {shown(value)}{hint}")
    return False
