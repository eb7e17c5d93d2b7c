"""Plans for the fake engine, made by hand so that the runner is tested by itself."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from kvbench.engine import Cell, EngineConfig, Scalar, Stage
from kvbench.plan.spec import Plan, PlannedCell, StageCounts
from kvbench.results import Results, read_results
from kvbench.runner.run import RunEnd, RunOptions, run_plan
from kvbench.suite.spec import Benchmark, EngineTable, Protocol, Suite
from kvbench.testing.fake_engine import fake_plugins

ENGINE_AXES = ("mode",)


def plan_of(*points: dict[str, Scalar], **protocol: Any) -> Plan:
    """One benchmark on the fake engine with a cell for each point."""
    settings = Protocol(**{"warmup": 0, "repeats": 1, "timeout_s": 30.0, **protocol})
    cells = tuple(_planned(n, dict(point), settings) for n, point in enumerate(points))
    axis_types = {axis: type(value).__name__ for point in points for axis, value in point.items()}
    digest = hashlib.sha256("".join(c.cell.cell_id for c in cells).encode()).hexdigest()
    count = len(points)
    return Plan(
        suite=_suite(settings),
        plan_id=digest,
        cells=cells,
        counts=(
            StageCounts(
                benchmark="b", product=count, zipped=count, excluded=0, included=0, fit=count
            ),
        ),
        axis_types=axis_types,
    )


def run(plan: Plan, run_dir: Path, **options: Any) -> Results:
    """Run a plan and read what its journal says."""
    end(plan, run_dir, **options)
    return read_results(run_dir)


def end(plan: Plan, run_dir: Path | None, **options: Any) -> RunEnd:
    key = "run_dir" if "resume" not in options else "resume"
    return run_plan(plan, fake_plugins(), RunOptions(**{**options, key: run_dir}))


def column(results: Results, name: str) -> list[Any]:
    values: list[Any] = results.cells[name].to_pylist()
    return values


def samples(results: Results, metric: str, ordinal: int = 0, phase: str = "measure") -> list[float]:
    cell_id = column(results, "cell_id")[ordinal]
    return [
        row["value"]
        for row in results.samples.to_pylist()
        if (row["cell_id"], row["metric"], row["phase"]) == (cell_id, metric, phase)
    ]


def _planned(ordinal: int, axes: dict[str, Scalar], protocol: Protocol) -> PlannedCell:
    engine = {axis: axes[axis] for axis in ENGINE_AXES if axis in axes}
    cell = Cell(
        cell_id=_digest({"axes": axes, "seed": protocol.seed}),
        ordinal=ordinal,
        benchmark="b",
        stage=Stage.MEASURE,
        engine="fake",
        plugin="fake",
        axes=axes,
        settings=axes,
    )
    return PlannedCell(
        cell=cell,
        config=EngineConfig(engine="fake", plugin="fake", settings=engine),
        config_id=_digest(engine),
        protocol=protocol,
        engine_version="1.0",
        engine_distribution="kvbench",
        exclusive=False,
        monotonic=("batch",),
    )


def _suite(protocol: Protocol) -> Suite:
    text = "schema = 1\n"
    benchmark = Benchmark(
        name="b",
        stage=Stage.MEASURE,
        engines=("fake",),
        options={},
        matrix={},
        zip={},
        exclude=(),
        include=(),
        protocol=protocol,
    )
    return Suite(
        path=Path("suite.toml"),
        text=text,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        name="fakes",
        description="",
        tags=(),
        protocol=protocol,
        engines={"fake": EngineTable(name="fake", plugin="fake", options={})},
        models={},
        devices={},
        workloads={},
        benchmarks=(benchmark,),
    )


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
