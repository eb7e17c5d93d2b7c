"""The cases notice deliberate bugs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kvbench_triton
from tests.engine.triton.mutants import MUTANTS

HERE = Path(__file__).parent
PACKAGE = Path(kvbench_triton.__file__).parent


def run_sentinels(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the sentinels on the package in ``folder``."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(HERE)])}
    command = [sys.executable, str(HERE / "run_sentinels.py")]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=200, check=False
    )


def test_sentinels_pass_without_a_bug(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "kvbench_triton")
    done = run_sentinels(tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("name", MUTANTS)
def test_bug_is_noticed(name, tmp_path):
    relative, text, replacement = MUTANTS[name]
    shutil.copytree(PACKAGE, tmp_path / "kvbench_triton")
    path = tmp_path / "kvbench_triton" / relative
    source = path.read_text()
    assert source.count(text) >= 1, f"{relative} has no {text!r} any more"
    path.write_text(source.replace(text, replacement))
    done = run_sentinels(tmp_path)
    assert done.returncode != 0, "no case notices it"
    assert "ImportError" not in done.stderr
    assert "SyntaxError" not in done.stderr
