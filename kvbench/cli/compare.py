"""``kvbench compare``: two runs, pair by pair, with verdicts and an exit code."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvbench.cli.output import emit, emit_json, format_option

if TYPE_CHECKING:
    from kvbench.results import Results
    from kvbench.results.verdict import PairVerdict

_VERDICTS = ("better", "worse", "same", "inconclusive", "missing")
_COLUMNS = (
    "benchmark",
    "engine",
    "cell",
    "metric",
    "evidence",
    "base",
    "new",
    "unit",
    "ratio",
    "interval",
    "p_value",
    "verdict",
    "reason",
)


@click.command()
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option(
    "--fail-on",
    multiple=True,
    type=click.Choice(("worse", "inconclusive", "missing", "none")),
    default=("worse",),
    show_default=True,
    help="Verdicts that make the exit code 1; may be given several times.",
)
@click.option(
    "--only", multiple=True, type=click.Choice(_VERDICTS), help="Print these verdicts only."
)
@click.option("--metric", "metrics", multiple=True, help="Compare these metrics only.")
@click.option("--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05)
@click.option(
    "--margin",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.02,
    show_default=True,
    help="Relative difference that counts as the same.",
)
@click.option(
    "--comment",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write a Markdown comment for a pull request to this file.",
)
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write JUnit XML to this file; verdicts of --fail-on are failures.",
)
@format_option
def command(
    base: Path,
    new: Path,
    fail_on: tuple[str, ...],
    only: tuple[str, ...],
    metrics: tuple[str, ...],
    alpha: float,
    margin: float,
    comment: Path | None,
    junit: Path | None,
    output_format: str,
) -> None:
    """Compare the run NEW with the run BASE, cell by cell.

    Cells are paired by benchmark, engine and axes. Each metric gets the ratio of medians, a
    bootstrap interval, a rank test, and a verdict; metrics registered as exact need no repeats.

    Exit codes: 0 ok, 1 a verdict of --fail-on was found, 2 a run cannot be read, 4 nothing
    could be compared.
    """
    from kvbench.compare.judge import Rules
    from kvbench.compare.pairs import compare_runs
    from kvbench.results import read_results

    before, after = read_results(base), read_results(new)
    pairs = compare_runs(before, after, Rules(alpha=alpha, margin=margin))
    if metrics:
        pairs = [pair for pair in pairs if pair.metric in metrics or not pair.metric]
    shown = [pair for pair in pairs if not only or pair.verdict in only]
    if output_format == "json":
        _emit_json(before, after, pairs, shown)
    else:
        emit([_row(pair) for pair in shown], _COLUMNS, output_format)
    _summarise(before, after, pairs)
    if comment or junit:
        from kvbench.report.comparison_files import write_comment, write_junit

        if comment:
            write_comment(comment, pairs, base=before, new=after)
        if junit:
            write_junit(junit, pairs, new=after, fail_on=fail_on)
    sys.exit(exit_code(pairs, fail_on))


def exit_code(pairs: Sequence[PairVerdict], fail_on: Sequence[str]) -> int:
    """Return 4 when nothing was compared, 1 when a verdict of ``fail_on`` was found, else 0.

    A cell that only the new run has is no loss: ``missing`` means that the new run lacks it.
    """
    if not any(pair.verdict != "missing" for pair in pairs):
        return 4
    bad = [pair for pair in pairs if pair.verdict in fail_on]
    return int(any(pair.verdict != "missing" or pair.base_cell for pair in bad))


def _row(pair: PairVerdict) -> dict[str, Any]:
    interval = ""
    if pair.ratio_low is not None and pair.ratio_high is not None:
        interval = f"{pair.ratio_low:.4g} .. {pair.ratio_high:.4g}"
    evidence = pair.evidence
    if pair.base_evidence and pair.base_evidence != pair.evidence:
        evidence = f"{pair.base_evidence} -> {pair.evidence}"
    return {
        "benchmark": pair.benchmark,
        "engine": pair.engine,
        "cell": ", ".join(f"{axis}={value}" for axis, value in pair.where.items()),
        "metric": pair.metric,
        "evidence": evidence,
        "base": _number(pair.base_median),
        "new": _number(pair.new_median),
        "unit": pair.unit,
        "ratio": pair.ratio,
        "interval": interval,
        "p_value": pair.p_value,
        "verdict": str(pair.verdict),
        "reason": pair.reason,
    }


def _number(value: float | None) -> float | int | None:
    """Counts are printed as such, to their last digit."""
    return int(value) if value is not None and value.is_integer() else value


def _emit_json(
    base: Results, new: Results, pairs: Sequence[PairVerdict], shown: Sequence[PairVerdict]
) -> None:
    from kvbench.results.metadata import plain

    emit_json(
        {
            "base": base.run_id,
            "new": new.run_id,
            "complete": base.metadata.complete and new.metadata.complete,
            "verdicts": Counter(str(pair.verdict) for pair in pairs),
            "environment_changes": _environment_changes(base, new),
            "pairs": [plain(pair) for pair in shown],
        }
    )


def _summarise(base: Results, new: Results, pairs: Sequence[PairVerdict]) -> None:
    counts = Counter(str(pair.verdict) for pair in pairs)
    words = ", ".join(f"{counts[name]} {name}" for name in _VERDICTS if counts[name])
    click.echo(f"{base.run_id} -> {new.run_id}: {words or 'nothing to compare'}", err=True)
    from kvbench.compare.many import family_sentence

    family = family_sentence(pairs)
    if family:
        click.echo(family, err=True)
    for side, results in (("base", base), ("new", new)):
        if not results.metadata.complete:
            click.echo(f"warning: the {side} run is partial", err=True)
    for change in _environment_changes(base, new):
        click.echo(f"environment: {change}", err=True)


def _environment_changes(base: Results, new: Results) -> list[str]:
    from kvbench.compare.settings import setting_changes
    from kvbench.results.metadata import environment_changes

    around = environment_changes(base.metadata.environment, new.metadata.environment)
    changes = (*setting_changes(base, new), *around)
    return [f"{key}: {old} -> {now}" for key, old, now in changes]
