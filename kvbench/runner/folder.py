"""The folder of a run: made, found again, and described in ``plan.json``."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from kvbench import __version__
from kvbench.errors import ResultsError
from kvbench.plan.spec import Plan, PlannedCell, StageCounts
from kvbench.plugins import Plugins
from kvbench.results.journal import Outcome
from kvbench.results.metadata import BenchmarkInfo, Environment, RunMetadata, plain
from kvbench.results.rebuild import StoredPlan, plan_to_json
from kvbench.results.record import CellIdentity
from kvbench.results.schema import (
    CELLS_FILE,
    ENVIRONMENT_FILE,
    LOGS_FOLDER,
    PLAN_FILE,
    RUNS_FOLDER,
    SAMPLES_FILE,
    SUITE_FILE,
    Status,
)
from kvbench.suite.spec import Benchmark


def new_run_id(plan: Plan, now: dt.datetime) -> str:
    """Return an id that sorts by time and tells plans apart: ``20261129T174501Z-3f9a2c``."""
    return f"{now.astimezone(dt.UTC):%Y%m%dT%H%M%SZ}-{plan.plan_id[:6]}"


def default_folder(suite_name: str, run_id: str) -> Path:
    """Return a folder under ``reports/runs`` that does not exist yet."""
    base = RUNS_FOLDER / suite_name
    names = [run_id, *(f"{run_id}-{number}" for number in range(2, 1000))]
    return next(base / name for name in names if not (base / name).exists())


def make_folder(run_dir: Path) -> None:
    """Make the folder of a new run.

    Raises:
        ResultsError: It holds something already, or cannot be made or written.
    """
    with writing(run_dir):
        run_dir.mkdir(parents=True, exist_ok=True)
        if any(run_dir.iterdir()):
            raise ResultsError(
                f"{run_dir} is not empty; name a new folder, or continue the run in it with "
                f"--resume {run_dir}"
            )
        (run_dir / LOGS_FOLDER).mkdir()


def reopen_folder(run_dir: Path) -> None:
    """Prepare the folder of an earlier run.

    Raises:
        ResultsError: It is not the folder of a run, or cannot be written.
    """
    if not (run_dir / PLAN_FILE).is_file():
        raise ResultsError(f"{run_dir}: no {PLAN_FILE}; not the folder of a run to resume")
    with writing(run_dir):
        (run_dir / LOGS_FOLDER).mkdir(exist_ok=True)


def write_plan(run_dir: Path, stored: StoredPlan, environment: Environment) -> None:
    """Write ``suite.toml``, ``plan.json`` and ``environment.json``.

    Result files of an earlier session are removed: they come back from the journal.

    Raises:
        ResultsError: The folder cannot be written.
    """
    with writing(run_dir):
        for name in (CELLS_FILE, SAMPLES_FILE):
            (run_dir / name).unlink(missing_ok=True)
        _replace(run_dir / SUITE_FILE, stored.metadata.suite_toml)
        _replace(run_dir / ENVIRONMENT_FILE, json.dumps(environment, indent=1) + "\n")
        _replace(run_dir / PLAN_FILE, json.dumps(plan_to_json(stored)) + "\n")


@contextlib.contextmanager
def writing(run_dir: Path) -> Iterator[None]:
    """Turn a refusal of the file system into one clear line."""
    try:
        yield
    except OSError as error:
        raise ResultsError(
            f"cannot write the run's folder {run_dir}: {error.strerror or error}"
        ) from None


def stored_plan(
    plan: Plan, plugins: Plugins, *, run_id: str, command: Sequence[str], now: dt.datetime
) -> StoredPlan:
    """Return what ``plan.json`` says about ``plan``."""
    suite = plan.suite
    used = {planned.cell.plugin for planned in plan.cells}
    metrics = {
        (metric.name, str(metric.evidence)): metric
        for name in sorted(used & plugins.loaded.keys())
        for metric in plugins.loaded[name].metrics
    }
    counts = {row.benchmark: row for row in plan.counts}
    metadata = RunMetadata(
        run_id=run_id,
        kvbench_version=__version__,
        suite_name=suite.name,
        suite_description=suite.description,
        suite_tags=suite.tags,
        suite_sha256=suite.sha256,
        suite_toml=suite.text,
        plan_sha256=plan.plan_id,
        command=tuple(command),
        started_at=now.astimezone(dt.UTC).isoformat(timespec="seconds"),
        complete=False,
        axis_types=dict(plan.axis_types),
        metrics=metrics,
        benchmarks=tuple(_benchmark(item, counts.get(item.name)) for item in suite.benchmarks),
    )
    return StoredPlan(
        metadata=metadata,
        cells=tuple(_identity(planned) for planned in plan.cells),
        skipped={p.cell.cell_id: _skip(p) for p in plan.cells if p.skip_status},
    )


def _identity(planned: PlannedCell) -> CellIdentity:
    cell = planned.cell
    return CellIdentity(
        cell_id=cell.cell_id,
        ordinal=cell.ordinal,
        benchmark=cell.benchmark,
        stage=str(cell.stage),
        engine=cell.engine,
        plugin=cell.plugin,
        config_id=planned.config_id,
        engine_version=planned.engine_version,
        engine_distribution=planned.engine_distribution,
        cache=str(cell.cache),
        seed=cell.seed,
        axes=dict(cell.axes),
        params={**cell.settings, **cell.axes},
    )


def _skip(planned: PlannedCell) -> Outcome:
    return Outcome(
        status=Status(planned.skip_status),
        reason=planned.skip_reason,
        error=planned.skip_message,
    )


def _benchmark(benchmark: Benchmark, counts: StageCounts | None) -> BenchmarkInfo:
    stages = {} if counts is None else plain(counts)
    stages.pop("benchmark", None)
    return BenchmarkInfo(
        name=benchmark.name,
        stage=str(benchmark.stage),
        engines=benchmark.engines,
        axes={**benchmark.matrix, **benchmark.zip},
        counts=stages,
        excluded=tuple(item.reason for item in benchmark.exclude),
        protocol={
            item.name: plain(getattr(benchmark.protocol, item.name))
            for item in dataclasses.fields(benchmark.protocol)
        },
    )


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(text.encode())
    temporary.replace(path)
