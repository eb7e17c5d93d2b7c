"""Figures that are not known to the byte: low, expected and high, with where they come from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A size in bytes with its interval.

    Attributes:
        low: Lower end.
        expected: What is most likely.
        high: Upper end.
    """

    low: int
    expected: int
    high: int

    def __post_init__(self) -> None:
        if not self.low <= self.expected <= self.high:
            raise ValueError(f"not in order: {self.low}, {self.expected}, {self.high}")

    @classmethod
    def exactly(cls, size: int) -> Estimate:
        """A size without doubt."""
        return cls(low=size, expected=size, high=size)

    @classmethod
    def around(cls, expected: float, below: float, above: float) -> Estimate:
        """``expected`` with its deviations, never below zero."""
        middle = max(0, round(expected))
        low = max(0, round(middle - below))
        return cls(low=min(low, middle), expected=middle, high=round(middle + above))

    @property
    def spread(self) -> int:
        """Width of the interval."""
        return self.high - self.low


def minus(total: Estimate, parts: Iterable[Estimate]) -> Estimate:
    """``total`` less every part; independent deviations are added in quadrature.

    The result may be negative: what is asked for does not fit.
    """
    parts = tuple(parts)
    expected = total.expected - sum(part.expected for part in parts)
    below = [total.expected - total.low, *(part.high - part.expected for part in parts)]
    above = [total.high - total.expected, *(part.expected - part.low for part in parts)]
    return Estimate(
        low=expected - round(math.hypot(*below)),
        expected=expected,
        high=expected + round(math.hypot(*above)),
    )
