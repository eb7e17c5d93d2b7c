"""One metric of two cells: better, worse, same or inconclusive."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from kvbench.compare.stats import rank_test, ratio_interval
from kvbench.engine import Direction
from kvbench.results.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When a difference counts.

    Attributes:
        alpha: Significance level of the rank test.
        margin: Relative difference that nobody cares about: an interval of the ratio that lies
            inside ``1 ± margin`` makes two cells the same.
        min_effect: Difference of medians, in the metric's unit, below which all is noise.
    """

    alpha: float = 0.05
    margin: float = 0.02
    min_effect: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Medians, uncertainty and verdict; attributes as in ``PairVerdict``."""

    base_median: float
    new_median: float
    verdict: Verdict
    reason: str
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p_value: float | None = None


def judge(
    base: Sequence[float],
    new: Sequence[float],
    *,
    direction: Direction,
    exact: bool,
    rules: Rules,
    seed: str,
) -> Judgement:
    """Compare two cells by one metric.

    Values that are exact (arithmetic, a deterministic simulation) are compared as they are.
    Others need repeats: with one repeat on a side nothing is ever better or worse.

    Args:
        base: One value for each repeat of the base cell.
        new: The same of the new cell.
        direction: Which way the metric is better.
        exact: Both sides always give the same value.
        rules: When a difference counts.
        seed: Names the bootstrap's stream.
    """
    base_median, new_median = statistics.median(base), statistics.median(new)
    ratio = new_median / base_median if base_median else None
    if exact and len({*base}) == len({*new}) == 1:
        verdict, reason = _exact(base_median, new_median, direction, rules)
        return Judgement(
            base_median=base_median,
            new_median=new_median,
            verdict=verdict,
            reason=reason,
            ratio=ratio,
        )
    if min(len(base), len(new)) < 2:
        return Judgement(
            base_median=base_median,
            new_median=new_median,
            verdict=Verdict.INCONCLUSIVE,
            reason="a single repeat says nothing about noise",
            ratio=ratio,
        )
    interval = ratio_interval(base, new, seed=seed)
    p_value = rank_test(base, new)
    verdict, reason = _noisy(base_median, new_median, interval, p_value, direction, rules)
    low, high = interval or (None, None)
    return Judgement(
        base_median=base_median,
        new_median=new_median,
        verdict=verdict,
        reason=reason,
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        p_value=p_value,
    )


def _exact(base: float, new: float, direction: Direction, rules: Rules) -> tuple[Verdict, str]:
    if base == new:
        return Verdict.SAME, "equal, and the metric is exact"
    if abs(new - base) < rules.min_effect:
        return Verdict.SAME, f"differs by less than {rules.min_effect:g}"
    return _directed(base, new, direction, "the metric is exact")


def _noisy(
    base: float,
    new: float,
    interval: tuple[float, float] | None,
    p_value: float,
    direction: Direction,
    rules: Rules,
) -> tuple[Verdict, str]:
    if abs(new - base) < rules.min_effect:
        return Verdict.SAME, f"differs by less than {rules.min_effect:g}"
    if _within(interval, rules.margin) or (base == new == 0 and interval is None and p_value == 1):
        return Verdict.SAME, f"the interval lies within {rules.margin:.0%} of equality"
    if p_value >= rules.alpha:
        return Verdict.INCONCLUSIVE, f"p = {p_value:.2g}: more repeats could tell"
    if interval is not None and interval[0] <= 1 <= interval[1]:
        return Verdict.INCONCLUSIVE, "the interval of the ratio holds 1"
    return _directed(base, new, direction, f"p = {p_value:.2g}")


def _within(interval: tuple[float, float] | None, margin: float) -> bool:
    return interval is not None and 1 - margin <= interval[0] and interval[1] <= 1 + margin


def _directed(base: float, new: float, direction: Direction, reason: str) -> tuple[Verdict, str]:
    if direction is Direction.NONE:
        return Verdict.INCONCLUSIVE, f"differs ({reason}), but no way of this metric is better"
    lower_is_better = direction is Direction.LOWER
    better = (new < base) == lower_is_better
    return (Verdict.BETTER if better else Verdict.WORSE), reason
