"""The rank test and the bootstrap, against values worked out by hand or by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvbench.compare import stats
from kvbench.compare.stats import rank_test, ratio_interval

SIDES = st.lists(st.integers(0, 4).map(float), min_size=1, max_size=5)


def enumerated(base: Sequence[float], new: Sequence[float]) -> float:
    """The same p-value by trying every split of the values."""
    values = [*base, *new]

    def doubled_sum(chosen: Sequence[int]) -> int:
        ranks = [2 * sum(v > w for w in values) + values.count(v) + 1 for v in values]
        return sum(ranks[index] for index in chosen)

    expected = len(base) * (len(values) + 1)
    distance = abs(doubled_sum(range(len(base))) - expected)
    splits = list(itertools.combinations(range(len(values)), len(base)))
    far = sum(abs(doubled_sum(split) - expected) >= distance for split in splits)
    return far / len(splits)


@pytest.mark.parametrize(
    ("base", "new", "p_value"),
    [
        ([1], [2], 1.0),
        ([1, 2], [3, 4], 2 / 6),
        ([1, 2, 3], [4, 5, 6], 2 / 20),
        ([1, 2, 3, 4], [5, 6, 7, 8], 2 / 70),
        ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], 2 / 252),
        ([1, 4], [2, 3], 1.0),
        ([5, 5, 5], [5, 5, 5], 1.0),
    ],
)
def test_rank_test_by_hand(base: list[float], new: list[float], p_value: float) -> None:
    assert rank_test(base, new) == pytest.approx(p_value, rel=1e-12)


@given(SIDES, SIDES)
def test_rank_test_equals_enumeration(base: list[float], new: list[float]) -> None:
    assert rank_test(base, new) == pytest.approx(enumerated(base, new), rel=1e-12)


@given(SIDES, SIDES)
def test_rank_test_is_symmetric(base: list[float], new: list[float]) -> None:
    assert rank_test(base, new) == pytest.approx(rank_test(new, base), rel=1e-12)


def test_the_approximation_meets_the_exact_test(monkeypatch: pytest.MonkeyPatch) -> None:
    base, new = [float(n) for n in range(24)], [n + 5.3 for n in range(24)]
    exact = rank_test(base, new)
    monkeypatch.setattr(stats, "EXACT_UP_TO", 0)
    assert rank_test(base, new) == pytest.approx(exact, abs=0.002)


def test_the_approximation_knows_ties() -> None:
    assert rank_test([1.0] * 40, [1.0] * 40) == 1.0
    # U = 0 of 30 x 30, tie-free: z = (450 - 0.5) / sqrt(30 * 30 * 61 / 12).
    far = rank_test([float(n) for n in range(30)], [float(n) for n in range(30, 60)])
    assert far == pytest.approx(math.erfc(449.5 / math.sqrt(900 * 61 / 12) / math.sqrt(2)))


def test_rank_test_needs_values() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        rank_test([], [1.0])


def test_the_interval_holds_the_ratio_and_is_reproducible() -> None:
    base, new = [10.0, 11.0, 12.0, 11.5, 10.5], [20.0, 22.0, 24.0, 23.0, 21.0]
    low, high = ratio_interval(base, new, seed="a") or (0.0, 0.0)
    assert low < 2.0 < high
    assert (low, high) == ratio_interval(base, new, seed="a")
    assert low >= 20 / 12
    assert high <= 24 / 10


def test_the_interval_of_constants_is_a_point() -> None:
    assert ratio_interval([2.0, 2.0], [3.0, 3.0, 3.0], seed="a") == (1.5, 1.5)


def test_no_interval_over_zero() -> None:
    assert ratio_interval([0.0, 0.0], [1.0, 1.0], seed="a") is None
