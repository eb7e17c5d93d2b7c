"""The run's folder: what is in it, and how its refusals read."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kvbench.errors import ResultsError
from kvbench.results import read_results
from kvbench.results.journal import Entry, Journal
from tests.conftest import REPOSITORY
from tests.runner.plans import end, plan_of, run


def test_what_lies_in_the_folder(tmp_path: Path) -> None:
    plan = plan_of({"value": 1.0})
    run(plan, tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"suite.toml", "plan.json", "environment.json", "journal.jsonl", "logs"}
    assert (tmp_path / "run" / "suite.toml").read_text() == plan.suite.text
    stored = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert [cell["cell_id"] for cell in stored["cells"]] == [plan.cells[0].cell.cell_id]


def test_the_default_folder_is_below_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = plan_of({"value": 1.0})
    first, second = (end(plan, None) for _ in range(2))
    assert first.run_dir.parent == Path("reports/runs/fakes")
    assert first.run_dir.name.split("-")[1] == plan.plan_id[:6]
    assert first.run_dir != second.run_dir
    assert read_results(second.run_dir).metadata.complete


def test_an_empty_folder_is_used_and_a_full_one_refused(tmp_path: Path) -> None:
    end(plan_of({"value": 1.0}), tmp_path)
    with pytest.raises(ResultsError, match=r"is not empty; name a new folder, or continue"):
        end(plan_of({"value": 1.0}), tmp_path)


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(ResultsError, match=r"cannot write the run's folder .*/run: File exists"):
        end(plan_of({"value": 1.0}), tmp_path / "run")


def test_resume_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"no plan\.json; not the folder of a run to resume"):
        end(plan_of({"value": 1.0}), tmp_path, resume=True)


def test_a_read_only_folder_is_one_line() -> None:
    with pytest.raises(ResultsError, match="cannot write the run's folder /proc/"):
        end(plan_of({"value": 1.0}), Path("/proc/kvbench/run"))


def test_a_full_disk_is_one_line() -> None:
    journal = Journal(Path("/dev/full"))
    with pytest.raises(ResultsError, match=r"/dev/full: No space left on device; what was"):
        journal.append(Entry(cell_id="c", attempt=1))
    os.close(journal._fd)


PROGRAM = """
import sys
from pathlib import Path
from kvbench.errors import ResultsError
from tests.runner.plans import end, plan_of
try:
    end(plan_of(*[{"value": float(n)} for n in range(20)], repeats=50), Path(sys.argv[1]))
except ResultsError as error:
    print(error)
"""


def test_a_disk_that_fills_up_in_the_middle_loses_nothing_measured(tmp_path: Path) -> None:
    limit = 60_000
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "run")],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
    assert done.stdout.startswith(f"cannot write {tmp_path / 'run' / 'journal.jsonl'}: ")
    assert f"--resume {tmp_path / 'run'}" in done.stdout
    partial = read_results(tmp_path / "run")
    assert not partial.metadata.complete
    assert "interrupted" in partial.cells["reason"].to_pylist()
    plan = plan_of(*[{"value": float(n)} for n in range(20)], repeats=50)
    assert run(plan, tmp_path / "run", resume=True).metadata.complete


def test_environment_has_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "hush-1")
    monkeypatch.setenv("CUDA_PROXY", "https://user:hush-2@example.org")
    monkeypatch.setenv("MY_SETTING", "hush-3")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    results = run(plan_of({"value": 1.0}), tmp_path / "run")
    assert results.metadata.environment["env.OMP_NUM_THREADS"] == "2"
    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or "hush" not in path.read_text()


def test_environment_says_what_numbers_depend_on(tmp_path: Path) -> None:
    environment = run(plan_of({"value": 1.0}), tmp_path / "run").metadata.environment
    assert {"kvbench.version", "python.version", "cpu.model", "git.commit"} <= environment.keys()
    assert environment["memory.total_bytes"] is None or environment["memory.total_bytes"] > 2**20
