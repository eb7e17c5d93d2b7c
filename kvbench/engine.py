"""What an engine plugin declares, what it is handed, and what it returns.

These are the nouns of ``kvbench.hookspecs``; they are plain data and import no library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeAlias

from kvbench.device.spec import DeviceSpec
from kvbench.model.spec import ModelSpec
from kvbench.workload.spec import WorkloadSpec

Scalar: TypeAlias = str | int | float | bool


class Evidence(StrEnum):
    """What a number is worth; every metric row has exactly one."""

    ANALYTIC = "analytic"
    SIMULATED = "simulated"
    ENGINE = "engine"
    DEVICE = "device"


class Stage(StrEnum):
    """The hook that a cell calls."""

    SIZE = "size"
    ALLOCATE = "allocate"
    MEASURE = "measure"


class Direction(StrEnum):
    """Which way a metric is better."""

    LOWER = "lower"
    HIGHER = "higher"
    NONE = "none"


class Scope(StrEnum):
    """Whether changing an option needs another live engine, or only another cell."""

    ENGINE = "engine"
    CELL = "cell"


class Cache(StrEnum):
    """State of the prefix cache a cell asks for (``protocol.cache``)."""

    COLD = "cold"
    WARM = "warm"
    PRIMED = "primed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One registered metric of one kind of evidence.

    Attributes:
        name: ``snake_case``, unit last (``pool_bytes``, ``peak_used_blocks``).
        unit: ``bytes``, ``tokens``, ``blocks``, ``requests``, ``ratio``, ``count``, ``s``,
            ``bytes_per_token``, ``bytes_per_s`` or ``tokens_per_s``.
        direction: Which way is better; ``none`` metrics never get a better/worse verdict.
        evidence: What the numbers are worth.
        meaning: One sentence a reader of a report understands.
        exact: Same inputs always give the same value: one sample is enough to compare.
    """

    name: str
    unit: str
    direction: Direction
    evidence: Evidence
    meaning: str
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One setting an engine understands: fixed in ``options`` or swept as an axis.

    ``model``, ``device`` and ``workload`` are options whose value names a suite table or a
    catalog entry; the core resolves them, so that a cell carries the spec itself.

    Attributes:
        name: The engine's own name for it where it has one.
        type: ``int``, ``float``, ``str``, ``bool``, ``model``, ``device`` or ``workload``.
        help: One sentence, unit included.
        default: Value when the suite is silent; ``None`` means "the engine chooses".
        required: The suite must state it.
        choices: Allowed values, empty for any.
        minimum: Smallest allowed number.
        scope: ``engine`` options make another live engine, ``cell`` options do not.
        monotonic: More of it never needs less memory (fit rule, out-of-memory back-stop).
        stages: Stages that read it, empty for all.
        attaches: Stated, it names an engine that runs already: none needs to be installed here.
    """

    name: str
    type: str
    help: str
    default: Scalar | None = None
    required: bool = False
    choices: tuple[Scalar, ...] = ()
    minimum: float | None = None
    scope: Scope = Scope.CELL
    monotonic: bool = False
    stages: tuple[Stage, ...] = ()
    attaches: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Whether an engine can run here.

    Attributes:
        available: It can.
        reason: What is missing, empty when available.
        remedy: What the user can do about it.
    """

    available: bool
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """Who an engine plugin is.

    Attributes:
        name: Name of the plugin in suites and on the command line.
        version: Version of the engine (not of the plugin), empty until known.
        distribution: Installed distribution that owns the engine.
        summary: One sentence for ``kvbench engines``.
        evidence: Kinds of evidence it can give.
        stages: Stages it implements.
        options: Everything a suite may set for it.
        probe: Cheap check (no heavy import, no device work) whether it can run here.
        deterministic: Same cell, same values: one repeat is enough, warm-up is pointless.
        exclusive: Cells of this engine never run beside any other cell (timing, devices).
    """

    name: str
    version: str
    distribution: str
    summary: str
    evidence: frozenset[Evidence]
    stages: frozenset[Stage]
    options: tuple[Option, ...]
    probe: Callable[[], Availability]
    deterministic: bool = False
    exclusive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One engine with its options at one point of the matrix.

    Attributes:
        cell_id: Content id (see ``kvbench.plan``).
        ordinal: Place in the plan, from 0.
        benchmark: Name of the benchmark.
        stage: Hook to call.
        engine: Name of the ``[engines.NAME]`` table.
        plugin: Name of the plugin behind it.
        axes: The point of the matrix as the suite wrote it (models and devices by name).
        settings: Every option the engine declares and the suite or a default gave a value.
        model: Resolved ``model`` option.
        device: Resolved ``device`` option.
        workload: Resolved ``workload`` option.
        seed: Seed derived from (suite seed, cell); streams derive further seeds from it.
        cache: Prefix-cache state that the cell must start from.
    """

    cell_id: str
    ordinal: int
    benchmark: str
    stage: Stage
    engine: str
    plugin: str
    axes: Mapping[str, Scalar]
    settings: Mapping[str, Scalar]
    model: ModelSpec | None = None
    device: DeviceSpec | None = None
    workload: WorkloadSpec | None = None
    seed: int = 0
    cache: Cache = Cache.COLD


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """What ``kvbench_open`` gets: the part of a cell that decides which live engine it needs.

    Attributes:
        engine: Name of the ``[engines.NAME]`` table.
        plugin: Name of the plugin.
        settings: Options of scope ``engine`` only.
        model: The model, when the plugin declares the ``model`` option with scope ``engine``.
        device: The device, under the same condition.
        log_path: File that the engine's own output should go to, ``None`` for nowhere.
    """

    engine: str
    plugin: str
    settings: Mapping[str, Scalar]
    model: ModelSpec | None = None
    device: DeviceSpec | None = None
    log_path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One value of one metric.

    Attributes:
        metric: Registered name.
        value: Finite number; counts above 2**53 are refused.
        evidence: Kind of evidence; (metric, evidence) must be registered by the plugin.
        t_offset_s: Seconds since the start of the repeat, for time series only. Observations
            of one metric keep their order as ``sample`` 0, 1, 2 …
    """

    metric: str
    value: float
    evidence: Evidence
    t_offset_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOutput:
    """What ``size``, ``allocate`` and ``measure`` return for one repeat of a cell.

    Attributes:
        observations: The numbers.
        effective: Settings as the engine reports them after resolving its own defaults.
        assumptions: Sentences a reader of the report has to know.
        warnings: Sentences about doubtful circumstances that do not invalidate the numbers.
        invalid: Stable reason code when the numbers must not be compared, empty otherwise.
        invalid_message: The same in words.
        artifacts: Named text tables or JSON strings that the report shows verbatim
            (``state table`` of a fork walkthrough).
    """

    observations: tuple[Observation, ...]
    effective: Mapping[str, Scalar] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    invalid: str = ""
    invalid_message: str = ""
    artifacts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSection:
    """A section that a plugin adds to the report of a run that holds its cells.

    Attributes:
        title: Heading.
        text: Plain sentences (escaped by the report).
        table: Header row and body rows, or empty.
        evidence: Kind of evidence of the numbers in the section.
    """

    title: str
    text: str
    evidence: Evidence
    table: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look at a running server.

    Attributes:
        gauges: Metric to its value now; evidence ``engine``.
        totals: Metric to its growth since the first reading; a restarted server goes on
            counting from where it was.
        effective: Settings as the server reports them.
        missing: Metric to the reason why it has no value.
    """

    gauges: Mapping[str, float]
    totals: Mapping[str, float] = field(default_factory=dict)
    effective: Mapping[str, Scalar] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


class Observer(Protocol):
    """A running server of one engine, read and never changed."""

    def read(self) -> Reading:
        """Look once.

        Raises:
            CellFailed: The server does not answer now; it may later.
        """

    def explain(self) -> tuple[str, ...]:
        """Sentences about what the readings so far mean."""
