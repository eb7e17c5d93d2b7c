"""``kvbench plan``: what a suite would run, and why the rest would not."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvbench.cli.output import emit, emit_json, format_option

if TYPE_CHECKING:
    from kvbench.plan.estimate import Estimate
    from kvbench.plan.spec import Plan, PlannedCell

#: Stages of the expansion, in order, each with its field of ``StageCounts``.
STAGES = {
    "product": "product",
    "zip": "zipped",
    "exclude": "excluded",
    "include": "included",
    "fit": "fit",
}


@click.command("plan")
@click.argument("suite", type=click.Path(path_type=Path))
@click.option("--engine", help="Only the cells of this [engines.NAME] table.")
@format_option
def command(suite: Path, engine: str | None, output_format: str) -> None:
    """Show what SUITE would run, without running it.

    Lists every cell, how many there are after each stage of the expansion, why some will not
    run, and how long the rest may take. With csv and md only the cells go to stdout.
    """
    from kvbench.plan.estimate import estimate
    from kvbench.plan.make import make_plan
    from kvbench.plugins import load_plugins
    from kvbench.results.schema import RUNS_FOLDER
    from kvbench.suite.load import load_suite

    plugins = load_plugins()
    loaded = load_suite(suite, plugins)
    plan = make_plan(loaded, plugins, only_engine=engine)
    times = estimate(plan, RUNS_FOLDER / loaded.name)
    if output_format == "json":
        emit_json(_document(plan, times))
        return
    aside = output_format != "table"
    _echo_counts(plan, aside=aside)
    emit(_rows(plan), _columns(plan), output_format)
    _echo_skips(plan, aside=aside)
    _echo_times(times, aside=aside)


def _document(plan: Plan, times: Estimate) -> dict[str, Any]:
    return {
        "suite": plan.suite.name,
        "path": str(plan.suite.path),
        "sha256": plan.suite.sha256,
        "plan_id": plan.plan_id,
        "cells": [_cell_document(cell) for cell in plan.cells],
        "counts": [dataclasses.asdict(counts) for counts in plan.counts],
        "excludes": [
            {"benchmark": benchmark.name, "reason": exclude.reason}
            for benchmark in plan.suite.benchmarks
            for exclude in benchmark.exclude
        ],
        "estimate": dataclasses.asdict(times),
    }


def _cell_document(planned: PlannedCell) -> dict[str, Any]:
    cell = planned.cell
    return {
        "ordinal": cell.ordinal,
        "cell_id": cell.cell_id,
        "config_id": planned.config_id,
        "benchmark": cell.benchmark,
        "stage": cell.stage,
        "engine": cell.engine,
        "plugin": cell.plugin,
        "engine_version": planned.engine_version,
        "engine_distribution": planned.engine_distribution,
        "axes": cell.axes,
        "settings": cell.settings,
        "seed": cell.seed,
        "protocol": dataclasses.asdict(planned.protocol),
        "status": planned.skip_status or "run",
        "reason": planned.skip_reason,
        "message": planned.skip_message,
    }


def _columns(plan: Plan) -> tuple[str, ...]:
    return ("ordinal", "cell", "benchmark", "stage", "engine", *plan.axis_types, "status", "reason")


def _rows(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "ordinal": planned.cell.ordinal,
            "cell": planned.cell.cell_id[:12],
            "benchmark": planned.cell.benchmark,
            "stage": planned.cell.stage,
            "engine": planned.cell.engine,
            **planned.cell.axes,
            "status": planned.skip_status or "run",
            "reason": planned.skip_reason,
        }
        for planned in plan.cells
    ]


def _echo_counts(plan: Plan, *, aside: bool) -> None:
    click.echo(
        f"suite {plan.suite.name}: {_runnable(plan)} of {len(plan.cells)} cells would run",
        err=aside,
    )
    for counts in plan.counts:
        stages = " -> ".join(f"{stage} {getattr(counts, name)}" for stage, name in STAGES.items())
        click.echo(f"  {counts.benchmark}: {stages}", err=aside)
    click.echo(err=aside)


def _runnable(plan: Plan) -> int:
    return sum(not planned.skip_status for planned in plan.cells)


def _echo_skips(plan: Plan, *, aside: bool) -> None:
    """Every reason once, with the number of cells and one example where they differ."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for planned in plan.cells:
        if planned.skip_status:
            key = (planned.skip_status, f"{planned.skip_reason} ({planned.cell.engine})")
            reasons.setdefault(key, []).append(planned.skip_message)
    for benchmark in plan.suite.benchmarks:
        for exclude in benchmark.exclude:
            click.echo(f"excluded: {benchmark.name}: {exclude.reason}", err=aside)
    for (status, reason), messages in reasons.items():
        counted = Counter(messages)
        more = f" (and {len(counted) - 1} more like it)" if len(counted) > 1 else ""
        first = next(iter(counted))
        click.echo(f"{status}: {len(messages)} cells, {reason}: {first}{more}", err=aside)


def _echo_times(times: Estimate, *, aside: bool) -> None:
    if not times.runnable_cells:
        click.echo(f"time: none; {times.basis}", err=aside)
        return
    if times.expected_s is not None:
        words = f"about {_duration(times.expected_s)}; based on {times.basis}"
    else:
        words = (
            f"not known, since earlier runs measured {times.known_cells:,} of "
            f"{times.runnable_cells:,} cells; by the protocol at least "
            f"{_duration(times.at_least_s)} (min_measure_s), and at most "
            f"{_duration(times.at_most_s)} if every repeat ran into timeout_s"
        )
    click.echo(f"time: {words}", err=aside)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:,.4g} h"
