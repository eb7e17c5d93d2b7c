"""One cell of a run as plain data: what the journal holds and the Parquet files are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvbench.engine import Scalar
from kvbench.results.schema import Phase, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSeries:
    """The observations of one metric in one repeat; ``sample`` is the position in ``values``.

    Attributes:
        phase: Whether the repeat counts.
        repeat: Number of the repeat within its phase, from 0.
        metric: Registered name.
        evidence: Kind of evidence, registered together with the name.
        values: Finite numbers in the metric's unit.
        t_offsets_us: Microseconds since the start of the repeat, one for each value (``None``
            where unknown), or empty when no value has one.
    """

    phase: Phase
    repeat: int
    metric: str
    evidence: str
    values: tuple[float, ...]
    t_offsets_us: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CellIdentity:
    """What is known of a cell before it runs.

    Attributes:
        cell_id: Content id.
        ordinal: Place in the plan, from 0.
        benchmark: Name of the benchmark.
        stage: Hook that is called.
        engine: Name of the ``[engines.NAME]`` table.
        plugin: Name of the plugin behind it.
        config_id: Content id of the engine configuration.
        engine_version: Version of the engine, empty when unknown.
        engine_distribution: Distribution that owns the engine, empty when unknown.
        cache: Prefix-cache state the cell starts from.
        seed: Seed of the cell.
        axes: Point of the matrix; becomes the ``param_<axis>`` columns.
        params: Everything that was requested, axes included.
    """

    cell_id: str
    ordinal: int
    benchmark: str
    stage: str
    engine: str
    plugin: str
    config_id: str = ""
    engine_version: str = ""
    engine_distribution: str = ""
    cache: str = "cold"
    seed: int = 0
    axes: Mapping[str, Scalar] = field(default_factory=dict)
    params: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRecord:
    """A cell and what became of it.

    Attributes:
        identity: The cell.
        status: What became of it.
        reason: Stable code; empty exactly when the cell passed.
        error: What went wrong, in words.
        log_path: Log of the cell or of its worker, relative to the run's folder.
        attempt: Number of the attempt, from 1; 0 when none was made.
        order_index: Place in the order of finishing, from 0.
        started_at_us: Start of the first repeat, microseconds since 1970 (UTC).
        setup_s: Seconds the engine took to start, shared by the cells of its configuration.
        wall_s: Seconds of all repeats, warm-ups included.
        measure_s: Seconds of the measured repeats.
        effective: Settings as the engine reported them.
        assumptions: Sentences that a reader has to know.
        warnings: Doubtful circumstances.
        artifacts: Named texts that the report shows verbatim.
        series: Samples, warm-ups included.
    """

    identity: CellIdentity
    status: Status
    reason: str = ""
    error: str = ""
    log_path: str = ""
    attempt: int = 0
    order_index: int | None = None
    started_at_us: int | None = None
    setup_s: float | None = None
    wall_s: float | None = None
    measure_s: float | None = None
    effective: Mapping[str, Scalar] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    artifacts: Mapping[str, str] = field(default_factory=dict)
    series: tuple[MetricSeries, ...] = ()
