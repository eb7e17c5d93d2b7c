"""What a cell does decides its status and reason, and nothing else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvbench.results import Results
from kvbench.suite.spec import Isolation
from tests.runner.plans import column, plan_of, run, samples

OUTCOMES = {
    "ok": ("passed", None),
    "raise": ("failed", "exception"),
    "exit": ("failed", "exception"),
    "die": ("failed", "worker_crashed"),
    "sigkill": ("failed", "worker_crashed"),
    "segfault": ("failed", "worker_crashed"),
    "oom": ("failed", "oom"),
    "refused": ("unsupported", "model_refused"),
    "unavailable": ("unsupported", "engine_unavailable"),
    "failed": ("failed", "too_hot"),
    "nan": ("failed", "non_finite_value"),
    "huge": ("failed", "value_too_large"),
    "unregistered": ("failed", "unregistered_metric"),
    "nothing": ("failed", "no_samples"),
    "invalid": ("invalid", "cache_not_cold"),
    "rich": ("passed", None),
    "print": ("passed", None),
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Path]:
    run_dir = tmp_path_factory.mktemp("outcomes") / "run"
    points = [{"behaviour": behaviour} for behaviour in OUTCOMES]
    return run(plan_of(*points), run_dir), run_dir


def rows(results: Results) -> dict[str, dict[str, object]]:
    return {row["param_behaviour"]: row for row in results.cells.to_pylist()}


@pytest.mark.parametrize("behaviour", OUTCOMES)
def test_status_and_reason(outcome: tuple[Results, Path], behaviour: str) -> None:
    row = rows(outcome[0])[behaviour]
    assert (row["status"], row["reason"]) == OUTCOMES[behaviour]


def test_only_passed_and_invalid_cells_have_samples(outcome: tuple[Results, Path]) -> None:
    results, _ = outcome
    with_samples = set(results.samples["cell_id"].to_pylist())
    for row in results.cells.to_pylist():
        assert (row["cell_id"] in with_samples) == (row["status"] in {"passed", "invalid"})


def test_invalid_cells_are_kept_but_not_aggregated(outcome: tuple[Results, Path]) -> None:
    results, _ = outcome
    invalid = rows(results)["invalid"]["cell_id"]
    assert invalid in results.samples["cell_id"].to_pylist()
    assert invalid not in results.measured()["cell_id"].to_pylist()


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("raise", "RuntimeError: it broke"),
        ("die", "the worker ended with exit code 5"),
        ("sigkill", "killed by SIGKILL (out of host memory?); it last said: about to die"),
        ("segfault", "killed by SIGSEGV; it last said: Fatal Python error: Segmentation fault"),
        ("unavailable", "no device; buy one"),
        ("nan", "fake_bytes is nan, expected a finite number"),
        ("huge", "fake_bytes is 9007199254740994, above 2**53"),
        ("unregistered", "metric 'other_bytes' with evidence 'simulated' is not registered"),
        ("invalid", "3 % hits"),
    ],
)
def test_errors_say_what_happened(
    outcome: tuple[Results, Path], behaviour: str, words: str
) -> None:
    assert words in str(rows(outcome[0])[behaviour]["error"])


def test_a_traceback_is_in_the_log_of_its_cell(outcome: tuple[Results, Path]) -> None:
    results, run_dir = outcome
    log = run_dir / str(rows(results)["raise"]["log_path"])
    assert "RuntimeError: it broke" in log.read_text()
    assert "too hot" not in log.read_text()


def test_what_a_cell_prints_is_found_from_its_row(outcome: tuple[Results, Path]) -> None:
    results, run_dir = outcome
    log = run_dir / str(rows(results)["print"]["log_path"])
    assert "speaks" in log.read_text()
    assert rows(results)["ok"]["log_path"] is None


def test_what_the_engine_reports_is_kept(outcome: tuple[Results, Path]) -> None:
    row = rows(outcome[0])["rich"]
    assert row["effective_json"] == '{"block_size":16}'
    assert row["assumptions_json"] == '["one"]'
    assert row["warnings_json"] == '["careful"]'
    assert row["artifacts_json"] == '{"table":"a | b"}'


@pytest.mark.parametrize(
    ("mode", "status", "reason"),
    [
        ("unavailable", "unsupported", "engine_unavailable"),
        ("broken", "failed", "engine_start"),
        ("dies", "failed", "engine_start"),
    ],
)
def test_an_engine_that_does_not_start_takes_its_own_cells_only(
    tmp_path: Path, mode: str, status: str, reason: str
) -> None:
    plan = plan_of({"mode": mode, "batch": 1}, {"mode": "plain", "batch": 1}, {"mode": mode})
    results = run(plan, tmp_path / "run")
    assert column(results, "status") == [status, "passed", status]
    assert column(results, "reason") == [reason, None, reason]


def test_a_repeat_that_takes_too_long_times_out_and_the_rest_goes_on(tmp_path: Path) -> None:
    plan = plan_of({"behaviour": "hang"}, {"behaviour": "ok"}, timeout_s=0.3)
    results = run(plan, tmp_path / "run")
    assert column(results, "status") == ["timeout", "passed"]
    assert column(results, "error")[0] == "no answer within 0.3 s"


def test_a_failure_retires_the_worker_and_a_refusal_does_not(tmp_path: Path) -> None:
    points = [{"behaviour": b, "batch": n} for n, b in enumerate(["ok", "refused", "ok"], 1)]
    results = run(plan_of(*points), tmp_path / "refused")
    assert samples(results, "calls_count", 2) == [3.0]
    points[1]["behaviour"] = "raise"
    results = run(plan_of(*points), tmp_path / "raise")
    assert samples(results, "calls_count", 2) == [1.0]


@pytest.mark.parametrize("isolation", list(Isolation))
def test_isolation_decides_what_shares_an_engine(tmp_path: Path, isolation: Isolation) -> None:
    plan = plan_of({"value": 1.0}, {"value": 2.0}, isolation=isolation)
    results = run(plan, tmp_path / "run")
    alone = isolation is Isolation.CELL
    assert samples(results, "calls_count", 1) == ([1.0] if alone else [2.0])
    assert samples(results, "fake_bytes", 1) == [2.0]


def test_inline_failures_are_rows_too(tmp_path: Path) -> None:
    plan = plan_of(
        {"behaviour": "raise"},
        {"behaviour": "ok"},
        {"behaviour": "exit"},
        isolation=Isolation.INLINE,
    )
    assert column(run(plan, tmp_path / "run"), "status") == ["failed", "passed", "failed"]
