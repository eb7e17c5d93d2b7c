"""A suite after loading: every name resolved, every value checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from kvbench.device.spec import DeviceSpec
from kvbench.engine import Cache, Scalar, Stage
from kvbench.model.spec import ModelSpec
from kvbench.workload.spec import WorkloadSpec


class Order(StrEnum):
    """How the repeats of a benchmark's cells follow each other."""

    INTERLEAVE = "interleave"
    SEQUENTIAL = "sequential"


class Isolation(StrEnum):
    """What shares a worker process."""

    ENGINE = "engine"
    CELL = "cell"
    INLINE = "inline"


class OnFailure(StrEnum):
    """What a failed cell means for the others."""

    CONTINUE = "continue"
    STOP_AXIS = "stop_axis"
    ABORT = "abort"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How cells are repeated, isolated and timed.

    Attributes:
        warmup: Repeats that are recorded as warm-up and never aggregated.
        repeats: Measured repeats.
        min_measure_s: Keep repeating until this much measured time has passed.
        timeout_s: Limit of one repeat.
        order: Order of the repeats.
        isolation: What shares a worker.
        cache: Prefix-cache state each repeat starts from.
        on_failure: What a failed cell means for the others.
        seed: Suite seed.
    """

    warmup: int = 1
    repeats: int = 5
    min_measure_s: float = 0.0
    timeout_s: float = 600.0
    order: Order = Order.INTERLEAVE
    isolation: Isolation = Isolation.ENGINE
    cache: Cache = Cache.COLD
    on_failure: OnFailure = OnFailure.CONTINUE
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTable:
    """One ``[engines.NAME]`` table."""

    name: str
    plugin: str
    options: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One key of an ``exclude`` or ``where``: ``equals`` a value, is ``one_of``, or compares."""

    axis: str
    equals: Scalar | None = None
    one_of: tuple[Scalar, ...] = ()
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def matches(self, value: Scalar) -> bool:
        """Whether ``value`` satisfies every part of the condition."""
        if self.equals is not None and value != self.equals:
            return False
        if self.one_of and value not in self.one_of:
            return False
        return self._in_range(value)

    def _in_range(self, value: Scalar) -> bool:
        bounds = (self.ge, self.gt, self.le, self.lt)
        if all(bound is None for bound in bounds):
            return True
        if isinstance(value, str | bool):
            return False
        return (
            (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclude:
    """Points that are not in the plan, and why."""

    conditions: tuple[Condition, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One ``[[benchmark]]`` table.

    Attributes:
        name: Unique, safe as a file name.
        stage: Hook that is called.
        engines: Names of ``[engines.NAME]`` tables.
        options: Options common to all cells of the benchmark, over the engines' own.
        matrix: Axis name to its values; the product of all.
        zip: Axes that move in lockstep, multiplied into the product.
        exclude: Points taken out.
        include: Points added; each names every axis.
        protocol: The suite's protocol with the benchmark's own changes.
    """

    name: str
    stage: Stage
    engines: tuple[str, ...]
    options: Mapping[str, Scalar]
    matrix: Mapping[str, tuple[Scalar, ...]]
    zip: Mapping[str, tuple[Scalar, ...]]
    exclude: tuple[Exclude, ...]
    include: tuple[Mapping[str, Scalar], ...]
    protocol: Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One ``[[compare]]`` table: cells that differ only in ``vary`` are paired.

    ``vary`` is an axis or ``engine``.
    """

    name: str
    benchmark: str
    vary: str
    baseline: Scalar
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One ``[[expect]]`` table: an exact relation, or a gate against a stored run.

    Attributes:
        name: What the report calls it.
        benchmark: Benchmark whose cells are looked at.
        metric: Metric that is looked at.
        stat: ``median`` (default), ``min`` or ``max`` over a cell's samples.
        where: Conditions on axes (``engine`` counts as one).
        relative_to: Conditions that replace those of ``where``: the value is divided by the
            value of the paired cell.
        equals: Expected value, exact up to ``tolerance``.
        at_least: Smallest allowed value.
        at_most: Largest allowed value.
        tolerance: Relative tolerance of ``equals``.
        against: Stored run (folder or ``samples.parquet``) to compare with.
        max_regression: Allowed relative regression against it.
        min_effect: Differences below this, in the metric's unit, are noise.
        alpha: Significance level of the regression test.
        on_missing: ``fail`` (default) or ``ignore`` when nothing could be compared.
    """

    name: str
    benchmark: str
    metric: str
    stat: str = "median"
    where: tuple[Condition, ...] = ()
    relative_to: tuple[Condition, ...] = ()
    equals: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    tolerance: float = 0.0
    against: Path | None = None
    max_regression: float | None = None
    min_effect: float = 0.0
    alpha: float = 0.05
    on_missing: str = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A loaded suite.

    Attributes:
        path: File it came from.
        text: Its exact bytes, decoded.
        sha256: Digest of the exact bytes.
    """

    path: Path
    text: str
    sha256: str
    name: str
    description: str
    tags: tuple[str, ...]
    protocol: Protocol
    engines: Mapping[str, EngineTable]
    models: Mapping[str, ModelSpec]
    devices: Mapping[str, DeviceSpec]
    workloads: Mapping[str, WorkloadSpec]
    benchmarks: tuple[Benchmark, ...]
    comparisons: tuple[Comparison, ...] = field(default=())
    expectations: tuple[Expectation, ...] = field(default=())
