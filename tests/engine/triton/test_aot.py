"""Every kernel entry compiles for every target, without spills, with wide loads, not issue-bound.

Compiled in a process of its own. A kernel that changes changes ``docs/kernel_aot.md``:
``python -m kvbench_triton.aot --write docs/kernel_aot.md`` writes it anew.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[3] / "docs" / "kernel_aot.md"
MAX_ISSUE_RATIO = 0.8

#: Compiling everything takes one to four minutes on two idle cores.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Rows and document of a fresh compilation."""
    folder = tmp_path_factory.mktemp("aot")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(folder / "cache")
    command = [sys.executable, "-m", "kvbench_triton.aot"]
    options = ["--json", str(folder / "rows.json"), "--write", str(folder / "table.md")]
    done = subprocess.run(
        [*command, *options], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "rows.json").read_text()), (folder / "table.md").read_text()


def test_every_target_is_compiled(compiled):
    assert {row["target"] for row in compiled[0]} == {"sm_80", "sm_90", "sm_100", "gfx942"}


def test_nothing_spills(compiled):
    assert [row for row in compiled[0] if row["spills"]] == []


def test_plan_counts_on_no_more_programs_than_fit(compiled):
    assert [row for row in compiled[0] if row["planned_programs"] > row["programs"]] == []


def test_keys_and_values_are_loaded_128_bits_wide(compiled):
    """NVIDIA: the loop's 128-bit loads carry the whole tile. AMD: no 8- or 16-bit loads."""
    assert [row for row in compiled[0] if not row["wide_tile"]] == []


def test_matrix_units_are_used(compiled):
    assert [row for row in compiled[0] if not row["matrix"]] == []


def test_decode_at_head_dim_128_is_not_issue_bound(compiled):
    rows = [r for r in compiled[0] if "d128" in r["case"] and r["target"].startswith("sm_")]
    assert {r["case"].split()[0] for r in rows} == {"bf16", "fp16", "fp8_e4m3", "int8"}
    assert [row for row in rows if row["issue_ratio"] >= MAX_ISSUE_RATIO] == []


def test_document_is_what_the_compilers_say_today(compiled):
    assert compiled[1] == DOCUMENT.read_text()
