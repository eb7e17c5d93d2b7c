"""Many comparisons at once: what is left of the verdicts when all tests count as one family."""

from __future__ import annotations

from collections.abc import Sequence

from kvbench.results.verdict import PairVerdict, Verdict

#: Probability of any false alarm in the whole family.
FAMILY_ALPHA = 0.05


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted by Holm's step-down method (Holm, 1979), in the same order.

    The k-th smallest of n is multiplied by n - k + 1; none is below an adjusted smaller one,
    none is above 1.
    """
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def family_sentence(pairs: Sequence[PairVerdict]) -> str:
    """Say how many verdicts of noisy metrics still hold when all tests are taken together.

    Empty when fewer than two pairs were tested or none of them is better or worse. Exact
    metrics are compared as they are: they add no false alarms.
    """
    tested = [pair for pair in pairs if pair.p_value is not None]
    decided = [pair.verdict in {Verdict.BETTER, Verdict.WORSE} for pair in tested]
    if len(tested) < 2 or not any(decided):
        return ""
    adjusted = holm([pair.p_value or 0.0 for pair in tested])
    held = sum(
        is_decided and p < FAMILY_ALPHA for is_decided, p in zip(decided, adjusted, strict=True)
    )
    differ = "differs" if sum(decided) == 1 else "differ"
    more = "" if held else "; more repeats could tell"
    return (
        f"Verdicts are per pair: of {len(tested):,} pairs with a rank test {sum(decided):,} "
        f"{differ}, and {held:,} of them still would with all tests taken as one family "
        f"(Holm, {FAMILY_ALPHA:.0%}){more}."
    )
