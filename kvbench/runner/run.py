"""Run a plan into a folder: new or resumed, to its end or until the user stops it."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kvbench.plan.spec import Plan, PlannedCell
from kvbench.plugins import Plugins
from kvbench.results.journal import (
    SYNC_EVERY_S,
    Entry,
    History,
    Journal,
    Outcome,
    read_journal,
)
from kvbench.results.metadata import environment_changes
from kvbench.results.rebuild import read_plan
from kvbench.results.schema import JOURNAL_FILE, Status
from kvbench.runner.environment import collect_environment
from kvbench.runner.executor import Control, Executor, find_executor
from kvbench.runner.failure import DEPENDENT_REASONS
from kvbench.runner.folder import (
    default_folder,
    make_folder,
    new_run_id,
    reopen_folder,
    stored_plan,
    write_plan,
    writing,
)
from kvbench.runner.group import Group
from kvbench.runner.interrupt import Interrupts
from kvbench.runner.progress import ProgressLine, Tally
from kvbench.runner.skips import Skips
from kvbench.suite.spec import Isolation


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run a plan.

    Attributes:
        run_dir: Folder of the run, new or empty; ``None`` for one under ``reports/runs``.
        resume: Folder of an earlier run to continue; its finished cells are kept when their
            content id is still in the plan.
        retry: Statuses of finished cells that are run again.
        jobs: Engine configurations that may run at the same time.
        executor: Name of the executor.
        fail_fast: Stop at the first failed cell.
        command: Command line, for the record.
    """

    run_dir: Path | None = None
    resume: Path | None = None
    retry: frozenset[Status] = frozenset()
    jobs: int = 1
    executor: str = "local"
    fail_fast: bool = False
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended.

    Attributes:
        run_dir: Its folder.
        interrupted: The user stopped it.
        reused: Cells that an earlier session had finished.
    """

    run_dir: Path
    interrupted: bool
    reused: int


def run_plan(plan: Plan, plugins: Plugins, options: RunOptions) -> RunEnd:
    """Run every cell of ``plan`` that can run and has not been run.

    Afterwards the folder holds the plan and the journal; ``kvbench.runner.finish`` makes the
    result files of them.

    Raises:
        ResultsError: The folder cannot be used, or stopped taking data (disk full).
    """
    executor = find_executor(options.executor)
    now = dt.datetime.now(dt.UTC)
    run_id = new_run_id(plan, now)
    run_dir = options.resume or options.run_dir or default_folder(plan.suite.name, run_id)
    prepare = reopen_folder if options.resume else make_folder
    prepare(run_dir)
    with closing(Journal(run_dir / JOURNAL_FILE)) as journal, writing(run_dir):
        histories = read_journal(journal.path)
        _describe(plan, plugins, options, run_dir, run_id, now)
        session = _Session(plan, plugins, options, run_dir, histories, journal)
        interrupted = session.execute(executor)
    return RunEnd(run_dir=run_dir, interrupted=interrupted, reused=session.reused)


class _Session:
    """The cells that this process has to run, of a new plan or of one that was begun earlier."""

    def __init__(
        self,
        plan: Plan,
        plugins: Plugins,
        options: RunOptions,
        run_dir: Path,
        histories: dict[str, History],
        journal: Journal,
    ) -> None:
        self._plugins, self._options, self._run_dir = plugins, options, run_dir
        self._histories, self._journal = histories, journal
        self._skips = Skips(fail_fast=options.fail_fast)
        self._todo: list[PlannedCell] = []
        self.reused = 0
        for planned in plan.cells:
            if not planned.skip_status:
                self._sort_in(planned)
        self._tally = Tally(self._todo)

    def execute(self, executor: Executor) -> bool:
        """Run the cells; whether the user stopped it before the end."""
        groups = [
            Group(cells, histories=self._histories, skips=self._skips, write=self._write)
            for cells in group_cells(self._todo, self._plugins, self._options.jobs)
        ]
        with Interrupts() as interrupts, ProgressLine(self._tally) as line:

            def tick() -> None:
                self._journal.sync(SYNC_EVERY_S)
                line.tick()

            control = Control(
                plugins=self._plugins,
                run_dir=self._run_dir,
                jobs=self._options.jobs,
                stopped=lambda: interrupts.asked,
                tick=tick,
            )
            executor.execute(groups, control)
        return interrupts.asked and self._tally.done < self._tally.total

    def _sort_in(self, planned: PlannedCell) -> None:
        history = self._histories.get(planned.cell.cell_id, History())
        if history.outcome is None or not _is_kept(history.outcome, self._options.retry):
            self._todo.append(planned)
            return
        self.reused += 1
        self._skips.ended(planned, history.outcome)

    def _write(self, entry: Entry) -> None:
        self._journal.append(entry)
        self._tally.add(entry)


def group_cells(
    cells: Sequence[PlannedCell], plugins: Plugins, jobs: int
) -> list[list[PlannedCell]]:
    """Return the cells that share a live engine, in the order of the plan.

    A group of an engine that any number of processes may run (deterministic and not exclusive)
    is dealt out to ``jobs`` workers.
    """
    groups: dict[tuple[str, ...], list[PlannedCell]] = {}
    for planned in cells:
        protocol = planned.protocol
        key: tuple[str, ...] = (planned.config_id, str(protocol.isolation), str(protocol.order))
        if protocol.isolation is Isolation.CELL:
            key += (planned.cell.cell_id,)
        groups.setdefault(key, []).append(planned)
    return [part for group in groups.values() for part in _dealt(group, plugins, jobs)]


def _dealt(group: list[PlannedCell], plugins: Plugins, jobs: int) -> list[list[PlannedCell]]:
    first = group[0]
    plugin = plugins.get(first.cell.plugin)
    inline = first.protocol.isolation is Isolation.INLINE
    if inline or first.exclusive or not plugin.info.deterministic:
        return [group]
    return [part for part in (group[start::jobs] for start in range(jobs)) if part]


def _is_kept(outcome: Outcome, retry: frozenset[Status]) -> bool:
    """Whether a finished cell stays as it is; cells ruled out by others are decided anew."""
    return outcome.status not in retry and outcome.reason not in DEPENDENT_REASONS


def _describe(
    plan: Plan,
    plugins: Plugins,
    options: RunOptions,
    run_dir: Path,
    run_id: str,
    now: dt.datetime,
) -> None:
    """Write what the run is about to do; a resumed run keeps its id and says what has changed."""
    used = {planned.cell.plugin for planned in plan.cells} & plugins.loaded.keys()
    environment = collect_environment(plugins.loaded[name] for name in sorted(used))
    warnings: tuple[str, ...] = ()
    if options.resume is not None:
        before = read_plan(run_dir).metadata
        run_id = before.run_id
        changes = (
            f"Resumed with another {key}: {old} before, {now_} now."
            for key, old, now_ in environment_changes(before.environment, environment)
        )
        warnings = tuple(dict.fromkeys((*before.warnings, *changes)))
    stored = stored_plan(plan, plugins, run_id=run_id, command=options.command, now=now)
    metadata = dataclasses.replace(stored.metadata, warnings=warnings)
    write_plan(run_dir, dataclasses.replace(stored, metadata=metadata), environment)
