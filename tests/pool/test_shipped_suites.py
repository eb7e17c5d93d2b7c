"""The pool's shipped suites run from a clean clone and meet their own expectations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.conftest import REPOSITORY


def run(name: str, folder: Path) -> Path:
    run_folder = folder / name
    suite = REPOSITORY / "suites" / f"{name}.toml"
    command = [sys.executable, "-m", "kvbench", "run", str(suite), "-o", str(run_folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return run_folder


def statuses(run_folder: Path) -> set[str]:
    return set(pq.read_table(run_folder / "cells.parquet")["status"].to_pylist())


def test_the_walkthrough_of_a_fork(tmp_path: Path) -> None:
    folder = run("cow_walkthrough", tmp_path)
    assert statuses(folder) == {"passed"}
    report = (folder / "report.html").read_text()
    assert "append B 1 (copies block 1 to 2)" in report


@pytest.mark.slow
def test_step_times_of_arrival_rates_and_of_a_recorded_run(tmp_path: Path) -> None:
    folder = run("step_time", tmp_path)
    assert statuses(folder) == {"passed"}
    report = (folder / "report.html").read_text()
    assert "99 % of the requests have their first token within" in report
    assert "nothing measured" in report
    cells = pq.read_table(folder / "cells.parquet").to_pylist()
    rates = {
        cell["cell_id"]: cell["param_rate_scale"] for cell in cells if cell["benchmark"] == "rate"
    }
    samples = pq.read_table(folder / "samples.parquet").to_pylist()
    speeds = {
        rates[row["cell_id"]]: row["value"]
        for row in samples
        if row["metric"] == "p50_inter_token_s" and row["cell_id"] in rates
    }
    # The same requests in the same order: the fuller the steps, the longer each of them takes.
    assert [speeds[rate] for rate in sorted(speeds)] == sorted(speeds.values())
    assert len(speeds) == 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prefix_sharing", "paged_vs_preallocated"])
def test_the_larger_suites(name: str, tmp_path: Path) -> None:
    assert statuses(run(name, tmp_path)) == {"passed"}
