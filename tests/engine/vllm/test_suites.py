"""Every shipped suite of the plugin on the real engine, with its exact agreements."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kvbench.results import read_results
from tests.engine.vllm.conftest import SUITES, keeps_quantized


def run_suite(name, folder):
    command = [sys.executable, "-m", "kvbench", "run", str(SUITES / f"{name}.toml"), "-o"]
    done = subprocess.run(
        [*command, str(folder)], capture_output=True, text=True, check=False, timeout=1500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "report.html").stat().st_size > 0
    return read_results(folder)


def statuses(results):
    return set(results.cells["status"].to_pylist())


@pytest.mark.parametrize(
    "name",
    [
        "vllm_gqa_vs_mha",
        "vllm_block_size",
        "vllm_prefix_sharing",
        "vllm_state_hybrid",
        "vllm_check",
    ],
)
def test_every_cell_passes_and_every_relation_holds(name, tmp_path):
    results = run_suite(name, tmp_path / "run")
    assert statuses(results) == {"passed"}
    expectations = results.metadata.expectations
    assert expectations
    assert {str(one.status) for one in expectations} == {"met"}
    report = (tmp_path / "run" / "report.html").read_text("utf-8")
    if name == "vllm_check":
        assert "What the served engine" in report
        assert "the pool is allocated as a whole at the start" in report
        assert "were found in the cache" in report
        assert "requests waited" in report
    else:
        assert "term by term" in report
        assert "unexplained" not in report


def test_types_that_are_not_stored_as_asked_are_invalid(tmp_path):
    results = run_suite("vllm_kv_dtype", tmp_path / "run")
    found = {
        cell["param_kv_dtype"]: (cell["status"], cell["reason"])
        for cell in results.cells.to_pylist()
        if cell["engine"] == "vllm"
    }
    stored, pretended = ("passed", None), ("invalid", "kv_bytes_differ")
    if not keeps_quantized():
        stored = pretended = ("unsupported", "engine_unavailable")
    assert found == {
        "auto": ("passed", None),
        "fp8_e4m3": stored,
        "fp8_e5m2": stored,
        "int8": pretended,
        "nvfp4": pretended,
    }
    assert {str(one.status) for one in results.metadata.expectations} == {"met"}
