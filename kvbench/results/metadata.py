"""Metadata of a run: what both Parquet files carry as key-value entries ``kvbench.*``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeAlias

from kvbench.engine import Direction, Evidence, Metric, Scalar
from kvbench.errors import ResultsError
from kvbench.results.schema import METADATA_PREFIX, SCHEMA_VERSION
from kvbench.results.verdict import ExpectStatus, ExpectVerdict, PairVerdict, Verdict

#: Dotted name to value; ``None`` means "could not be found out".
Environment: TypeAlias = Mapping[str, Scalar | None]

#: Keys of the environment that differ between any two runs and mean nothing.
VOLATILE_KEYS = frozenset({"host.load_1min"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkInfo:
    """One benchmark of the suite, as a report needs it.

    Attributes:
        name: Name of the benchmark.
        stage: Hook that its cells call.
        engines: Names of its ``[engines.NAME]`` tables.
        axes: Axis name to its values, in the suite's order.
        counts: Cells after each expansion stage (``product`` … ``fit``).
        excluded: Reasons of the ``exclude`` tables.
        protocol: Protocol of its cells as stated, before engines reduce it.
    """

    name: str
    stage: str
    engines: tuple[str, ...] = ()
    axes: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    protocol: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetadata:
    """What holds for a run as a whole.

    Attributes:
        run_id: Id of the run, part of every row.
        schema_version: Version of the files' layout.
        kvbench_version: Version that wrote the run.
        suite_name: Name of the suite.
        suite_description: Its description.
        suite_tags: Its tags.
        suite_sha256: Digest of the suite file's exact bytes.
        suite_toml: The suite file.
        plan_sha256: Digest over all cell ids, in order.
        command: Command line that started the run.
        started_at: Start in ISO 8601, UTC.
        complete: Every cell of the plan has come to its end.
        axis_types: Axis name to ``int``, ``float``, ``bool`` or ``str``.
        metrics: Registered metrics by (name, evidence).
        environment: Provenance; holds no secrets.
        benchmarks: The suite's benchmarks.
        comparisons: Verdicts of the suite's ``[[compare]]`` tables.
        expectations: Verdicts of the suite's ``[[expect]]`` tables.
        warnings: Sentences about the run as a whole (resumed on another machine …).
    """

    run_id: str
    schema_version: int = SCHEMA_VERSION
    kvbench_version: str
    suite_name: str
    suite_description: str = ""
    suite_tags: tuple[str, ...] = ()
    suite_sha256: str = ""
    suite_toml: str = ""
    plan_sha256: str = ""
    command: tuple[str, ...] = ()
    started_at: str = ""
    complete: bool
    axis_types: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[tuple[str, str], Metric] = field(default_factory=dict)
    environment: Environment = field(default_factory=dict)
    benchmarks: tuple[BenchmarkInfo, ...] = ()
    comparisons: tuple[PairVerdict, ...] = ()
    expectations: tuple[ExpectVerdict, ...] = ()
    warnings: tuple[str, ...] = ()

    def metric(self, name: str, evidence: str) -> Metric:
        """Return a registered metric.

        Raises:
            ResultsError: The run has no such metric.
        """
        try:
            return self.metrics[name, evidence]
        except KeyError:
            raise ResultsError(f"no metric {name!r} with evidence {evidence!r}") from None


def environment_changes(
    old: Environment, new: Environment
) -> tuple[tuple[str, Scalar | None, Scalar | None], ...]:
    """Return (key, old value, new value) for everything that differs and could matter."""
    keys = sorted((old.keys() | new.keys()) - VOLATILE_KEYS)
    return tuple((k, old.get(k), new.get(k)) for k in keys if old.get(k) != new.get(k))


def canonical_json(value: Any) -> str:
    """Return the one JSON text of ``value``: sorted keys, no spaces, NaN refused."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def to_json(metadata: RunMetadata) -> dict[str, Any]:
    """Return the metadata as a JSON object, one key for each attribute."""
    values = {item.name: plain(getattr(metadata, item.name)) for item in fields(metadata)}
    values["metrics"] = [plain(metadata.metrics[key]) for key in sorted(metadata.metrics)]
    return values


def from_json(values: Mapping[str, Any]) -> RunMetadata:
    """Return the metadata that ``to_json`` gave.

    Raises:
        ResultsError: A key is missing, unknown or of the wrong shape.
    """
    try:
        decoded = {key: _DECODERS.get(key, _same)(value) for key, value in values.items()}
        return RunMetadata(**decoded)
    except (TypeError, KeyError, ValueError) as error:
        raise ResultsError(f"metadata of the run is damaged: {error}") from None


def to_key_values(metadata: RunMetadata) -> dict[bytes, bytes]:
    """Return the key-value entries of a Parquet file; each value is canonical JSON."""
    return {
        f"{METADATA_PREFIX}{key}".encode(): canonical_json(value).encode()
        for key, value in to_json(metadata).items()
    }


def from_key_values(entries: Mapping[bytes, bytes]) -> RunMetadata:
    """Return the metadata of a Parquet file's key-value entries.

    Raises:
        ResultsError: They are not those of kvbench, or damaged.
    """
    prefix = METADATA_PREFIX.encode()
    found = {
        key[len(prefix) :].decode(): json.loads(value)
        for key, value in entries.items()
        if key.startswith(prefix)
    }
    if "schema_version" not in found:
        raise ResultsError(f"not a kvbench result: no {METADATA_PREFIX}schema_version entry")
    return from_json(found)


def plain(value: Any) -> Any:
    """Return ``value`` as JSON types; dataclasses become objects, tuples become lists."""
    if is_dataclass(value):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value


def _same(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _metrics(rows: list[dict[str, Any]]) -> dict[tuple[str, str], Metric]:
    metrics = [
        Metric(
            **{
                **row,
                "direction": Direction(row["direction"]),
                "evidence": Evidence(row["evidence"]),
            }
        )
        for row in rows
    ]
    return {(metric.name, metric.evidence): metric for metric in metrics}


def _benchmark(row: dict[str, Any]) -> BenchmarkInfo:
    axes = {axis: tuple(values) for axis, values in row["axes"].items()}
    changed = {"engines": tuple(row["engines"]), "excluded": tuple(row["excluded"]), "axes": axes}
    return BenchmarkInfo(**{**row, **changed})


def _pair(row: dict[str, Any]) -> PairVerdict:
    return PairVerdict(**{**row, "verdict": Verdict(row["verdict"])})


def _expectation(row: dict[str, Any]) -> ExpectVerdict:
    return ExpectVerdict(**{**row, "status": ExpectStatus(row["status"])})


def _each(decode: Callable[[dict[str, Any]], Any]) -> Callable[[Any], Any]:
    return lambda rows: tuple(decode(row) for row in rows)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "metrics": _metrics,
    "benchmarks": _each(_benchmark),
    "comparisons": _each(_pair),
    "expectations": _each(_expectation),
}
