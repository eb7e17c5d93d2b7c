"""The statistics of a comparison: bootstrap interval of a ratio, exact rank test."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

#: Resamples behind an interval: its ends move by less than the noise of what is measured.
RESAMPLES = 2000

#: Values up to which the rank test counts every arrangement; beyond, it is normal enough.
EXACT_UP_TO = 50


def ratio_interval(
    base: Sequence[float], new: Sequence[float], *, seed: str, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Return the percentile bootstrap interval of ``median(new) / median(base)``.

    The two sides are resampled independently of each other. Equal input and seed give the same
    interval everywhere.

    Args:
        base: One value for each repeat.
        new: The same; the numbers of repeats may differ.
        seed: Names the stream of random numbers.
        confidence: Probability that the interval covers the true ratio.

    Returns:
        Both ends, or ``None`` when a resampled base median is 0.
    """
    digest = hashlib.sha256(f"bootstrap {seed}".encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    base_medians, new_medians = _medians(generator, base), _medians(generator, new)
    if not base_medians.all():
        return None
    tail = (1 - confidence) / 2
    low, high = np.quantile(new_medians / base_medians, [tail, 1 - tail])
    return float(low), float(high)


def rank_test(base: Sequence[float], new: Sequence[float]) -> float:
    """Return the two-sided p-value of the Mann-Whitney U test.

    Up to ``EXACT_UP_TO`` values in all, the distribution of the rank sum is counted over all
    arrangements, tied values included; beyond, it is approximated by a normal distribution
    with tie and continuity corrections (Mann and Whitney, 1947).

    Raises:
        ValueError: A side is empty.
    """
    if not base or not new:
        raise ValueError("both sides need at least one value")
    ranks = _doubled_ranks([*base, *new])
    observed = int(ranks[: len(base)].sum())
    expected = len(base) * (len(ranks) + 1)
    if len(ranks) <= EXACT_UP_TO:
        return _exact(ranks, len(base), abs(observed - expected), expected)
    return _normal(ranks, len(base), abs(observed - expected) / 2)


def _medians(generator: np.random.Generator, values: Sequence[float]) -> npt.NDArray[np.float64]:
    picks = generator.integers(len(values), size=(RESAMPLES, len(values)))
    return np.asarray(np.median(np.asarray(values, dtype=np.float64)[picks], axis=1))


def _doubled_ranks(values: Sequence[float]) -> npt.NDArray[np.int64]:
    """Twice the mid-ranks, which are whole numbers even for tied values."""
    array = np.asarray(values, dtype=np.float64)
    below = (array[:, None] > array[None, :]).sum(axis=1)
    equal = (array[:, None] == array[None, :]).sum(axis=1)
    return np.asarray(2 * below + equal + 1, dtype=np.int64)


def _exact(ranks: npt.NDArray[np.int64], size: int, distance: int, expected: int) -> float:
    # ways[k, s]: subsets of k of the ranks seen so far whose sum is s; below 2**53, so exact.
    ways = np.zeros((size + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    far = np.abs(np.arange(ways.shape[1]) - expected) >= distance
    return float(ways[size, far].sum() / ways[size].sum())


def _normal(ranks: npt.NDArray[np.int64], size: int, distance: float) -> float:
    count = len(ranks)
    _, tied = np.unique(ranks, return_counts=True)
    ties = float((tied**3 - tied).sum()) / (count * (count - 1))
    variance = size * (count - size) / 12 * (count + 1 - ties)
    if variance <= 0:
        return 1.0
    return math.erfc(max(0.0, distance - 0.5) / math.sqrt(2 * variance))
