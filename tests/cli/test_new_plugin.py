"""What ``kvbench new-plugin`` writes is installed, run and tested, as its author would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvbench.cli import cli, main
from kvbench.results import read_results


def new_plugin(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["new-plugin", *map(str, arguments)])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scaffold") / "project"
    done = new_plugin("my_engine", "-o", folder)
    assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(scope="module")
def site(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
            *("--no-build-isolation", "--disable-pip-version-check", "--no-index"),
            *("--target", str(target), str(project)),
        ],
        check=True,
    )
    return target


def python(site: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_was_written_is_listed_and_the_next_step_named(tmp_path: Path) -> None:
    done = new_plugin("my_engine", "-o", tmp_path / "p")
    written = sorted(str(path) for path in (tmp_path / "p").rglob("*") if path.is_file())
    assert sorted(done.stdout.splitlines()) == written
    assert done.stderr.startswith("Next: python -m pip install -e ")


def test_its_suite_runs(site: Path, project: Path, tmp_path: Path) -> None:
    suite, run = project / "suites" / "my_engine.toml", tmp_path / "run"
    done = python(site, "kvbench", "run", suite, "-o", run)
    assert done.returncode == 0, done.stderr
    assert set(read_results(run).cells["status"].to_pylist()) == {"passed"}
    assert (run / "report.html").exists()


def test_its_tests_pass(site: Path, project: Path) -> None:
    done = python(site, "pytest", "-q", "-p", "no:cacheprovider", project)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", ["Bad", "two words", "../up", "class", "9lives", "", "-x"])
def test_names_that_cannot_be_a_package(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["new-plugin", "--", name])
    assert ended.value.code == 2
    assert "is no plugin name" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "words"),
    [("analytic", "is installed already"), ("fresh", "is not a new or empty folder")],
)
def test_nothing_is_overwritten(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kept").write_text("mine")
    with pytest.raises(SystemExit) as ended:
        main(["new-plugin", name, "-o", str(tmp_path)])
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
