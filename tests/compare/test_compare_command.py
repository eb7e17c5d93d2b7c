"""``kvbench compare``: verdicts on stdout, a summary on stderr, an exit code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kvbench.cli import cli, main
from kvbench.results import write_results
from kvbench.testing import ResultsBuilder


def store(folder: Path, values: Sequence[float], *, extra: bool = False, exact: bool = True) -> str:
    made = ResultsBuilder(run_id=folder.name)
    made.metric("m_bytes", exact=exact)
    made.cell({"batch": 1}, {"m_bytes": values})
    if extra:
        made.cell({"batch": 2}, {"m_bytes": values})
    folder.mkdir()
    write_results(folder, made.build(environment={"dist.vllm": folder.name}))
    return str(folder)


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, str]:
    return {
        "base": store(tmp_path / "base", [100]),
        "same": store(tmp_path / "same", [100]),
        "worse": store(tmp_path / "worse", [123_456_789]),
        "better": store(tmp_path / "better", [90]),
        "more": store(tmp_path / "more", [100], extra=True),
        "noisy": store(tmp_path / "noisy", [100], exact=False),
    }


def compare(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["compare", *arguments])


@pytest.mark.parametrize(
    ("base", "new", "options", "code"),
    [
        ("base", "same", [], 0),
        ("base", "better", [], 0),
        ("base", "worse", [], 1),
        ("base", "worse", ["--fail-on", "none"], 0),
        ("base", "worse", ["--fail-on", "missing"], 0),
        ("more", "base", [], 0),
        ("more", "base", ["--fail-on", "missing"], 1),
        ("base", "more", ["--fail-on", "missing"], 0),
        ("noisy", "noisy", [], 0),
        ("noisy", "noisy", ["--fail-on", "inconclusive", "--fail-on", "worse"], 1),
        ("base", "same", ["--metric", "other"], 4),
    ],
)
def test_exit_codes(
    runs: dict[str, str], base: str, new: str, options: list[str], code: int
) -> None:
    assert compare(runs[base], runs[new], *options).exit_code == code


def test_nothing_in_common_is_not_green(tmp_path: Path, runs: dict[str, str]) -> None:
    made = ResultsBuilder(run_id="other")
    made.metric("m_bytes", exact=True)
    made.cell({"batch": 9}, {"m_bytes": [100]})
    (tmp_path / "other").mkdir()
    write_results(tmp_path / "other", made.build())
    done = compare(runs["base"], str(tmp_path / "other"))
    assert done.exit_code == 4
    assert "2 missing" in done.stderr


def test_json_is_clean_and_complete(runs: dict[str, str]) -> None:
    done = compare(runs["base"], runs["worse"], "--format", "json")
    found = json.loads(done.stdout)
    assert (found["base"], found["new"], found["complete"]) == ("base", "worse", True)
    assert found["verdicts"] == {"worse": 1}
    assert found["environment_changes"] == ["dist.vllm: base -> worse"]
    (pair,) = found["pairs"]
    assert (pair["base_median"], pair["new_median"]) == (100, 123_456_789)
    assert pair["verdict"] == "worse"


@pytest.mark.parametrize("output_format", ["table", "csv", "md"])
def test_counts_are_printed_to_the_last_digit(runs: dict[str, str], output_format: str) -> None:
    done = compare(runs["base"], runs["worse"], "--format", output_format)
    assert "123456789" in done.stdout
    assert "batch=1" in done.stdout


def test_only_some_verdicts(runs: dict[str, str]) -> None:
    done = compare(runs["base"], runs["more"], "--only", "missing", "--format", "json")
    assert [pair["verdict"] for pair in json.loads(done.stdout)["pairs"]] == ["missing"]
    assert "1 same, 1 missing" in done.stderr


def test_the_environment_is_part_of_the_summary(runs: dict[str, str]) -> None:
    assert "environment: dist.vllm: base -> same" in compare(runs["base"], runs["same"]).stderr


def test_a_run_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(tmp_path / "a"), str(tmp_path / "b")])
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"kvbench: {tmp_path / 'a'}: no such run\n"
