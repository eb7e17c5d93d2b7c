"""The command line as a whole: exit codes, streams, and what it does not import."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import kvbench
from kvbench.cli import COMMANDS, cli, main
from kvbench.errors import ModelError

ROOT = Path(kvbench.__file__).resolve().parent.parent
HEAVY = {"pandas", "pyarrow", "matplotlib", "numpy", "torch", "vllm", "triton", "jinja2"}


def code(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


def in_a_process(*arguments: str, stdout: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kvbench", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


@pytest.fixture
def ends_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """A command ``end`` that raises what it is given."""

    def install(error: BaseException) -> None:
        @click.command("end")
        def end() -> None:
            raise error

        monkeypatch.setitem(cli.commands, "end", end)

    return install


@pytest.mark.parametrize(
    ("error", "exit_code", "line"),
    [
        (KeyboardInterrupt(), 130, "kvbench: interrupted"),
        (click.Abort(), 130, "kvbench: interrupted"),
        (ModelError("x.json:3: is wrong"), 2, "kvbench: x.json:3: is wrong"),
        (
            PermissionError(13, "Permission denied", "f.json"),
            2,
            "kvbench: f.json: Permission denied",
        ),
        (OSError(28, "No space left on device"), 2, "kvbench: No space left on device"),
        (SystemExit(3), 3, ""),
        (SystemExit(4), 4, ""),
        (click.UsageError("not so"), 2, "Error: not so"),
    ],
    ids=repr,
)
def test_every_end_has_its_exit_code_and_one_line(
    ends_with: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    exit_code: int,
    line: str,
) -> None:
    ends_with(error)
    assert code("end") == exit_code
    streams = capsys.readouterr()
    assert streams.out.strip() == ""
    assert (streams.err.splitlines() or [""])[-1] == line
    assert "Traceback" not in streams.err


def test_no_command_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert code("--help") == 0
    text = capsys.readouterr().out
    assert all(f"\n  {name} " in text for name in (*COMMANDS, "simulate"))
    assert code("--version") == 0
    assert capsys.readouterr().out == f"kvbench, version {kvbench.__version__}\n"
    assert code() == 2


def test_a_misspelt_command_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert code("reprot") == 2
    assert "no command 'reprot'; did you mean 'report'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", [*COMMANDS, "simulate"])
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert code(name, "--help") == 0
    assert capsys.readouterr().out.startswith(f"Usage: kvbench {name} ")


def test_a_full_disk_behind_stdout_is_one_line() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with full.open("w") as sink:
        done = in_a_process("schema", stdout=sink.fileno())
    assert (done.returncode, done.stderr) == (2, "kvbench: No space left on device\n")


def test_a_reader_that_left_is_no_error() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = in_a_process("schema", stdout=theirs)
    finally:
        os.close(theirs)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["compare", "--help"], ["engines"], ["metrics"]]
)
def test_overviews_import_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import atexit, sys\n"
        "atexit.register(lambda: sys.stderr.write("
        f"' '.join(sorted({{m.split('.')[0] for m in sys.modules}} & {HEAVY!r}))))\n"
        f"from kvbench.cli import main\nmain({arguments!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert done.stdout
