"""``kvbench plan`` and ``kvbench schema`` as a user meets them."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from kvbench.cli import cli, main
from kvbench.plugins import load_plugins

from ..suite.toy_engines import toy_plugins
from ..suite.toy_suites import GOOD


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tests' suite, with the tests' engines installed."""
    monkeypatch.setattr("kvbench.plugins.load_plugins", toy_plugins)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "suite.toml"
    text = GOOD.replace('plugin = "meter"', 'plugin = "absent"')
    path.write_text(text, encoding="utf-8")
    return path


def run(*args: str | Path) -> Result:
    result = CliRunner().invoke(cli, [str(arg) for arg in args])
    assert result.exception is None, result.output
    return result


def test_the_table_says_what_runs_what_does_not_and_why(suite: Path) -> None:
    lines = run("plan", suite).stdout.splitlines()
    assert lines[:3] == [
        "suite toy: 11 of 13 cells would run",
        "  bytes: product 6 -> zip 12 -> exclude 10 -> include 11 -> fit 11",
        "  latency: product 2 -> zip 2 -> exclude 2 -> include 2 -> fit 2",
    ]
    assert lines[-3:] == [
        "excluded: bytes: too long",
        "unsupported: 2 cells, engine_unavailable (meter): no device; plug one in",
        "time: not known, since earlier runs measured 0 of 11 cells; by the protocol at least 0 s "
        "(min_measure_s), and at most 11 min if every repeat ran into timeout_s",
    ]


def test_json_is_one_document_on_stdout(suite: Path) -> None:
    result = run("plan", suite, "--format", "json")
    document = json.loads(result.stdout)
    assert result.stderr == ""
    assert document["suite"] == "toy"
    assert len(document["cells"]) == 13
    assert document["cells"][0]["axes"] == {
        "model": "mha",
        "context_tokens": 1024,
        "requests": 1,
        "kv_dtype": "auto",
    }
    assert document["cells"][-1]["status"] == "unsupported"
    assert document["cells"][-1]["message"] == "no device; plug one in"
    assert document["counts"][0] == {
        "benchmark": "bytes",
        "product": 6,
        "zipped": 12,
        "excluded": 10,
        "included": 11,
        "fit": 11,
    }
    assert document["excludes"] == [{"benchmark": "bytes", "reason": "too long"}]
    assert document["estimate"]["expected_s"] is None


def test_csv_has_only_the_cells_on_stdout(suite: Path) -> None:
    result = run("plan", suite, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert len(rows) == 13
    assert rows[2]["context_tokens"] == "4096"
    assert "11 of 13 cells would run" in result.stderr


def test_markdown(suite: Path) -> None:
    lines = run("plan", suite, "--format", "md").stdout.splitlines()
    assert lines[0].startswith("| ordinal | cell | benchmark | stage | engine | model |")
    assert len(lines) == 2 + 13


def test_one_engine(suite: Path) -> None:
    document = json.loads(run("plan", suite, "--engine", "meter", "--format", "json").stdout)
    assert {cell["engine"] for cell in document["cells"]} == {"meter"}


def test_mistakes_are_lines_on_stderr_and_exit_code_2(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = suite.read_text(encoding="utf-8")
    suite.write_text(text.replace("seed = 7", "sede = 7"), encoding="utf-8")
    with pytest.raises(SystemExit) as caught:
        main(["plan", str(suite)])
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.strip() == (f"kvbench: {suite}:12: protocol.sede: unknown key; did you mean 'seed'?")


def test_an_unknown_engine_is_exit_code_2(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["plan", str(suite), "--engine", "metre"])
    assert caught.value.code == 2
    assert "did you mean 'meter'?" in capsys.readouterr().err


def test_the_schema_is_printed_with_the_installed_options() -> None:
    schema = json.loads(run("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    options = schema["properties"]["benchmark"]["items"]["properties"]["options"]["properties"]
    declared = {
        option.name for plugin in load_plugins().loaded.values() for option in plugin.info.options
    }
    assert set(options) == declared


MINIMAL = """\
schema = 1
suite.name = "minimal"
engines.analytic.plugin = "analytic"
models.m = { layers = 2, kv_heads = 1, head_dim = 64 }
[[benchmark]]
name = "b"
stage = "size"
engines = ["analytic"]
matrix.model = ["m"]
"""


@pytest.mark.parametrize("command", [["plan", "suite.toml"], ["schema"]])
def test_nothing_heavy_is_imported(tmp_path: Path, command: list[str]) -> None:
    """Planning stays cheap: no data frames, no charts, no engines."""
    (tmp_path / "suite.toml").write_text(MINIMAL, encoding="utf-8")
    script = (
        "import sys\nfrom kvbench.cli import cli\n"
        f"cli.main({command!r}, standalone_mode=False)\n"
        "heavy = {'pandas', 'pyarrow', 'matplotlib', 'torch', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
