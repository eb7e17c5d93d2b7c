"""``kvbench run`` as a user runs it: exit codes, streams, the record of the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kvbench.cli.run as run_module
from kvbench.cli import cli, main
from kvbench.plugins import Plugins, load_plugins
from kvbench.results import read_results
from kvbench.testing import fake_engine
from kvbench.testing.suite_runner import with_modules

HEAD = """
schema = 1
[suite]
name = "fakes"
[protocol]
warmup = 0
repeats = 1
[engines.fake]
plugin = "fake"
[[benchmark]]
name = "b"
stage = "measure"
engines = ["fake"]
[benchmark.matrix]
"""
EXPECT = """
[[expect]]
name = "five bytes"
benchmark = "b"
metric = "fake_bytes"
equals = 5
"""


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake engine is installed, and no report is made: these tests are about the run."""
    plugins: Plugins = with_modules(load_plugins(), fake_engine)
    monkeypatch.setattr("kvbench.plugins.load_plugins", lambda: plugins)
    monkeypatch.setattr(run_module, "_write_report", lambda run_dir: None)


def kvbench(tmp_path: Path, body: str, *arguments: str | Path) -> Result:
    path = tmp_path / "suite.toml"
    path.write_text(HEAD + body)
    words = ["run", str(path), "-o", str(tmp_path / "run"), *map(str, arguments)]
    return CliRunner().invoke(cli, words)


def codes(tmp_path: Path, body: str, *arguments: str) -> int:
    return kvbench(tmp_path, body, *arguments).exit_code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("value = [5.0]", 0),
        ("value = [5.0]" + EXPECT, 0),
        ("value = [4.0]" + EXPECT, 1),
        ('behaviour = ["ok", "failed"]', 3),
        ('behaviour = ["failed"]', 3),
        ('behaviour = ["unavailable"]', 4),
        ('behaviour = ["invalid"]', 4),
        ('behaviour = ["ok", "unavailable"]', 0),
        ("value = [5.0]" + EXPECT.replace("fake_bytes", "fake_s").replace("5\n", "6\n"), 0),
        ('behaviour = ["unavailable"]' + EXPECT, 4),
        ('behaviour = ["failed"]\nvalue = [5.0]' + EXPECT, 3),
    ],
)
def test_exit_codes(tmp_path: Path, body: str, code: int) -> None:
    assert codes(tmp_path, body) == code


def test_an_expectation_that_found_nothing_is_not_green(tmp_path: Path) -> None:
    body = 'behaviour = ["ok", "unavailable"]' + EXPECT + 'where = { behaviour = "unavailable" }\n'
    done = kvbench(tmp_path, body)
    assert done.exit_code == 4
    assert "missing: five bytes" in done.stderr


def test_the_folder_is_all_there_is_on_stdout(tmp_path: Path) -> None:
    done = kvbench(tmp_path, 'behaviour = ["ok", "failed"]')
    assert done.stdout == f"{tmp_path / 'run'}\n"
    assert done.stderr.splitlines() == [
        "2 cells: 1 passed, 1 failed",
        "  failed       too_hot                1      the device is too hot",
    ]


def test_the_command_is_recorded(tmp_path: Path) -> None:
    kvbench(tmp_path, "value = [5.0]", "--engine", "fake", "--jobs", "2", "--fail-fast")
    command = read_results(tmp_path / "run").metadata.command
    suite, run = str(tmp_path / "suite.toml"), str(tmp_path / "run")
    expected = ["kvbench", "run", suite, "--output", run, "--engine", "fake", "--jobs", "2"]
    assert list(command) == [*expected, "--fail-fast"]


def test_a_bad_suite_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    path.write_text(HEAD + "valeu = [1.0]")
    with pytest.raises(SystemExit) as ended:
        main(["run", str(path), "-o", str(tmp_path / "run")])
    assert ended.value.code == 2
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--retry", "failed"], "--retry needs --resume RUN"),
        (["--resume", "x"], "leave -o out"),
        (["--jobs", "0"], "0 is not in the range"),
        (["--retry", "faild"], "no status 'faild'; did you mean 'failed'?"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = kvbench(tmp_path, "value = [5.0]", *arguments)
    assert done.exit_code == 2
    assert words in done.stderr


def test_resume_and_retry(tmp_path: Path) -> None:
    release = tmp_path / "release"
    body = f'behaviour = ["ok", "flaky"]\nrelease = ["{release}"]'
    assert codes(tmp_path, body) == 3
    release.touch()
    words: list[Any] = ["run", tmp_path / "suite.toml", "--resume", tmp_path / "run"]
    kept = CliRunner().invoke(cli, [str(word) for word in words])
    assert kept.exit_code == 3
    assert "2 of them from earlier" in kept.stderr
    words += ["--retry", "failed,timeout"]
    assert CliRunner().invoke(cli, [str(word) for word in words]).exit_code == 0


def test_verdicts_are_stored_with_the_run(tmp_path: Path) -> None:
    compare = (
        '\n[[compare]]\nname = "c"\nbenchmark = "b"\nvary = "value"\nbaseline = 5.0\n'
        'metrics = ["fake_bytes"]\n'
    )
    kvbench(tmp_path, "value = [5.0, 10.0]" + EXPECT + compare)
    metadata = read_results(tmp_path / "run").metadata
    assert [(pair.ratio, pair.verdict) for pair in metadata.comparisons] == [(2.0, "worse")]
    assert [found.status for found in metadata.expectations] == ["met", "failed"]
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    assert [row["name"] for row in plan["metadata"]["benchmarks"]] == ["b"]


def test_a_report_that_fails_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(run_dir: Path) -> None:
        raise ValueError("no ink\nleft")

    monkeypatch.undo()
    monkeypatch.setattr("kvbench.report.make.write_report", refuse)
    plugins = with_modules(load_plugins(), fake_engine)
    monkeypatch.setattr("kvbench.plugins.load_plugins", lambda: plugins)
    done = kvbench(tmp_path, "value = [5.0]")
    assert done.exit_code == 0
    assert "kvbench: no report: ValueError: no ink left" in done.stderr
    assert read_results(tmp_path / "run").metadata.complete
