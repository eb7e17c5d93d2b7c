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
@click.option(
    "--export",
    "exports",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write every value of the (last) run to this .csv, .parquet or .md file.",
)
def command(runs: tuple[Path, ...], output: Path | None, exports: tuple[Path, ...]) -> None:
    """Render the report of one run, or of several side by side.

    One RUN gives its report: HTML and figures (PNG and SVG) from its stored results only.
    Several RUNs give trends, change points and the newest run against the first; name another
    file with -o to keep the first run's own report.
    """
    from kvbench.report.exports import export
    from kvbench.report.make import write_report
    from kvbench.results import read_results

    click.echo(write_report(runs[0] if len(runs) == 1 else runs, output))
    for target in exports:
        export(read_results(runs[-1]), target)
        click.echo(target)
