"""The cases notice deliberate bugs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kvbench_triton
from tests.engine.triton.mutants import MUTANTS

HERE = Path(__file__).parent
PACKAGE = Path(kvbench_triton.__file__).parent


@pytest.fixture(scope="module")
def run_sentinels(tmp_path_factory):
    """Runs the sentinels on the package in a folder; gives the exit code and what was said."""
    log = tmp_path_factory.mktemp("sentinels") / "log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, str(HERE / "run_sentinels.py")],
            env=os.environ | {"PYTHONPATH": str(HERE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):

        def ask(folder: Path) -> tuple[int, str]:
            process.stdin.write(f"{folder}\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            assert answer, log.read_text()[-3000:]
            code, said = json.loads(answer)
            return code, said

        try:
            yield ask
        finally:
            process.stdin.close()


def test_sentinels_pass_without_a_bug(run_sentinels, tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "kvbench_triton")
    code, said = run_sentinels(tmp_path)
    assert code == 0, said[-2000:]


@pytest.mark.parametrize("name", MUTANTS)
def test_bug_is_noticed(run_sentinels, name, tmp_path):
    relative, text, replacement = MUTANTS[name]
    shutil.copytree(PACKAGE, tmp_path / "kvbench_triton")
    path = tmp_path / "kvbench_triton" / relative
    source = path.read_text()
    assert source.count(text) >= 1, f"{relative} has no {text!r} any more"
    path.write_text(source.replace(text, replacement))
    code, said = run_sentinels(tmp_path)
    assert code != 0, "no case notices it"
    assert code != -signal.SIGALRM, "a case hangs"
    assert "ImportError" not in said
    assert "ModuleNotFoundError" not in said
    assert "SyntaxError" not in said
    assert said.strip() or code < 0
