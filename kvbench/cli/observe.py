"""``kvbench observe``: a running server's own figures, over time, as a run."""

from __future__ import annotations

import datetime as dt
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvbench.errors import CellFailed, KvbenchError
from kvbench.plugins import Plugin, load_plugins

if TYPE_CHECKING:
    from kvbench.engine import Observer
    from kvbench.observe import Observation
    from kvbench.results.record import CellIdentity

#: Seconds between two savings of what was seen so far.
_SAVE_EVERY_S = 30.0


@click.command("observe")
@click.argument("url")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of the run, new or empty.",
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.05),
    default=1.0,
    show_default=True,
    help="Seconds between two readings.",
)
@click.option(
    "--for",
    "for_s",
    type=click.FloatRange(min=0.0),
    help="Seconds to watch; without it until Ctrl-C.",
)
@click.option(
    "--most",
    type=click.IntRange(min=2),
    default=20_000,
    show_default=True,
    help="Readings to keep; beyond that the series is thinned out and its peaks are kept.",
)
def command(url: str, output: Path, interval_s: float, for_s: float | None, most: int) -> None:
    """Sample the server at URL into the result schema; it is only read.

    A bearer token is taken from the environment variable KVBENCH_API_TOKEN and never stored.
    """
    from kvbench.observe import find_observer, watch
    from kvbench.report.make import write_report
    from kvbench.runner.folder import make_folder

    plugin, observer = _found(url, find_observer)
    make_folder(output)
    run = _Run(url=url, output=output, plugin=plugin, observer=observer)
    with _interrupts() as interrupted:
        seen = watch(
            observer,
            interval_s=interval_s,
            most=most,
            until=lambda at_s: bool(interrupted) or (for_s is not None and at_s >= for_s),
            each=run.update,
        )
    run.save(seen, complete=True)
    write_report(output)
    click.echo(output)
    if not seen.series.readings:
        sys.exit(4)
    if interrupted and for_s is not None:
        sys.exit(130)


def _found(url: str, find: Callable[..., tuple[Plugin, Observer]]) -> tuple[Plugin, Observer]:
    try:
        return find(url.rstrip("/"), load_plugins())
    except CellFailed as failure:
        raise KvbenchError(f"observe: {failure}") from failure


class _Run:
    """The run's folder, saved now and then, and the line on the terminal."""

    def __init__(self, url: str, output: Path, plugin: Plugin, observer: Observer) -> None:
        self.url, self.output, self.plugin, self.observer = url, output, plugin, observer
        self.started = dt.datetime.now(dt.UTC)
        self.saved_at_s = 0.0
        self.identity = _identity(plugin, url, self.started)

    def update(self, seen: Observation) -> None:
        """Show the last reading; save when it is time."""
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[2K{_line(seen)}", err=True, nl=False)
        at_s = seen.series.readings[-1][0] if seen.series.readings else 0.0
        if at_s - self.saved_at_s >= _SAVE_EVERY_S:
            self.save(seen, complete=False)
            self.saved_at_s = at_s

    def save(self, seen: Observation, *, complete: bool) -> None:
        """Write both Parquet files; a reader never sees half of one."""
        from kvbench.cli.single_run import single_metadata
        from kvbench.observe import record_of
        from kvbench.results import build_results, write_results

        metadata = single_metadata(
            self.plugin,
            self.identity,
            description=f"{self.plugin.name} at {self.url}, as it reported itself",
            started=self.started,
            complete=complete,
        )
        record = record_of(seen, self.identity, self.observer.explain())
        write_results(self.output, build_results([record], metadata))


def _identity(plugin: Plugin, url: str, started: dt.datetime) -> CellIdentity:
    from kvbench.cli.single_run import single_identity
    from kvbench.engine import Stage

    return single_identity(
        plugin,
        benchmark="observe",
        stage=Stage.MEASURE,
        axes={"url": url},
        params={"url": url},
        started=started,
    )


def _line(seen: Observation) -> str:
    if not seen.series.readings:
        return seen.gaps[-1] if seen.gaps else "nothing read yet"
    at_s, gauges = seen.series.readings[-1]
    figures = "  ".join(f"{name} {value:g}" for name, value in gauges.items())
    gaps = f"  ({seen.gap_count} gaps)" if seen.gap_count else ""
    return f"{at_s:7.1f} s  {figures}{gaps}"


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM instead of dying of them."""
    seen: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda n, _: seen.append(n)) for number in numbers]
    try:
        yield seen
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
