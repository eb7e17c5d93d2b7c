"""Warm-up, repeats, order, and the cells that a failure rules out."""

from __future__ import annotations

from pathlib import Path

from kvbench.runner.group import MAX_REPEATS
from kvbench.suite.spec import OnFailure, Order
from tests.runner.plans import column, plan_of, run, samples


def test_warm_ups_are_recorded_as_such(tmp_path: Path) -> None:
    results = run(plan_of({"value": 5.0}, warmup=2, repeats=3), tmp_path / "run")
    assert samples(results, "calls_count", phase="warmup") == [1.0, 2.0]
    assert samples(results, "calls_count", phase="measure") == [3.0, 4.0, 5.0]
    repeats = [r["repeat"] for r in results.samples.to_pylist() if r["metric"] == "fake_bytes"]
    assert repeats == [0, 1, 0, 1, 2]


def test_repeats_are_interleaved(tmp_path: Path) -> None:
    plan = plan_of({"value": 1.0}, {"value": 2.0}, warmup=1, repeats=2)
    results = run(plan, tmp_path / "run")
    assert samples(results, "calls_count", 0, "warmup") == [1.0]
    assert samples(results, "calls_count", 1, "warmup") == [2.0]
    assert samples(results, "calls_count", 0) == [3.0, 5.0]
    assert samples(results, "calls_count", 1) == [4.0, 6.0]


def test_sequential_order_finishes_a_cell_first(tmp_path: Path) -> None:
    plan = plan_of({"value": 1.0}, {"value": 2.0}, warmup=1, repeats=2, order=Order.SEQUENTIAL)
    results = run(plan, tmp_path / "run")
    assert samples(results, "calls_count", 0) == [2.0, 3.0]
    assert samples(results, "calls_count", 1) == [5.0, 6.0]


def test_a_new_worker_warms_up_again(tmp_path: Path) -> None:
    plan = plan_of({"behaviour": "raise"}, {"behaviour": "ok"}, warmup=1, repeats=2)
    results = run(plan, tmp_path / "run")
    assert samples(results, "calls_count", 1, "warmup") == [1.0]
    assert samples(results, "calls_count", 1) == [2.0, 3.0]


def test_repeats_go_on_until_enough_time_was_measured(tmp_path: Path) -> None:
    results = run(plan_of({"value": 1.0}, min_measure_s=0.002), tmp_path / "run")
    count = len(samples(results, "fake_bytes"))
    assert 1 < count <= MAX_REPEATS
    assert count == MAX_REPEATS or column(results, "measure_s")[0] >= 0.002


def test_a_cell_that_fails_in_a_later_repeat_has_no_measured_samples(tmp_path: Path) -> None:
    results = run(plan_of({"behaviour": "crash_second"}, repeats=2), tmp_path / "run")
    assert column(results, "status") == ["failed"]
    assert results.samples.num_rows == 0


def test_out_of_memory_rules_out_cells_that_need_no_less(tmp_path: Path) -> None:
    batches = [{"behaviour": "oom", "batch": n} for n in (4, 2, 8, 4)]
    batches[1]["behaviour"] = "ok"
    batches[3]["value"] = 9.0
    results = run(plan_of(*batches), tmp_path / "run")
    # batch 8 equals batch 4 on every other axis; the last cell differs in ``value``.
    assert column(results, "reason") == ["oom", None, "oom_backstop", "oom"]
    assert column(results, "status") == ["failed", "passed", "skipped", "failed"]
    assert "batch = 4 ran out of memory" in column(results, "error")[2]


def test_other_failures_rule_out_nothing_by_default(tmp_path: Path) -> None:
    plan = plan_of(*[{"behaviour": "failed", "batch": n} for n in (1, 2)])
    assert column(run(plan, tmp_path / "run"), "reason") == ["too_hot", "too_hot"]


def test_stop_axis(tmp_path: Path) -> None:
    points = [{"behaviour": "failed", "batch": n} for n in (2, 1, 4)]
    plan = plan_of(*points, on_failure=OnFailure.STOP_AXIS)
    assert column(run(plan, tmp_path / "run"), "reason") == ["too_hot", "too_hot", "stop_axis"]


def test_abort_and_fail_fast_stop_everything(tmp_path: Path) -> None:
    points = [{"behaviour": "ok"}, {"behaviour": "failed"}, {"behaviour": "ok", "batch": 1}]
    aborted = run(plan_of(*points, on_failure=OnFailure.ABORT), tmp_path / "abort")
    fast = run(plan_of(*points), tmp_path / "fast", fail_fast=True)
    for results in (aborted, fast):
        assert column(results, "reason") == [None, "too_hot", "aborted"]
        assert not results.metadata.complete


def test_every_cell_is_a_row_even_when_nothing_runs(tmp_path: Path) -> None:
    results = run(plan_of(), tmp_path / "run")
    assert results.cells.num_rows == 0
    assert results.metadata.complete


def test_jobs_share_the_work_without_changing_the_results(tmp_path: Path) -> None:
    points = [{"mode": f"m{n % 3}", "value": float(n)} for n in range(9)]
    one = run(plan_of(*points), tmp_path / "one", jobs=1)
    three = run(plan_of(*points), tmp_path / "three", jobs=3)
    assert [samples(three, "fake_bytes", n) for n in range(9)] == [[float(n)] for n in range(9)]
    assert column(one, "status") == column(three, "status")
