"""Bounded series keep peaks exact."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvbench_pool.series import BoundedSeries, Point


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 100)), min_size=1, max_size=300),
    st.sampled_from([2, 4, 16]),
)
def test_a_series_is_bounded_ordered_and_keeps_its_peak(
    gaps: list[tuple[int, int]], limit: int
) -> None:
    series, step, given_points = BoundedSeries(limit), 0, []
    for gap, value in gaps:
        step += gap
        series.add(step, value)
        given_points.append(Point(step, value))
    kept = series.points()
    assert 1 <= len(kept) <= limit
    assert set(kept) <= set(given_points)
    assert [point.step for point in kept] == sorted({point.step for point in kept})
    peak = max(given_points, key=lambda point: point.value).value
    first_peak = next(point for point in given_points if point.value == peak)
    assert any(point.value == peak for point in kept)
    assert min(point.step for point in kept if point.value == peak) >= first_peak.step


def test_a_short_series_is_kept_whole() -> None:
    series = BoundedSeries(4)
    for step in range(4):
        series.add(step, step * step)
    assert series.points() == (Point(0, 0), Point(1, 1), Point(2, 4), Point(3, 9))


def test_neighbours_merge_to_their_larger_value() -> None:
    series = BoundedSeries(2)
    for step, value in enumerate([5, 1, 2, 7, 3]):
        series.add(step, value)
    assert series.points() == (Point(3, 7), Point(4, 3))
