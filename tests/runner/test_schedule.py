"""Who shares a worker, who runs beside whom, and what the progress line says."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from kvbench.plan.spec import PlannedCell
from kvbench.plugins import Plugins
from kvbench.results.journal import Entry, Outcome, RepeatRecord
from kvbench.results.schema import Phase, Status
from kvbench.runner.executor import find_executor
from kvbench.runner.local import _may_start
from kvbench.runner.progress import Tally
from kvbench.runner.run import group_cells
from kvbench.suite.spec import Isolation
from kvbench.testing.fake_engine import fake_plugins
from tests.runner.plans import plan_of


def deterministic(*, yes: bool) -> Plugins:
    plugins = fake_plugins()
    plugin = plugins.loaded["fake"]
    info = dataclasses.replace(plugin.info, deterministic=yes)
    return Plugins(loaded={"fake": dataclasses.replace(plugin, info=info)}, broken=())


def cells(*, exclusive: bool = False, **protocol: Any) -> list[PlannedCell]:
    plan = plan_of(*[{"mode": f"m{n % 2}", "batch": n} for n in range(1, 7)], **protocol)
    return [dataclasses.replace(cell, exclusive=exclusive) for cell in plan.cells]


def batches(groups: list[list[PlannedCell]]) -> list[list[Any]]:
    return [[planned.cell.axes["batch"] for planned in group] for group in groups]


def test_cells_with_one_configuration_share_a_worker() -> None:
    groups = group_cells(cells(), deterministic(yes=False), jobs=4)
    assert batches(groups) == [[1, 3, 5], [2, 4, 6]]


def test_cells_of_deterministic_engines_are_dealt_out() -> None:
    groups = group_cells(cells(), deterministic(yes=True), jobs=2)
    assert batches(groups) == [[1, 5], [3], [2, 6], [4]]


def test_exclusive_cells_are_not() -> None:
    groups = group_cells(cells(exclusive=True), deterministic(yes=True), jobs=2)
    assert batches(groups) == [[1, 3, 5], [2, 4, 6]]


def test_isolation_by_cell() -> None:
    groups = group_cells(cells(isolation=Isolation.CELL), deterministic(yes=False), jobs=1)
    assert batches(groups) == [[n] for n in range(1, 7)]


@pytest.mark.parametrize(
    ("active", "exclusive", "jobs", "expected"),
    [
        ([], True, 1, True),
        ([], False, 1, True),
        ([False], False, 1, False),
        ([False], False, 2, True),
        ([False], True, 2, False),
        ([True], False, 2, False),
        ([False, False], False, 2, False),
    ],
)
def test_exclusive_groups_run_alone(
    active: list[bool], exclusive: bool, jobs: int, expected: bool
) -> None:
    lanes: Any = [SimpleNamespace(group=SimpleNamespace(exclusive=each)) for each in active]
    group: Any = SimpleNamespace(exclusive=exclusive)
    assert _may_start(group, lanes, jobs) is expected


def entry(planned: PlannedCell, wall_s: float, *, ended: bool = True, bad: bool = False) -> Entry:
    repeat = RepeatRecord(phase=Phase.MEASURE, repeat=0, started_at_us=0, wall_s=wall_s, series=())
    status = Status.FAILED if bad else Status.PASSED
    return Entry(
        cell_id=planned.cell.cell_id,
        attempt=1,
        repeats=(repeat,),
        outcome=Outcome(status=status) if ended else None,
    )


def test_time_left_is_the_mean_of_what_was_seen_times_what_is_left() -> None:
    planned = cells(repeats=2)
    tally = Tally(planned)
    assert str(tally) == "0/6 cells, time left unknown"
    tally.add(entry(planned[0], 10.0, ended=False))
    assert str(tally) == "0/6 cells, about 1:50 left"
    tally.add(entry(planned[0], 20.0))
    assert str(tally) == "1/6 cells, about 2:30 left"
    tally.add(entry(planned[1], 15.0, bad=True))
    assert str(tally) == "2/6 cells, 1 failed, about 2:00 left"


def test_time_left_is_a_lower_bound_while_something_is_unknown() -> None:
    planned = cells()
    other = dataclasses.replace(planned[5].cell, benchmark="other")
    planned[5] = dataclasses.replace(planned[5], cell=other)
    tally = Tally(planned)
    tally.add(entry(planned[0], 2000.0))
    assert tally.time_left() == "at least 2:13:20 left"


def test_only_the_local_executor_is_there() -> None:
    assert find_executor("local")
    with pytest.raises(Exception, match="no executor 'ray'; known: local"):
        find_executor("ray")
