"""Expectations: exact relations, limits, and gates against a stored run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kvbench.compare.expect import check_expectations
from kvbench.engine import Scalar
from kvbench.results import Results, write_results
from kvbench.results.schema import Status
from kvbench.results.verdict import ExpectStatus, ExpectVerdict
from kvbench.suite.spec import Condition, Expectation
from kvbench.testing import ResultsBuilder

MET, FAILED, MISSING = ExpectStatus.MET, ExpectStatus.FAILED, ExpectStatus.MISSING
VALUES = {("mha", 1): 512.0, ("gqa", 1): 128.0, ("mha", 2): 1024.0, ("gqa", 2): 256.0}


def sizes(values: dict[tuple[str, int], float] = VALUES) -> Results:
    made = ResultsBuilder()
    made.metric("m_bytes", exact=True)
    for (model, batch), value in values.items():
        made.cell({"model": model, "batch": batch}, {"m_bytes": [value]})
    return made.build()


def on(axis: str, value: Scalar) -> tuple[Condition, ...]:
    return (Condition(axis=axis, equals=value),)


def check(results: Results, **expectation: Any) -> list[ExpectVerdict]:
    values = {"name": "e", "benchmark": "bench", "metric": "m_bytes", **expectation}
    return list(check_expectations(results, [Expectation(**values)]))


def statuses(results: Results, **expectation: Any) -> list[ExpectStatus]:
    return [found.status for found in check(results, **expectation)]


def test_a_relation_is_checked_for_every_pair() -> None:
    found = check(sizes(), where=on("model", "gqa"), relative_to=on("model", "mha"), equals=0.25)
    assert [(f.status, f.observed, f.unit) for f in found] == [(MET, 0.25, "ratio")] * 2
    assert [(f.cell_id, f.reference_cell_id) for f in found] == [
        ("cell-1", "cell-0"),
        ("cell-3", "cell-2"),
    ]
    assert found[0].relation == "= 0.25 of that with model = mha"


def test_a_relation_that_does_not_hold() -> None:
    changed = {**VALUES, ("gqa", 2): 256.5}
    found = check(
        sizes(changed), where=on("model", "gqa"), relative_to=on("model", "mha"), equals=0.25
    )
    assert [f.status for f in found] == [MET, FAILED]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"equals": 128}, [MET, FAILED]),
        ({"equals": 129, "tolerance": 0.01}, [MET, FAILED]),
        ({"equals": 129, "tolerance": 0.001}, [FAILED, FAILED]),
        ({"at_least": 128}, [MET, MET]),
        ({"at_least": 129}, [FAILED, MET]),
        ({"at_most": 128}, [MET, FAILED]),
        ({"at_least": 100, "at_most": 200}, [MET, FAILED]),
    ],
)
def test_limits(limits: dict[str, float], expected: list[ExpectStatus]) -> None:
    assert statuses(sizes(), where=on("model", "gqa"), **limits) == expected


@pytest.mark.parametrize(("stat", "value"), [("median", 2.0), ("min", 1.0), ("max", 9.0)])
def test_statistics_over_repeats(stat: str, value: float) -> None:
    made = ResultsBuilder()
    made.metric("m_bytes")
    made.cell({}, {"m_bytes": [9.0, 1.0, 2.0]})
    assert statuses(made.build(), stat=stat, equals=value) == [MET]


def test_nothing_to_look_at_is_not_met() -> None:
    (found,) = check(sizes(), where=on("model", "mla"), equals=1)
    assert (found.status, found.reason) == (MISSING, "no cell matches")
    assert statuses(sizes(), where=on("model", "mla"), equals=1, on_missing="ignore") == []
    assert statuses(sizes(), metric="other", where=on("batch", 1), equals=1) == [MISSING] * 2


def test_missing_references() -> None:
    alone = sizes({("gqa", 1): 1.0})
    relation = {"where": on("model", "gqa"), "relative_to": on("model", "mha"), "equals": 1}
    assert [f.reason for f in check(alone, **relation)] == ["no cell to relate it to"]
    zero = sizes({("gqa", 1): 1.0, ("mha", 1): 0.0})
    assert [f.reason for f in check(zero, **relation)] == ["the reference value is 0"]
    several = check(
        sizes(), where=on("batch", 1), relative_to=(Condition(axis="model", ge=0),), equals=1
    )
    assert {f.reason for f in several} == {"no cell to relate it to"}


@pytest.mark.parametrize("status", [Status.FAILED, Status.INVALID])
def test_cells_that_did_not_pass_are_missing(status: Status) -> None:
    made = ResultsBuilder()
    made.metric("m_bytes")
    values = {"m_bytes": [1.0]} if status is Status.INVALID else {}
    made.cell({}, values, status=status, reason="broken")
    (found,) = check(made.build(), equals=1)
    assert (found.status, found.reason) == (MISSING, f"the cell is {status} (broken)")


def stored(folder: Path, values: Sequence[float], *, exact: bool = False) -> Path:
    write_results(folder, latencies(values, exact=exact))
    return folder


def latencies(values: Sequence[float], *, exact: bool = False, unit: str = "s") -> Results:
    made = ResultsBuilder()
    made.metric("m_s", unit=unit, evidence="device", exact=exact)
    made.cell({"batch": 1}, {"m_s": values})
    return made.build()


def gate(
    tmp_path: Path, base: Sequence[float], new: Sequence[float], *, exact: bool = False, **more: Any
) -> ExpectVerdict:
    against = stored(tmp_path, base, exact=exact)
    values = {"metric": "m_s", "max_regression": 0.05, "against": against, **more}
    (found,) = check(latencies(new, exact=exact), **values)
    return found


def test_a_real_regression_fails_the_gate(tmp_path: Path) -> None:
    found = gate(tmp_path, [1.0, 1.01, 0.99, 1.02, 0.98], [1.2, 1.21, 1.19, 1.22, 1.18])
    assert found.status is FAILED
    assert found.reason.startswith("20.00% worse than the baseline's 1 (p = 0.0079")


def test_a_small_regression_or_an_improvement_passes(tmp_path: Path) -> None:
    base = [1.0, 1.01, 0.99, 1.02, 0.98]
    assert gate(tmp_path, base, [x * 1.03 for x in base]).status is MET
    assert gate(tmp_path, base, [x / 2 for x in base]).status is MET


def test_a_regression_that_may_be_noise_is_inconclusive(tmp_path: Path) -> None:
    assert gate(tmp_path, [1.0, 2.0, 0.5], [1.2, 2.1, 0.6]).status is ExpectStatus.INCONCLUSIVE
    assert gate(tmp_path, [1.0], [2.0]).status is ExpectStatus.INCONCLUSIVE


def test_exact_values_need_no_repeats(tmp_path: Path) -> None:
    assert gate(tmp_path, [1.0], [1.06], exact=True).status is FAILED
    assert gate(tmp_path, [1.0], [1.05], exact=True).status is MET


def test_differences_below_min_effect_pass(tmp_path: Path) -> None:
    assert gate(tmp_path, [1.0], [1.5], exact=True, min_effect=0.6).status is MET


def test_a_gate_without_its_baseline_is_missing(tmp_path: Path) -> None:
    found = check(latencies([1.0]), metric="m_s", max_regression=0.1, against=tmp_path / "gone")
    assert [(f.status, f.reason) for f in found] == [(MISSING, f"{tmp_path / 'gone'}: no such run")]


def test_a_gate_in_another_unit_is_missing(tmp_path: Path) -> None:
    write_results(tmp_path, latencies([1.0], unit="tokens_per_s"))
    (found,) = check(latencies([1.0]), metric="m_s", max_regression=0.1, against=tmp_path)
    assert found.reason == "the stored run has it in tokens_per_s"
