"""``kvbench run``: run a suite into a folder, then write its results and its report."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from kvbench.results import Results
    from kvbench.results.schema import Status

#: Failed expectations that the summary spells out.
_SHOWN = 10

#: Longest line of the summary's reasons.
_WIDTH = 240


class _Statuses(click.ParamType):  # type: ignore[type-arg]
    """Statuses of finished cells, separated by commas."""

    name = "KIND"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> frozenset[Status]:
        from kvbench.names import did_you_mean
        from kvbench.results.schema import Status

        if isinstance(value, frozenset):
            return value
        names = [name.strip() for name in value.split(",")]
        for name in names:
            if name not in set(Status):
                self.fail(f"no status {name!r}{did_you_mean(name, map(str, Status))}", param, ctx)
        return frozenset(Status(name) for name in names)


@click.command()
@click.argument("suite", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Folder of this run, new or empty.  [default: reports/runs/<suite>/<run_id>]",
)
@click.option("--engine", help="Run the cells of this [engines.NAME] table only.")
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    help="Continue the run in this folder: finished cells that are still in the plan are kept.",
)
@click.option(
    "--retry",
    type=_Statuses(),
    help="With --resume, run cells of these statuses again (failed,timeout).",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Worker processes at the same time; cells of exclusive engines run alone all the same.",
)
@click.option("--executor", default="local", show_default=True, help="Where the workers run.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first failed cell.")
@click.option(
    "--no-report", is_flag=True, help="Write results only; `kvbench report RUN` makes the report."
)
def command(suite: Path, **options: Any) -> None:
    """Run SUITE: every cell, journaled as it ends; then results, figures and report.

    The run's folder is printed on stdout. Ctrl-C leaves a partial run that can be read,
    reported and resumed.

    Exit codes: 0 ok, 1 failed expectation, 2 the suite cannot be run, 3 some cells failed,
    4 nothing was measured or an expectation found nothing to check, 130 interrupted.
    """
    try:
        sys.exit(_run(suite, **options))
    except KeyboardInterrupt:
        sys.exit(130)


def _run(
    suite_path: Path,
    *,
    output: Path | None,
    engine: str | None,
    resume: Path | None,
    retry: frozenset[Status] | None,
    jobs: int,
    executor: str,
    fail_fast: bool,
    no_report: bool,
) -> int:
    from kvbench.plan.make import make_plan
    from kvbench.plugins import load_plugins
    from kvbench.runner.finish import finish_run
    from kvbench.runner.run import RunOptions, run_plan
    from kvbench.suite.load import load_suite

    if resume is not None and output is not None:
        raise click.UsageError("--resume continues in its own folder; leave -o out")
    if retry is not None and resume is None:
        raise click.UsageError("--retry needs --resume RUN")
    plugins = load_plugins()
    suite = load_suite(suite_path, plugins)
    plan = make_plan(suite, plugins, only_engine=engine)
    options = RunOptions(
        run_dir=output,
        resume=resume,
        retry=retry or frozenset(),
        jobs=jobs,
        executor=executor,
        fail_fast=fail_fast,
        command=_command_line(),
    )
    end = run_plan(plan, plugins, options)
    results = finish_run(end.run_dir, suite)
    if not no_report:
        _write_report(end.run_dir)
    _summarise(results, end.run_dir, end.reused)
    return 130 if end.interrupted else exit_code(results)


def exit_code(results: Results) -> int:
    """Return the exit code of a run that came to its end."""
    from kvbench.results.schema import Status
    from kvbench.results.verdict import ExpectStatus

    statuses = Counter(results.cells["status"].to_pylist())
    expected: dict[str, set[str]] = {}
    for verdict in results.metadata.expectations:
        expected.setdefault(verdict.name, set()).add(verdict.status)
    if any(ExpectStatus.FAILED in found for found in expected.values()):
        return 1
    if statuses[Status.FAILED] or statuses[Status.TIMEOUT]:
        return 3
    empty_gate = any(ExpectStatus.MET not in found for found in expected.values())
    return 4 if empty_gate or not statuses[Status.PASSED] else 0


def _command_line() -> tuple[str, ...]:
    context = click.get_current_context()
    words = ["kvbench", "run"]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if value in (None, False) or value == parameter.get_default(context):
            continue
        if isinstance(parameter, click.Option):
            words.append(parameter.opts[-1])
        if value is not True:
            words.append(_word(value))
    return tuple(words)


def _word(value: Any) -> str:
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value)


def _write_report(run_dir: Path) -> None:
    """Write the report; without it the results are just as good."""
    try:
        from kvbench.report.make import write_report

        write_report(run_dir)
    except Exception as error:
        words = " ".join(str(error).split())
        click.echo(f"kvbench: no report: {type(error).__name__}: {words}", err=True)


def _summarise(results: Results, run_dir: Path, reused: int) -> None:
    from kvbench.names import counted
    from kvbench.results.schema import Status

    cells = results.cells.select(["status", "reason", "error"]).to_pylist()
    statuses = Counter(row["status"] for row in cells)
    parts = [f"{count} {status}" for status in Status if (count := statuses[status])]
    kept = f", {reused} of them from earlier" if reused else ""
    click.echo(f"{counted(len(cells), 'cell')}: {', '.join(parts) or 'none'}{kept}", err=True)
    _summarise_reasons(cells)
    _summarise_verdicts(results)
    for warning in results.metadata.warnings:
        click.echo(f"warning: {warning}", err=True)
    if not results.metadata.complete:
        click.echo(f"partial: continue with --resume {run_dir}", err=True)
    click.echo(str(run_dir))


def _summarise_reasons(cells: list[dict[str, Any]]) -> None:
    """Say how often each reason came up, and what the first of its cells said."""
    reasons = Counter((row["status"], row["reason"]) for row in cells if row["reason"])
    first: dict[tuple[str, str], str] = {}
    for row in cells:
        if row["error"]:
            first.setdefault((row["status"], row["reason"]), " ".join(row["error"].split()))
    for key, count in sorted(reasons.items()):
        line = f"  {key[0]:12} {key[1]:22} {count:<6} {first.get(key, '')}".rstrip()
        click.echo(line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…", err=True)


def _summarise_verdicts(results: Results) -> None:
    from kvbench.results.verdict import ExpectStatus

    metadata = results.metadata
    if metadata.comparisons:
        verdicts = Counter(pair.verdict for pair in metadata.comparisons)
        words = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
        click.echo(f"comparisons: {words}", err=True)
    bad = [found for found in metadata.expectations if found.status is not ExpectStatus.MET]
    if metadata.expectations:
        met = len(metadata.expectations) - len(bad)
        click.echo(f"expectations: {met} of {len(metadata.expectations)} met", err=True)
    for found in bad[:_SHOWN]:
        where = ", ".join(f"{axis}={value}" for axis, value in found.where.items())
        click.echo(
            f"  {found.status}: {found.name} [{where}] {found.metric} {found.relation}: "
            f"{found.reason}",
            err=True,
        )
