"""Many comparisons at once: Holm's method by hand."""

from __future__ import annotations

import dataclasses

import pytest

from kvbench.compare.many import family_sentence, holm
from kvbench.results.verdict import Verdict
from tests.report.sample_run import pair


@pytest.mark.parametrize(
    ("given", "adjusted"),
    [
        ([], []),
        ([0.04], [0.04]),
        # 3 x 0.01, 2 x 0.02, 1 x 0.03 raised to what the one before it has.
        ([0.02, 0.01, 0.03], [0.04, 0.03, 0.04]),
        ([0.5, 0.9], [1.0, 1.0]),
    ],
)
def test_adjusted_p_values_by_hand(given, adjusted):
    assert holm(given) == pytest.approx(adjusted)


def judged(*p_values, verdict=Verdict.WORSE):
    return [dataclasses.replace(pair(1, 1.5), p_value=p, verdict=verdict) for p in p_values]


def test_the_sentence_counts_what_holds_in_the_family():
    pairs = [*judged(0.001, 0.04), *judged(0.4, verdict=Verdict.INCONCLUSIVE)]
    assert family_sentence(pairs) == (
        "Verdicts are per pair: of 3 pairs with a rank test 2 differ, and 1 of them still would "
        "with all tests taken as one family (Holm, 5%)."
    )
    assert family_sentence(judged(0.03, 0.04)).endswith("(Holm, 5%); more repeats could tell.")


def test_exact_pairs_and_single_tests_need_no_word():
    assert family_sentence([pair(1, 0.25), pair(2, 0.25)]) == ""
    assert family_sentence(judged(0.01)) == ""
    assert family_sentence(judged(0.3, 0.4, verdict=Verdict.INCONCLUSIVE)) == ""
