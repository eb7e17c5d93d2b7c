"""Every table and key of a suite: what the loader accepts and what ``kvbench schema`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvbench.engine import Cache, Stage
from kvbench.suite.axis import AxisValues, ConditionValue
from kvbench.suite.lines import KeyPath
from kvbench.suite.options import axis_schema
from kvbench.suite.problems import INVALID, Invalid, Problems, shown
from kvbench.suite.spec import Isolation, OnFailure, Order, Protocol
from kvbench.suite.types import (
    Array,
    Field,
    Integer,
    JsonSchema,
    Number,
    Record,
    Records,
    ScalarValue,
    Table,
    Text,
)

#: Version of the suite format that this kvbench reads.
SUITE_SCHEMA_VERSION = 1

_DEFAULTS = Protocol()
_NAME = Text(safe_name=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainTable:
    """A table that its own package checks (a model, a device, a workload).

    Attributes:
        written: JSON Schema that the package gives.
    """

    written: JsonSchema = field(default_factory=lambda: {"type": "object"})

    def parse(self, value: object, key: KeyPath, problems: Problems) -> dict[str, Any] | Invalid:
        """Return the table as it is."""
        if isinstance(value, dict):
            return value
        return problems.refuse(key, f"expected a table, got {shown(value)}")

    def schema(self) -> JsonSchema:
        """Return what the package gives."""
        return self.written


@dataclass(frozen=True, slots=True, kw_only=True)
class ExcludeTable:
    """One ``[[benchmark.exclude]]``: conditions on axes, all of which hold, and a reason."""

    def parse(self, value: object, key: KeyPath, problems: Problems) -> dict[str, Any] | Invalid:
        """Return ``{"reason": text, "conditions": {axis: Condition}}``."""
        if not isinstance(value, dict):
            return problems.refuse(key, f"expected a table, got {shown(value)}")
        conditions = {name: item for name, item in value.items() if name != "reason"}
        reason = self._reason(value, key, problems)
        if not conditions:
            return problems.refuse(key, "expected a condition on at least one axis")
        parsed = Table(item=ConditionValue()).parse(conditions, key, problems)
        if reason is INVALID or parsed is INVALID or len(parsed) < len(conditions):
            return INVALID
        return {"reason": reason, "conditions": parsed}

    def _reason(self, value: Mapping[str, Any], key: KeyPath, problems: Problems) -> str | Invalid:
        if "reason" not in value:
            message = "is missing; expected one sentence: why these points are left out"
            return problems.refuse((*key, "reason"), message)
        return Text().parse(value["reason"], (*key, "reason"), problems)

    def schema(self) -> JsonSchema:
        """Return the JSON Schema."""
        return {
            "type": "object",
            "properties": {"reason": {"description": "Why.", **Text().schema()}},
            "required": ["reason"],
            "minProperties": 2,
            "additionalProperties": ConditionValue().schema(),
        }


SUITE = Record(
    help="What the suite is.",
    fields={
        "name": Field(
            type=_NAME, help="Name of the suite, part of its runs' folder.", required=True
        ),
        "description": Field(type=Text(empty=True), help="What it answers, in a sentence."),
        "tags": Field(type=Array(item=Text(), minimum=0), help="Labels to find its runs by."),
    },
)

PROTOCOL = Record(
    help="How cells are repeated, isolated and timed; a benchmark can change any of it.",
    fields={
        "warmup": Field(
            type=Integer(minimum=0, maximum=10_000),
            help="Repeats before the measured ones, recorded as warm-up and never aggregated.",
            default=_DEFAULTS.warmup,
        ),
        "repeats": Field(
            type=Integer(minimum=1, maximum=100_000),
            help="Measured repeats; deterministic engines and the stage size need and get one.",
            default=_DEFAULTS.repeats,
        ),
        "min_measure_s": Field(
            type=Number(minimum=0),
            help="Keep repeating until this many seconds have been measured.",
            default=_DEFAULTS.min_measure_s,
        ),
        "timeout_s": Field(
            type=Number(above=0), help="Limit of one repeat.", default=_DEFAULTS.timeout_s
        ),
        "order": Field(
            type=Text(choices=tuple(map(str, Order))),
            help="Weave the repeats of all cells, or finish one cell after the other.",
            default=str(_DEFAULTS.order),
        ),
        "isolation": Field(
            type=Text(choices=tuple(map(str, Isolation))),
            help="What shares a worker process: cells of one engine configuration, nothing, all.",
            default=str(_DEFAULTS.isolation),
        ),
        "cache": Field(
            type=Text(choices=tuple(map(str, Cache))),
            help="State of the prefix cache at the start of each repeat; checked, not assumed.",
            default=str(_DEFAULTS.cache),
        ),
        "on_failure": Field(
            type=Text(choices=tuple(map(str, OnFailure))),
            help="What a failed cell means for the others.",
            default=str(_DEFAULTS.on_failure),
        ),
        "seed": Field(
            type=Integer(minimum=0), help="Seed of all random streams.", default=_DEFAULTS.seed
        ),
    },
)

COMPARE = Record(
    help="Pairs cells that differ in one axis only, and compares each with the baseline.",
    fields={
        "name": Field(type=Text(), help="What the report calls it."),
        "benchmark": Field(type=_NAME, help="Its benchmark; may be left out when only one fits."),
        "vary": Field(type=Text(), help="The axis that differs, or 'engine'.", required=True),
        "baseline": Field(
            type=ScalarValue(), help="Value of that axis to compare with.", required=True
        ),
        "metrics": Field(type=Array(item=Text()), help="Metrics to compare.", required=True),
    },
)

_CONDITIONS = Table(item=ConditionValue(), minimum=1)

EXPECT = Record(
    help="An exact relation or a limit, or a gate against a stored run.",
    fields={
        "name": Field(type=Text(), help="What the report calls it."),
        "benchmark": Field(type=_NAME, help="Its benchmark; may be left out when only one fits."),
        "metric": Field(type=Text(), help="Metric that is looked at.", required=True),
        "stat": Field(
            type=Text(choices=("median", "min", "max")),
            help="Which of a cell's samples counts.",
            default="median",
        ),
        "where": Field(type=_CONDITIONS, help="Cells that are looked at; all when left out."),
        "relative_to": Field(
            type=_CONDITIONS,
            help="Divide by the paired cell: these conditions replace those of where.",
        ),
        "equals": Field(type=Number(), help="Expected value, exact up to tolerance."),
        "at_least": Field(type=Number(), help="Smallest allowed value."),
        "at_most": Field(type=Number(), help="Largest allowed value."),
        "tolerance": Field(
            type=Number(minimum=0), help="Relative tolerance of equals.", default=0.0
        ),
        "against": Field(
            type=Text(), help="Stored run to compare with, relative to the suite's folder."
        ),
        "max_regression": Field(
            type=Number(minimum=0), help="Allowed relative regression against the stored run."
        ),
        "min_effect": Field(
            type=Number(minimum=0),
            help="Differences below this, in the metric's unit, are noise.",
            default=0.0,
        ),
        "alpha": Field(type=Number(above=0, maximum=0.5), help="Significance level.", default=0.05),
        "on_missing": Field(
            type=Text(choices=("fail", "ignore")),
            help="What it means when nothing could be compared.",
            default="fail",
        ),
    },
)


def engine_record(options: Mapping[str, JsonSchema]) -> Record:
    """Declare an ``[engines.NAME]`` table; ``options`` describes known option names."""
    return Record(
        help="An engine: a plugin and its options.",
        fields={
            "plugin": Field(
                type=Text(), help="Plugin behind it (see kvbench engines).", required=True
            ),
            "options": Field(
                type=Table(item=ScalarValue(), known=options),
                help="Options of the engine, for all its cells.",
            ),
        },
    )


def benchmark_record(options: Mapping[str, JsonSchema]) -> Record:
    """Declare a ``[[benchmark]]`` table; ``options`` describes known option and axis names."""
    axes = {name: axis_schema(schema, unique=True) for name, schema in options.items()}
    lockstep = {name: axis_schema(schema, unique=False) for name, schema in options.items()}
    matrix = Table(item=AxisValues(), minimum=1, known=axes)
    zipped = Table(item=AxisValues(unique=False), minimum=1, known=lockstep)
    return Record(
        help="Cells: engines times the points of a matrix.",
        fields={
            "name": Field(type=_NAME, help="Name of the benchmark, unique.", required=True),
            "stage": Field(
                type=Text(choices=tuple(map(str, Stage))),
                help="Hook that its cells call.",
                required=True,
            ),
            "engines": Field(
                type=Array(item=Text()), help="Names of [engines.NAME] tables.", required=True
            ),
            "options": Field(
                type=Table(item=ScalarValue(), known=options),
                help="Options of all cells, over those of the engines.",
            ),
            "matrix": Field(type=matrix, help="Axes: the product of all their values."),
            "zip": Field(
                type=zipped, help="Axes that move in lockstep, multiplied into the product."
            ),
            "exclude": Field(type=Records(item=ExcludeTable()), help="Points to leave out."),
            "include": Field(
                type=Records(item=Table(item=ScalarValue(), minimum=1, known=options)),
                help="Points to add; each names every axis.",
            ),
            "protocol": Field(type=PROTOCOL, help="Changes to the suite's protocol."),
        },
    )


def root_record(
    options: Mapping[str, JsonSchema] | None = None,
    domains: Mapping[str, JsonSchema] | None = None,
) -> Record:
    """Declare the whole file; the arguments describe what plugins and domain packages know.

    Args:
        options: JSON Schema of each known engine option.
        domains: JSON Schema of one ``models``, ``devices`` and ``workloads`` table.
    """
    options, domains = options or {}, domains or {}
    tables = {
        name: Table(
            item=DomainTable(written=domains.get(name, {"type": "object"})), safe_names=True
        )
        for name in ("models", "devices", "workloads")
    }
    return Record(
        help="A kvbench suite: what to compare, how to measure it, what to expect.",
        fields={
            "schema": Field(
                type=Integer(minimum=1, maximum=SUITE_SCHEMA_VERSION),
                help=f"Version of the suite format: {SUITE_SCHEMA_VERSION}.",
                required=True,
            ),
            "suite": Field(type=SUITE, help=SUITE.help, required=True),
            "protocol": Field(type=PROTOCOL, help=PROTOCOL.help),
            "engines": Field(
                type=Table(item=engine_record(options), minimum=1, safe_names=True),
                help="Engines by name.",
                required=True,
            ),
            "models": Field(
                type=tables["models"],
                help="Models by name; catalog names need no table.",
            ),
            "devices": Field(
                type=tables["devices"], help="Devices by name; catalog names need no table."
            ),
            "workloads": Field(type=tables["workloads"], help="Workloads by name."),
            "benchmark": Field(
                type=Records(item=benchmark_record(options), minimum=1),
                help="What is run.",
                required=True,
            ),
            "compare": Field(type=Records(item=COMPARE), help="Comparisons within the run."),
            "expect": Field(type=Records(item=EXPECT), help="Expectations and gates."),
        },
    )
