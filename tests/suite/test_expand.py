"""Expansion: product, zip, exclude, include, in this order."""

from __future__ import annotations

import dataclasses
from math import prod
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kvbench.engine import Stage
from kvbench.suite.expand import Expansion, Point, expand, holds, size_of
from kvbench.suite.spec import Benchmark, Condition, Exclude, Protocol

from .toy_suites import GOOD, load


def benchmark(**changes: object) -> Benchmark:
    plain = Benchmark(
        name="b",
        stage=Stage.SIZE,
        engines=("x",),
        options={},
        matrix={},
        zip={},
        exclude=(),
        include=(),
        protocol=Protocol(),
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def test_the_last_axis_and_then_the_zip_change_fastest() -> None:
    expansion = expand(
        benchmark(matrix={"a": (1, 2), "b": ("u", "v")}, zip={"c": (10, 20), "d": (True, False)})
    )
    assert [tuple(point.values()) for _, point in expansion.cells] == [
        (1, "u", 10, True),
        (1, "u", 20, False),
        (1, "v", 10, True),
        (1, "v", 20, False),
        (2, "u", 10, True),
        (2, "u", 20, False),
        (2, "v", 10, True),
        (2, "v", 20, False),
    ]
    assert list(expansion.cells[0][1]) == ["a", "b", "c", "d"]


def test_cells_come_engine_by_engine_with_included_points_last() -> None:
    expansion = expand(benchmark(engines=("x", "y"), matrix={"a": (1, 2)}, include=({"a": 9},)))
    assert [(engine, point["a"]) for engine, point in expansion.cells] == [
        ("x", 1),
        ("x", 2),
        ("x", 9),
        ("y", 1),
        ("y", 2),
        ("y", 9),
    ]


def test_counts_after_each_stage_are_points_times_engines() -> None:
    exclude = Exclude(
        conditions=(Condition(axis="engine", equals="y"), Condition(axis="a", ge=2)), reason="r"
    )
    expansion = expand(
        benchmark(
            engines=("x", "y"),
            matrix={"a": (1, 2, 3)},
            zip={"b": (1, 2)},
            exclude=(exclude,),
            include=({"a": 7, "b": 7},),
        )
    )
    counts = (expansion.product, expansion.zipped, expansion.excluded, expansion.included)
    assert counts == (6, 12, 8, 10)


def test_a_benchmark_without_axes_is_one_point() -> None:
    assert expand(benchmark()).cells == (("x", {}),)


def test_the_suite_of_the_tests(tmp_path: Path) -> None:
    expansion = expand(load(tmp_path, GOOD).benchmarks[0])
    assert (expansion.product, expansion.zipped, expansion.excluded, expansion.included) == (
        6,
        12,
        10,
        11,
    )


def test_conditions() -> None:
    point: Point = {"a": 4, "b": "u", "c": True}
    right = (
        Condition(axis="a", equals=4),
        Condition(axis="a", one_of=(1, 4)),
        Condition(axis="a", ge=4, lt=5),
        Condition(axis="b", equals="u"),
        Condition(axis="engine", equals="x"),
    )
    wrong = (
        Condition(axis="a", gt=4),
        Condition(axis="a", le=3),
        Condition(axis="b", one_of=("v",)),
        Condition(axis="b", ge=0),
        Condition(axis="c", ge=0),
        Condition(axis="engine", equals="y"),
    )
    assert holds(right, "x", point)
    assert not any(holds((condition,), "x", point) for condition in wrong)


AXES = st.dictionaries(
    st.sampled_from("abc"),
    st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True).map(tuple),
    max_size=3,
)


@st.composite
def benchmarks(draw: st.DrawFn) -> Benchmark:
    length = draw(st.integers(1, 3))
    values = st.lists(st.integers(0, 9), min_size=length, max_size=length, unique=True).map(tuple)
    matrix = draw(AXES)
    zipped = draw(st.dictionaries(st.sampled_from("de"), values, max_size=2))
    axes = [*matrix, *zipped, "engine"]
    conditions = st.builds(Condition, axis=st.sampled_from(axes[:-1] or axes), ge=st.integers(0, 9))
    excludes = st.lists(
        st.builds(Exclude, conditions=st.tuples(conditions), reason=st.just("r")), max_size=2
    )
    return benchmark(
        engines=draw(st.sampled_from([("x",), ("x", "y")])),
        matrix=matrix,
        zip=zipped,
        exclude=tuple(draw(excludes)) if len(axes) > 1 else (),
        include=tuple(dict.fromkeys(axes[:-1], 100 + i) for i in range(draw(st.integers(0, 2))))
        if len(axes) > 1
        else (),
    )


@given(benchmarks())
@settings(deadline=None)
def test_expansion_is_the_product_minus_excluded_plus_included(case: Benchmark) -> None:
    expansion = expand(case)
    engines = len(case.engines)
    lengths = [len(values) for values in case.matrix.values()]
    positions = len(next(iter(case.zip.values()), (0,)))
    assert expansion.product == prod(lengths) * engines
    assert expansion.zipped == expansion.product * positions
    assert expansion.zipped == size_of(case.matrix, case.zip) * engines
    assert expansion.included == expansion.excluded + len(case.include) * engines
    assert expansion.included == len(expansion.cells)
    keys = [(engine, *point.items()) for engine, point in expansion.cells]
    assert len(set(keys)) == len(keys)
    _check_excluded(case, expansion)


def _check_excluded(case: Benchmark, expansion: Expansion) -> None:
    without = expand(dataclasses.replace(case, exclude=(), include=()))
    gone = [
        cell
        for cell in without.cells
        if any(holds(exclude.conditions, *cell) for exclude in case.exclude)
    ]
    assert len(gone) == expansion.zipped - expansion.excluded
    assert not any(cell in expansion.cells for cell in gone)
    kept = [cell for cell in without.cells if cell not in gone]
    assert [cell for cell in expansion.cells if cell[1] not in case.include] == kept
