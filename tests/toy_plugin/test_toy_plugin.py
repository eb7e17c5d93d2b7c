"""A third party's plugin is installed and used; broken ones break nothing but themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvbench.results import read_results

HERE = Path(__file__).resolve().parent
BROKEN = ("import_error", "misspelt", "raising", "no_engine", "exiting")

SUITE = """
schema = 1

[suite]
name = "toys"

[protocol]
repeats = 2
warmup = 0

[engines.toy]
plugin = "toy"
options = { bonus = 5 }

[engines.arithmetic]
plugin = "analytic"

[models.small]
layers = 1
query_heads = 1
kv_heads = 1
head_dim = 1

[[benchmark]]
name = "toy"
stage = "measure"
engines = ["toy"]
[benchmark.matrix]
tokens = [10, 20]

[[benchmark]]
name = "sizes"
stage = "size"
engines = ["arithmetic"]
options = { context_tokens = 10 }
[benchmark.matrix]
model = ["small"]
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which both distributions are installed, as pip does it."""
    target = tmp_path_factory.mktemp("site")
    for folder in (HERE, HERE / "broken"):
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
                *("--no-build-isolation", "--disable-pip-version-check", "--no-index"),
                *("--target", str(target), str(folder)),
            ],
            check=True,
        )
    return target


def kvbench(site: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from kvbench.cli import main; main()", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=False,
    )


def suite(tmp_path: Path, text: str = SUITE) -> Path:
    path = tmp_path / "suite.toml"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def run_dir(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toys")
    done = kvbench(site, "run", suite(folder), "-o", folder / "run")
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_an_installed_plugin_is_used_from_a_suite(run_dir: Path) -> None:
    results = read_results(run_dir)
    toys = [r for r in results.samples.to_pylist() if r["metric"] == "toy_bytes"]
    assert [(r["value"], r["evidence"]) for r in toys] == [
        (15.0, "engine"),
        (15.0, "engine"),
        (25.0, "engine"),
        (25.0, "engine"),
    ]
    versions = set(results.cells["engine_distribution"].to_pylist())
    assert "kvbench-toy" in versions
    assert results.metadata.environment["plugin.toy.wheels"] == "4"
    assert results.metadata.environment["dist.kvbench-toy"] == "0.3.0"
    assert "never store this" not in (run_dir / "environment.json").read_text()


def test_its_section_is_in_the_report(run_dir: Path) -> None:
    html = (run_dir / "report.html").read_text()
    assert "What toys do &amp; &lt;how&gt;." in html


def test_a_raising_hook_fails_its_own_cells(site: Path, tmp_path: Path) -> None:
    moody = SUITE.replace("tokens = [10, 20]", 'tokens = [10]\nmood = ["good", "bad"]')
    done = kvbench(site, "run", suite(tmp_path, moody), "-o", tmp_path / "run")
    assert done.returncode == 3, done.stderr
    cells = read_results(tmp_path / "run").cells.to_pylist()
    assert [cell["status"] for cell in cells] == ["passed", "failed", "passed"]
    assert cells[1]["error"] == "RuntimeError: the toy is in a bad mood"


def test_its_command_joins_the_command_line(site: Path) -> None:
    assert kvbench(site, "toy-hello").stdout == "hello from the toy\n"
    assert "Greet from the toy." in kvbench(site, "--help").stdout


def test_engines_says_what_is_wrong_and_what_to_do(site: Path) -> None:
    done = kvbench(site, "engines", "--format", "json")
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert {row["status"] for row in json.loads(text) if row["name"] == "toy"} == {"ok"}
    for words in (
        "No module named 'a_module_that_is_not_installed'",
        "unknown hook 'kvbench_mesure'; did you mean 'kvbench_measure'?",
        "ValueError: this plugin does not know itself",
        "hook kvbench_engine is missing or returned nothing",
        "the name 'analytic' is taken by kvbench",
        "SystemExit: this plugin wants another Python",
        "reinstall kvbench-broken-toys 1.0.0",
    ):
        assert words in text, words


@pytest.mark.parametrize("command", [("--help",), ("metrics",), ("engines",), ("gpus",)])
def test_broken_plugins_take_no_command_down(site: Path, command: tuple[str, ...]) -> None:
    done = kvbench(site, *command)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_cells_of_broken_plugins_are_unsupported(site: Path, tmp_path: Path) -> None:
    tables = "".join(f'[engines.{name}]\nplugin = "{name}"\n' for name in BROKEN)
    text = SUITE.replace('[engines.toy]\nplugin = "toy"\noptions = { bonus = 5 }\n', tables)
    text = text.replace('engines = ["toy"]', f"engines = {json.dumps(BROKEN)}")
    done = kvbench(site, "run", suite(tmp_path, text), "-o", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    cells = read_results(tmp_path / "run").cells.to_pylist()
    assert [cell["status"] for cell in cells] == ["unsupported"] * 2 * len(BROKEN) + ["passed"]
    for cell in cells[:-1]:
        assert f"plugin {cell['engine']!r}: " in cell["error"]
