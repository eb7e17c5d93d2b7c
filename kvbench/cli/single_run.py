"""One cell outside of any suite, as a run: what ``simulate -o`` and ``observe -o`` leave behind.

Commands of plugins use it too; it imports Arrow, so import it inside the command.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import sys
from collections.abc import Mapping

from kvbench import __version__
from kvbench.engine import CellOutput, Scalar, Stage
from kvbench.plugins import Plugin
from kvbench.results.build import build_results
from kvbench.results.metadata import RunMetadata
from kvbench.results.record import CellIdentity, CellRecord
from kvbench.results.schema import Phase, Status
from kvbench.results.table import Results
from kvbench.runner.environment import collect_environment
from kvbench.runner.observe import record_of
from kvbench.runner.worker import units_of


def single_identity(
    plugin: Plugin,
    *,
    benchmark: str,
    stage: Stage,
    axes: Mapping[str, Scalar],
    params: Mapping[str, Scalar],
    started: dt.datetime,
) -> CellIdentity:
    """Identity of a cell that no plan holds; its id is unique to this start."""
    text = f"{benchmark} {sorted(params.items())} {started.isoformat()}"
    return CellIdentity(
        cell_id=hashlib.sha256(text.encode()).hexdigest(),
        ordinal=0,
        benchmark=benchmark,
        stage=stage,
        engine=plugin.name,
        plugin=plugin.name,
        engine_version=plugin.info.version,
        engine_distribution=plugin.info.distribution,
        axes=axes,
        params=params,
    )


def single_metadata(
    plugin: Plugin,
    identity: CellIdentity,
    *,
    description: str,
    started: dt.datetime,
    complete: bool = True,
) -> RunMetadata:
    """Metadata of a run of one cell; the suite is called as its benchmark."""
    return RunMetadata(
        run_id=f"{started:%Y%m%dT%H%M%SZ}-{identity.cell_id[:6]}",
        kvbench_version=__version__,
        suite_name=identity.benchmark,
        suite_description=description,
        command=("kvbench", *sys.argv[1:]),
        started_at=started.isoformat(timespec="seconds"),
        complete=complete,
        axis_types={axis: type(value).__name__ for axis, value in identity.axes.items()},
        metrics={(metric.name, str(metric.evidence)): metric for metric in plugin.metrics},
        environment=collect_environment([plugin]),
    )


def single_results(
    plugin: Plugin,
    output: CellOutput,
    identity: CellIdentity,
    *,
    description: str,
    started: dt.datetime,
    wall_s: float,
) -> Results:
    """Results of one cell that passed.

    Raises:
        CellFailed: A metric is not registered, or a value is not finite.
    """
    repeat = record_of(
        output,
        units_of(plugin),
        phase=Phase.MEASURE,
        repeat=0,
        started_at_us=int(started.timestamp() * 1e6),
        wall_s=wall_s,
    )
    record = CellRecord(
        identity=identity,
        status=Status.PASSED,
        attempt=1,
        order_index=0,
        started_at_us=repeat.started_at_us,
        wall_s=wall_s,
        measure_s=wall_s,
        effective=repeat.effective,
        assumptions=repeat.assumptions,
        warnings=repeat.warnings,
        artifacts=repeat.artifacts,
        series=repeat.series,
    )
    metadata = single_metadata(plugin, identity, description=description, started=started)
    return build_results([record], metadata)
