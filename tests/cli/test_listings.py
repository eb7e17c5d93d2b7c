"""``kvbench engines`` and ``kvbench metrics``."""

from __future__ import annotations

import csv
import io
import json

import pytest
from click.testing import CliRunner

import kvbench.cli.engines as engines_module
from kvbench.cli import cli
from kvbench.engine import Evidence
from kvbench.plugins import BrokenPlugin, Plugins, load_plugins
from kvbench.testing import fake_engine
from kvbench.testing.suite_runner import with_modules


def output(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("command", ["engines", "metrics"])
def test_formats_agree_on_the_rows(command: str) -> None:
    rows = json.loads(output(command, "--format", "json"))
    lines = list(csv.DictReader(io.StringIO(output(command, "--format", "csv"))))
    assert [line["name"] for line in lines] == [row["name"] for row in rows]
    assert len(output(command, "--format", "md").splitlines()) == len(rows) + 2
    assert len(output(command).splitlines()) == len(rows) + 2


def test_the_shipped_engines_are_there_and_two_always_run() -> None:
    status = {row["name"]: row["status"] for row in json.loads(output("engines", "--format=json"))}
    assert {"analytic", "pool", "triton", "vllm"} <= set(status)
    assert status["analytic"] == status["pool"] == "ok"


def test_what_cannot_run_says_why_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    known = with_modules(load_plugins(), fake_engine)
    lost = BrokenPlugin(name="lost", distribution="lost 1", error="no hook", remedy="reinstall it")
    monkeypatch.setattr(
        engines_module, "load_plugins", lambda: Plugins(loaded=known.loaded, broken=(lost,))
    )
    rows = {row["name"]: row for row in json.loads(output("engines", "--format", "json"))}
    assert rows["lost"] == {
        "name": "lost",
        "status": "broken",
        "distribution": "lost 1",
        "detail": "no hook; reinstall it",
    }
    assert rows["fake"]["status"] == "ok"


def test_every_metric_has_unit_meaning_and_one_evidence() -> None:
    rows = json.loads(output("metrics", "--format", "json"))
    assert all(row["unit"] and row["meaning"] and row["plugins"] for row in rows)
    assert {row["evidence"] for row in rows} <= set(map(str, Evidence))
    assert len({(row["name"], row["evidence"]) for row in rows}) == len(rows)
