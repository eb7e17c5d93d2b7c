"""Tables in four formats, all of the same rows."""

from __future__ import annotations

import csv
import io
import json

import pytest

from kvbench.cli.output import FORMATS, emit, emit_json

ROWS = [
    {"name": "a|b", "bytes": 1024, "share": 0.25, "on": True, "tags": ["x", "y"], "more": 1},
    {"name": 'say "hi",\nyou', "bytes": None, "share": 1 / 3, "on": False, "tags": []},
]
COLUMNS = ("name", "bytes", "share", "on", "tags")


def printed(capsys: pytest.CaptureFixture[str], output_format: str) -> str:
    emit(ROWS, COLUMNS, output_format)
    return capsys.readouterr().out


def test_json_has_every_key_and_null(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, "json")) == ROWS


def test_csv_is_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "csv"))))
    assert rows == [
        {"name": "a|b", "bytes": "1024", "share": "0.25", "on": "yes", "tags": "x, y"},
        {"name": 'say "hi",\nyou', "bytes": "", "share": "0.333333", "on": "no", "tags": ""},
    ]


def test_markdown_keeps_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "md").splitlines() == [
        "| name | bytes | share | on | tags |",
        "| --- | --- | --- | --- | --- |",
        "| a\\|b | 1024 | 0.25 | yes | x, y |",
        '| say "hi", you |  | 0.333333 | no |  |',
    ]


def test_numbers_stand_right(capsys: pytest.CaptureFixture[str]) -> None:
    emit([{"n": 5, "s": "ab"}, {"n": 12345, "s": "c"}], ("n", "s"), "table")
    assert capsys.readouterr().out.splitlines() == [
        "    n  s",
        "-----  --",
        "    5  ab",
        "12345  c",
    ]


@pytest.mark.parametrize("output_format", FORMATS)
def test_no_rows(capsys: pytest.CaptureFixture[str], output_format: str) -> None:
    emit([], ("a", "b"), output_format)
    assert (
        capsys.readouterr().out.split()
        == {
            "table": ["a", "b", "-", "-"],
            "json": ["[]"],
            "csv": ["a,b"],
            "md": ["|", "a", "|", "b", "|", "|", "---", "|", "---", "|"],
        }[output_format]
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_refuses_what_is_no_number(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        emit_json({"x": value})
