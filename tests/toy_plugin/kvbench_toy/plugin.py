"""Hooks of the toy engine: a cache of one byte per token, with moods."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from kvbench import hookimpl
from kvbench.engine import (
    Availability,
    Cell,
    CellOutput,
    Direction,
    EngineConfig,
    EngineInfo,
    Evidence,
    Metric,
    Observation,
    Option,
    ReportSection,
    Scope,
    Stage,
)


@hookimpl
def kvbench_engine() -> EngineInfo:
    return EngineInfo(
        name="toy",
        version="0.3.0",
        distribution="kvbench-toy",
        summary="One byte per token.",
        evidence=frozenset({Evidence.ENGINE}),
        stages=frozenset({Stage.MEASURE}),
        options=(
            Option(name="tokens", type="int", help="Tokens.", required=True, minimum=1),
            Option(name="mood", type="str", help="Raise or not.", default="good"),
            Option(name="bonus", type="int", help="More bytes.", default=0, scope=Scope.ENGINE),
        ),
        probe=lambda: Availability(available=True),
    )


@hookimpl
def kvbench_metrics() -> Sequence[Metric]:
    return (
        Metric(
            name="toy_bytes",
            unit="bytes",
            direction=Direction.LOWER,
            evidence=Evidence.ENGINE,
            meaning="Bytes of the toy's cache.",
            exact=True,
        ),
    )


@hookimpl
def kvbench_commands(cli: click.Group) -> None:
    @cli.command("toy-hello", help="Greet from the toy.")
    def hello() -> None:
        click.echo("hello from the toy")


@hookimpl
def kvbench_environment() -> Mapping[str, str]:
    return {"wheels": "4", "API_TOKEN": "never store this"}


@hookimpl
def kvbench_open(config: EngineConfig) -> Any:
    return _engine(int(config.settings["bonus"]))


@contextlib.contextmanager
def _engine(bonus: int) -> Iterator[int]:
    yield bonus


@hookimpl
def kvbench_measure(cell: Cell, session: Any) -> CellOutput:
    if cell.settings["mood"] != "good":
        raise RuntimeError("the toy is in a bad mood")
    value = int(cell.settings["tokens"]) + session
    return CellOutput(
        observations=(Observation(metric="toy_bytes", value=value, evidence=Evidence.ENGINE),)
    )


@hookimpl
def kvbench_report_sections(results: Any) -> Sequence[ReportSection]:
    return (ReportSection(title="Toys", text="What toys do & <how>.", evidence=Evidence.ENGINE),)
