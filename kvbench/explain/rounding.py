"""Arithmetic with rounded figures: intervals, agreement, and the simplest fraction inside."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounded:
    """A figure as printed, good to half its last digit.

    Attributes:
        text: The digits as printed, separators removed.
    """

    text: str

    @property
    def value(self) -> float:
        """The figure."""
        return float(self.text)

    @property
    def half(self) -> float:
        """Half of the last digit's step: 0.005 for 5.38; 0 for a whole number."""
        _, point, digits = self.text.partition(".")
        return 0.5 * 10.0 ** -len(digits) if point else 0.0

    @property
    def low(self) -> float:
        """Least figure that is printed so."""
        return self.value - self.half

    @property
    def high(self) -> float:
        """Greatest figure that is printed so."""
        return self.value + self.half

    def holds(self, value: float, slack: float = 0.0) -> bool:
        """Whether ``value`` could be printed so, give or take ``slack`` (or cut, not rounded)."""
        return self.low - slack <= value <= self.high + self.half + slack


def simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """The fraction with the smallest denominator in ``[low, high)``, for 0 < low < high."""
    whole = -(-low.numerator // low.denominator)
    if whole < high:
        return Fraction(whole)
    floor = low.numerator // low.denominator
    rest_low, rest_high = low - floor, high - floor
    # Reciprocals swap the ends, and the open one with them: nudge to keep low inside.
    inner = _simplest_open(1 / rest_high, 1 / rest_low)
    return floor + 1 / inner


def _simplest_open(low: Fraction, high: Fraction) -> Fraction:
    """The same in ``(low, high]``."""
    whole = low.numerator // low.denominator + 1
    if whole <= high:
        return Fraction(whole)
    floor = low.numerator // low.denominator
    if low == floor:
        # (0, rest] after the floor: the simplest is 1/n just inside.
        step = 1 / (high - floor)
        return floor + Fraction(1, -(-step.numerator // step.denominator))
    return floor + 1 / simplest_between(1 / (high - floor), 1 / (low - floor))
