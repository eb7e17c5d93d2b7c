"""Verdicts of pairs: within a run, across runs, exact or noisy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from kvbench.compare.judge import Rules
from kvbench.compare.pairs import compare_runs, compare_within
from kvbench.engine import Scalar
from kvbench.results import Results
from kvbench.results.schema import Status
from kvbench.results.verdict import PairVerdict, Verdict
from kvbench.suite.spec import Comparison
from kvbench.testing import ResultsBuilder

FAST = [1.0, 1.01, 0.99, 1.02, 0.98]
SLOW = [2.0, 2.02, 1.98, 2.04, 1.96]


def builder(
    run_id: str = "base", *, exact: bool = False, direction: str = "lower"
) -> ResultsBuilder:
    made = ResultsBuilder(run_id=run_id)
    made.metric("m_s", unit="s", evidence="device", exact=exact, direction=direction)
    return made


def one(values: Sequence[float], run_id: str = "base", **metric: Any) -> Results:
    made = builder(run_id, **metric)
    made.cell({"batch": 1}, {"m_s": values})
    return made.build()


def verdict(base: Sequence[float], new: Sequence[float], **metric: Any) -> PairVerdict:
    rules = metric.pop("rules", Rules())
    (found,) = compare_runs(one(base, **metric), one(new, "new", **metric), rules)
    return found


def test_slower_is_worse_and_faster_is_better() -> None:
    worse = verdict(FAST, SLOW)
    assert worse.verdict is Verdict.WORSE
    assert worse.ratio == 2.0
    assert worse.ratio_low is not None
    assert worse.ratio_high is not None
    assert 1.9 < worse.ratio_low <= 2.0 <= worse.ratio_high < 2.1
    assert worse.p_value == pytest.approx(2 / 252)
    assert verdict(SLOW, FAST).verdict is Verdict.BETTER


def test_higher_is_better_turns_it_round() -> None:
    assert verdict(FAST, SLOW, direction="higher").verdict is Verdict.BETTER


def test_a_metric_without_direction_never_gets_better_or_worse() -> None:
    assert verdict(FAST, SLOW, direction="none").verdict is Verdict.INCONCLUSIVE


def test_the_same_within_the_margin() -> None:
    assert verdict(FAST, [x * 1.001 for x in FAST], rules=Rules(margin=0.05)).verdict is (
        Verdict.SAME
    )


def test_noise_is_inconclusive() -> None:
    assert verdict([1.0, 1.3, 0.8, 1.2], [1.1, 1.4, 0.9, 1.0]).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("base", "new"), [([1.0], [2.0]), ([1.0], [1.0]), ([1.0], [2.0, 2.0])])
def test_a_single_repeat_is_inconclusive(base: list[float], new: list[float]) -> None:
    found = verdict(base, new)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "single repeat" in found.reason


def test_three_repeats_are_too_few_for_the_rank_test() -> None:
    found = verdict([1.0, 1.1, 1.2], [2.0, 2.1, 2.2])
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.p_value == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("new", "expected"),
    [(1.0, Verdict.SAME), (1.0000001, Verdict.WORSE), (0.5, Verdict.BETTER)],
)
def test_exact_metrics_need_one_sample(new: float, expected: Verdict) -> None:
    found = verdict([1.0], [new], exact=True)
    assert found.verdict is expected
    assert found.ratio_low is None


def test_exact_metrics_that_vary_are_judged_as_noisy() -> None:
    assert verdict([1.0, 1.5], [1.0, 1.5], exact=True).verdict is Verdict.INCONCLUSIVE


def test_unequal_numbers_of_repeats() -> None:
    assert verdict(FAST, SLOW[:4]).verdict is Verdict.WORSE


def test_zero_medians() -> None:
    assert verdict([0.0] * 5, [0.0] * 5).verdict is Verdict.SAME
    from_zero = verdict([0.0] * 5, [1.0] * 5)
    assert from_zero.ratio is None
    assert from_zero.verdict is Verdict.WORSE


def test_min_effect() -> None:
    assert verdict(FAST, SLOW, rules=Rules(min_effect=1.5)).verdict is Verdict.SAME


def test_cells_are_paired_by_their_place() -> None:
    base, new = builder(), builder("new")
    base.cell({"batch": 1}, {"m_s": FAST})
    base.cell({"batch": 2}, {"m_s": FAST})
    new.cell({"batch": 2}, {"m_s": SLOW})
    new.cell({"batch": 1}, {"m_s": FAST}, benchmark="other")
    found = compare_runs(base.build(), new.build())
    assert [(p.benchmark, p.where, p.verdict) for p in found] == [
        ("bench", {"batch": 1}, Verdict.MISSING),
        ("bench", {"batch": 2}, Verdict.WORSE),
        ("other", {"batch": 1}, Verdict.MISSING),
    ]
    assert [bool(p.base_cell) for p in found] == [True, True, False]


@pytest.mark.parametrize("status", [Status.FAILED, Status.INVALID, Status.TIMEOUT])
def test_cells_that_did_not_pass_never_enter(status: Status) -> None:
    new = builder("new")
    values = {"m_s": SLOW} if status is Status.INVALID else {}
    new.cell({"batch": 1}, values, status=status, reason="broken")
    (found,) = compare_runs(one(FAST), new.build())
    assert found.verdict is Verdict.MISSING
    assert found.reason == f"the new cell is {status} (broken)"


def test_series_count_once_per_repeat() -> None:
    (found,) = compare_runs(one(FAST), one(FAST, "new"))
    assert (found.base_n, found.new_n) == (5, 5)


def models(values: dict[str, Sequence[float]], *, exact: bool = True) -> Results:
    made = builder(exact=exact)
    for batch in (1, 2):
        for model, numbers in values.items():
            axes: dict[str, Scalar] = {"model": model, "batch": batch}
            made.cell(axes, {"m_s": [n * batch for n in numbers]})
    return made.build()


def comparison(**changes: Any) -> Comparison:
    values = {
        "name": "c",
        "benchmark": "bench",
        "vary": "model",
        "baseline": "mha",
        "metrics": ("m_s",),
    }
    return Comparison(**{**values, **changes})


def test_within_a_run_cells_are_paired_on_the_other_axes() -> None:
    results = models({"mha": [4.0], "gqa": [1.0], "mqa": [0.5]})
    found = compare_within(results, [comparison()])
    assert [(p.base, p.new, p.where, p.ratio, p.verdict) for p in found] == [
        ("mha", "gqa", {"batch": 1}, 0.25, Verdict.BETTER),
        ("mha", "mqa", {"batch": 1}, 0.125, Verdict.BETTER),
        ("mha", "gqa", {"batch": 2}, 0.25, Verdict.BETTER),
        ("mha", "mqa", {"batch": 2}, 0.125, Verdict.BETTER),
    ]


def test_a_missing_baseline_or_metric_is_said() -> None:
    results = models({"gqa": [1.0]})
    found = compare_within(results, [comparison()])
    assert {p.reason for p in found} == {"no base cell"}
    results = models({"mha": [1.0], "gqa": [1.0]})
    found = compare_within(results, [comparison(metrics=("other_s",))])
    assert {(p.verdict, p.metric) for p in found} == {(Verdict.MISSING, "other_s")}


def test_engines_can_be_compared_and_both_kinds_of_evidence_are_kept() -> None:
    made = ResultsBuilder()
    made.metric("m_bytes", evidence="analytic", exact=True)
    made.cell({"batch": 1}, {"m_bytes": [10]}, engine="analytic")
    results = made.build()
    other = ResultsBuilder()
    other.metric("m_bytes", evidence="simulated", exact=True)
    other.cell({"batch": 1}, {"m_bytes": [12]}, engine="pool")
    simulated = other.build()
    # One run with both engines, put together as the runner would.
    cells = simulated.cells.set_column(1, "cell_id", pa.array(["cell-1"]))
    cells = cells.set_column(2, "ordinal", pa.array([1], pa.int32()))
    samples = simulated.samples.set_column(1, "cell_id", pa.array(["cell-1"]))
    both = Results(
        cells=pa.concat_tables([results.cells, cells.cast(results.cells.schema)]),
        samples=pa.concat_tables([results.samples, samples.cast(results.samples.schema)]),
        metadata=dataclasses.replace(
            results.metadata, metrics={**results.metadata.metrics, **simulated.metadata.metrics}
        ),
    )
    wanted = comparison(vary="engine", baseline="analytic", metrics=("m_bytes",))
    (found,) = compare_within(both, [wanted])
    assert (found.base_evidence, found.evidence) == ("analytic", "simulated")
    assert (found.ratio, found.verdict) == (1.2, Verdict.WORSE)


def test_verdicts_are_reproducible() -> None:
    assert verdict(FAST, SLOW) == verdict(FAST, SLOW)
