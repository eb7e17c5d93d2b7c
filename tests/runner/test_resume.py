"""Interrupted, killed and resumed runs: what was measured stays, what was not is done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kvbench.errors import ResultsError
from kvbench.results import read_results, write_results
from kvbench.results.journal import Journal
from kvbench.results.schema import Status
from tests.conftest import REPOSITORY
from tests.runner.plans import column, end, plan_of, run, samples

#: Far beyond what any machine needs; only a broken test waits so long.
PATIENCE_S = 60.0

PROGRAM = """
import json, sys
from pathlib import Path
from tests.runner.plans import end, plan_of
points, protocol, run_dir, resume = json.loads(sys.argv[1])
options = {"resume": Path(run_dir)} if resume else {}
sys.exit(130 if end(plan_of(*points, **protocol), Path(run_dir), **options).interrupted else 0)
"""


def start(points: list[dict[str, object]], run_dir: Path, **protocol: object) -> subprocess.Popen:
    arguments = json.dumps([points, protocol, str(run_dir), False])
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def waiting_points(tmp_path: Path) -> tuple[list[dict[str, object]], Path, Path]:
    release = tmp_path / "release"
    points = [{"value": 1.0}, {"behaviour": "wait", "release": str(release)}, {"value": 3.0}]
    return points, release, release.with_suffix(".begun")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_a_readable_partial_run_and_no_process(
    tmp_path: Path, number: signal.Signals
) -> None:
    points, _, begun = waiting_points(tmp_path)
    process = start(points, tmp_path / "run")
    wait_for(begun.exists)
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == 130
    assert not alive(int(begun.read_text()))
    results = read_results(tmp_path / "run")
    assert not results.metadata.complete
    assert column(results, "status") == ["passed", "interrupted", "interrupted"]
    assert column(results, "reason") == [None, "not_run", "not_run"]
    write_results(tmp_path / "run", results)
    assert read_results(tmp_path / "run").cells.equals(results.cells)


def test_kill_9_loses_the_cell_in_flight_only(tmp_path: Path) -> None:
    points, release, begun = waiting_points(tmp_path)
    process = start(points, tmp_path / "run")
    wait_for(begun.exists)
    process.kill()
    process.wait(PATIENCE_S)
    worker = int(begun.read_text())
    wait_for(lambda: not alive(worker))
    results = read_results(tmp_path / "run")
    assert column(results, "status") == ["passed", "interrupted", "interrupted"]
    first = samples(results, "calls_count")
    release.touch()
    resumed = run(plan_of(*points), tmp_path / "run", resume=True)
    assert column(resumed, "status") == ["passed"] * 3
    assert resumed.metadata.complete
    assert resumed.run_id == results.run_id
    assert samples(resumed, "calls_count") == first


def test_a_killed_run_keeps_the_repeats_it_has(tmp_path: Path) -> None:
    release = tmp_path / "release"
    points = [{"value": 1.0}, {"behaviour": "wait", "release": str(release)}]
    process = start(points, tmp_path / "run", repeats=2)
    wait_for(release.with_suffix(".begun").exists)
    process.kill()
    process.wait(PATIENCE_S)
    partial = read_results(tmp_path / "run")
    assert column(partial, "reason") == ["interrupted", "not_run"]
    assert partial.samples.num_rows == 0
    release.touch()
    resumed = run(plan_of(*points, repeats=2), tmp_path / "run", resume=True)
    # One repeat from the first session and one from the second, each the first call of its
    # live engine; the waiting cell comes second and third in the new one.
    assert samples(resumed, "calls_count", 0) == [1.0, 2.0]
    assert samples(resumed, "calls_count", 1) == [1.0, 3.0]


def test_a_torn_last_line_is_forgotten(tmp_path: Path) -> None:
    plan = plan_of({"value": 1.0}, {"value": 2.0})
    run(plan, tmp_path / "run")
    journal = tmp_path / "run" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    assert column(read_results(tmp_path / "run"), "status") == ["passed", "interrupted"]
    resumed = run(plan, tmp_path / "run", resume=True)
    assert column(resumed, "status") == ["passed", "passed"]
    assert all(json.loads(line) for line in journal.read_text().splitlines())


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    run(plan_of({"value": 1.0}), tmp_path / "run")
    journal = tmp_path / "run" / "journal.jsonl"
    journal.write_text("{broken}\n" + journal.read_text())
    with pytest.raises(ResultsError, match=r"journal\.jsonl:1: damaged line"):
        read_results(tmp_path / "run")


def test_resume_reuses_by_content_and_not_by_place(tmp_path: Path) -> None:
    run(plan_of({"value": 1.0}, {"value": 2.0}), tmp_path / "run")
    changed = plan_of({"value": 2.0}, {"value": 3.0})
    ended = end(changed, tmp_path / "run", resume=True)
    results = read_results(tmp_path / "run")
    assert ended.reused == 1
    assert samples(results, "fake_bytes", 0) == [2.0]
    assert samples(results, "fake_bytes", 1) == [3.0]
    assert samples(results, "calls_count", 0) == [2.0], "measured in the first session"
    assert samples(results, "calls_count", 1) == [1.0], "measured in the second session"


def test_a_changed_protocol_or_seed_is_another_cell(tmp_path: Path) -> None:
    run(plan_of({"value": 1.0}, seed=1), tmp_path / "run")
    assert end(plan_of({"value": 1.0}, seed=2), tmp_path / "run", resume=True).reused == 0


def test_failures_are_kept_unless_they_are_retried(tmp_path: Path) -> None:
    release = tmp_path / "release"
    plan = plan_of({"behaviour": "flaky", "release": str(release)}, {"value": 1.0})
    run(plan, tmp_path / "run")
    release.touch()
    kept = run(plan, tmp_path / "run", resume=True)
    assert column(kept, "reason") == ["flaky", None]
    retried = run(plan, tmp_path / "run", resume=True, retry=frozenset({Status.FAILED}))
    assert column(retried, "status") == ["passed", "passed"]
    assert column(retried, "attempt") == [2, 1]


def test_cells_ruled_out_by_a_failure_come_back_with_it(tmp_path: Path) -> None:
    release = tmp_path / "release"
    plan = plan_of({"behaviour": "flaky", "release": str(release)}, {"value": 1.0})
    first = run(plan, tmp_path / "run", fail_fast=True)
    assert column(first, "reason") == ["flaky", "aborted"]
    release.touch()
    again = run(plan, tmp_path / "run", resume=True, retry=frozenset({Status.FAILED}))
    assert column(again, "status") == ["passed", "passed"]


def test_the_back_stop_remembers_an_earlier_session(tmp_path: Path) -> None:
    points = [{"behaviour": "oom", "batch": 2}, {"behaviour": "oom", "batch": 4}]
    run(plan_of(points[0]), tmp_path / "run")
    resumed = run(plan_of(*points), tmp_path / "run", resume=True)
    assert column(resumed, "reason") == ["oom", "oom_backstop"]


def test_a_change_of_the_environment_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of({"value": 1.0})
    run(plan, tmp_path / "run")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    resumed = run(plan, tmp_path / "run", resume=True)
    words = "Resumed with another env.CUDA_VISIBLE_DEVICES: None before, 3 now."
    assert words in resumed.metadata.warnings


def test_two_processes_never_write_one_run(tmp_path: Path) -> None:
    run(plan_of({"value": 1.0}), tmp_path / "run")
    journal = Journal(tmp_path / "run" / "journal.jsonl")
    try:
        with pytest.raises(ResultsError, match="another process is running into it"):
            end(plan_of({"value": 1.0}), tmp_path / "run", resume=True)
    finally:
        journal.close()
