"""Estimated time: from earlier runs where there are any, else only the protocol's limits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kvbench.plan.estimate import estimate
from kvbench.plan.make import make_plan
from kvbench.plan.spec import Plan
from kvbench.results.journal import Entry, Journal, Outcome, RepeatRecord
from kvbench.results.schema import Phase, Status

from ..suite.toy_engines import toy_plugins
from ..suite.toy_suites import GOOD, load


def plan_of(folder: Path, text: str = GOOD) -> Plan:
    return make_plan(load(folder, text), toy_plugins())


def write_run(
    folder: Path,
    plan: Plan,
    walls_s: Mapping[int, float],
    *,
    status: Status = Status.PASSED,
    setup_s: float = 0.0,
) -> None:
    folder.mkdir(parents=True)
    journal = Journal(folder / "journal.jsonl")
    for ordinal, wall_s in walls_s.items():
        repeat = RepeatRecord(
            phase=Phase.MEASURE, repeat=0, started_at_us=0, wall_s=wall_s, series=()
        )
        journal.append(
            Entry(
                cell_id=plan.cells[ordinal].cell.cell_id,
                attempt=1,
                repeats=(repeat,),
                outcome=Outcome(status=status, setup_s=setup_s),
            )
        )
    journal.close()


def test_without_earlier_runs_only_limits_are_known(tmp_path: Path) -> None:
    text = GOOD.replace("repeats = 9", "repeats = 9\nmin_measure_s = 5")
    times = estimate(plan_of(tmp_path, text), tmp_path / "runs")
    assert times.expected_s is None
    assert (times.runnable_cells, times.known_cells) == (13, 0)
    assert times.at_least_s == 2 * 5
    # Eleven cells run once, two run 2 warm-ups and 9 repeats until 5 s are measured.
    assert times.at_most_s == 11 * 60 + 2 * (11 * 60 + 5)
    assert "limits of the protocol" in times.basis
    assert "0 of 13" in times.basis


def test_cells_that_will_not_run_take_no_time(tmp_path: Path) -> None:
    text = GOOD.replace('plugin = "meter"', 'plugin = "absent"')
    times = estimate(plan_of(tmp_path, text), tmp_path / "runs")
    assert times.runnable_cells == 11
    assert times.at_most_s == 11 * 60


def test_an_earlier_run_of_all_cells_gives_its_time(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    walls = dict.fromkeys(range(11), 0.5) | {11: 20.0, 12: 40.0}
    write_run(tmp_path / "runs" / "1", plan, walls, setup_s=3.0)
    times = estimate(plan, tmp_path / "runs")
    # Three engine configurations start once each: one for calc, one for each model on meter.
    assert times.expected_s == pytest.approx(11 * 0.5 + 20 + 40 + 3 * 3)
    assert times.known_cells == 13


def test_new_cells_count_like_the_known_ones_beside_them(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    write_run(tmp_path / "runs" / "1", plan, {0: 1.0, 1: 3.0, 12: 40.0})
    times = estimate(plan, tmp_path / "runs")
    assert times.expected_s == pytest.approx(11 * 2.0 + 2 * 40.0)
    assert times.known_cells == 3
    assert times.basis == "earlier runs: 3 of 13 cells were measured before, process start-up apart"


def test_an_engine_that_never_ran_leaves_the_time_unknown(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    write_run(tmp_path / "runs" / "1", plan, {0: 1.0})
    assert estimate(plan, tmp_path / "runs").expected_s is None


def test_the_newest_run_wins_and_failures_do_not_count(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    cells = range(13)
    write_run(tmp_path / "runs" / "1", plan, dict.fromkeys(cells, 1.0))
    write_run(tmp_path / "runs" / "2", plan, dict.fromkeys(cells, 2.0))
    write_run(tmp_path / "runs" / "3", plan, dict.fromkeys(cells, 9.0), status=Status.FAILED)
    assert estimate(plan, tmp_path / "runs").expected_s == pytest.approx(13 * 2.0)


def test_a_damaged_journal_is_passed_over(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    write_run(tmp_path / "runs" / "1", plan, dict.fromkeys(range(13), 1.0))
    damaged = tmp_path / "runs" / "2" / "journal.jsonl"
    damaged.parent.mkdir()
    damaged.write_text("no journal\n", encoding="utf-8")
    assert estimate(plan, tmp_path / "runs").expected_s == pytest.approx(13.0)


def test_a_plan_without_runnable_cells(tmp_path: Path) -> None:
    text = GOOD.replace('plugin = "meter"', 'plugin = "absent"')
    plan = make_plan(load(tmp_path, text), toy_plugins(), only_engine="meter")
    times = estimate(plan, tmp_path / "runs")
    assert (times.runnable_cells, times.expected_s, times.at_most_s) == (0, None, 0)
    assert times.basis == "nothing will run"
