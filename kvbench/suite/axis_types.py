"""The type of each axis: it is one column of the results, whatever benchmark it is in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kvbench.engine import Scalar
from kvbench.suite.axis import kind_of
from kvbench.suite.conditions import values_of
from kvbench.suite.expand import ENGINE
from kvbench.suite.lines import KeyPath
from kvbench.suite.problems import Invalid, Problems
from kvbench.suite.spec import Benchmark


def axis_types(benchmarks: Iterable[Benchmark]) -> dict[str, str]:
    """``int``, ``float``, ``bool`` or ``str`` for every axis of the benchmarks."""
    values: dict[str, list[Scalar]] = {}
    for benchmark in benchmarks:
        for name, items in _axes(benchmark).items():
            values.setdefault(name, []).extend(items)
    return {name: _type_of(items) for name, items in values.items()}


def check_axis_types(benchmarks: Sequence[Benchmark | Invalid], problems: Problems) -> None:
    """Note an axis that holds strings in one benchmark and numbers in another."""
    first: dict[str, tuple[str, int]] = {}
    for index, benchmark in enumerate(benchmarks):
        if isinstance(benchmark, Invalid):
            continue
        for name, values in _axes(benchmark).items():
            kind, line = first.setdefault(
                name, (kind_of(values[0]), problems.line(_key(benchmark, index, name)))
            )
            if kind != kind_of(values[0]):
                message = (
                    f"is an axis of {kind_of(values[0])}s here and of {kind}s on line {line}; "
                    "an axis has values of one type"
                )
                problems.add(_key(benchmark, index, name), message)


def _axes(benchmark: Benchmark) -> Mapping[str, tuple[Scalar, ...]]:
    return {name: values for name, values in values_of(benchmark).items() if name != ENGINE}


def _key(benchmark: Benchmark, index: int, axis: str) -> KeyPath:
    return ("benchmark", index, "matrix" if axis in benchmark.matrix else "zip", axis)


def _type_of(values: Sequence[Scalar]) -> str:
    if isinstance(values[0], bool):
        return "bool"
    if isinstance(values[0], str):
        return "str"
    return "float" if any(isinstance(value, float) for value in values) else "int"
