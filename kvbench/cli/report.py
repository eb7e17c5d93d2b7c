"""``kvbench report``: render the report of one run, or of several side by side."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report")
@click.argument("runs", nargs=-1, required=True, metavar="RUN…", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="HTML file to write; the default is report.html in the (first) run's folder.",
)
def command(runs: tuple[Path, ...], output: Path | None) -> None:
    """Render the report of one run, or of several side by side.

    One RUN gives its report: HTML and figures from its stored results only. Several RUNs give
    a comparison and history report, in the order given.
    """
    from kvbench.report.make import write_report

    click.echo(write_report(runs[0] if len(runs) == 1 else runs, output))
