"""``kvbench report``: render the report of one run, or of several side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kvbench.results import Results


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
    from kvbench.report.make import report_path, write_page

    results = [_read(path) for path in runs]
    target = output or report_path(runs[0])
    write_page(results, target)
    click.echo(target)
    for file in exports:
        export(results[-1], file)
        click.echo(file)


def _read(path: Path) -> Results:
    """Read a run; the cells of a killed one are judged by its suite all the same."""
    from kvbench.plugins import load_plugins
    from kvbench.results.read import is_killed, read_results
    from kvbench.runner.finish import read_killed

    return read_killed(path, load_plugins()) if is_killed(path) else read_results(path)
