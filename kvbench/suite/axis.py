"""Axes of a matrix: lists and ranges; conditions on them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from kvbench.engine import Scalar
from kvbench.quantity import QuantityError, parse_bytes
from kvbench.suite.lines import KeyPath
from kvbench.suite.problems import INVALID, Invalid, Problems, shown
from kvbench.suite.spec import Condition
from kvbench.suite.types import (
    Array,
    Field,
    JsonSchema,
    Number,
    Record,
    ScalarValue,
)

#: Longest axis; more is a slip of the keyboard, not a sweep.
MAX_VALUES = 100_000

_RANGE = Record(
    help="Numbers from start up to and including stop, by factor or by step.",
    fields={
        "start": Field(type=Number(), help="First value.", required=True),
        "stop": Field(type=Number(), help="Last value at most; included when hit.", required=True),
        "factor": Field(type=Number(above=1), help="Each value is the one before times this."),
        "step": Field(type=Number(above=0), help="Each value is the one before plus this."),
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisValues:
    """The values of one axis: a list, or a range ``{start, stop, factor|step}``.

    Attributes:
        unique: No value may appear twice. In a zip it may, as long as the positions differ.
    """

    unique: bool = True

    def parse(
        self, value: object, key: KeyPath, problems: Problems
    ) -> tuple[Scalar, ...] | Invalid:
        """See ``Type.parse``."""
        if isinstance(value, dict):
            return _range(value, key, problems)
        if not isinstance(value, list):
            got = shown(value)
            return problems.refuse(
                key, f"expected a list of values or {{start, stop, factor|step}}, got {got}"
            )
        values = Array(item=ScalarValue(), unique=self.unique).parse(value, key, problems)
        return INVALID if values is INVALID or _mixed(values, key, problems) else values

    def schema(self) -> JsonSchema:
        """See ``Type.schema``."""
        kinds: tuple[str, ...] = ("string", "number", "boolean")
        values = Array(item=ScalarValue(), unique=self.unique).schema()
        lists = [{**values, "items": {"type": kind}} for kind in kinds]
        return {"anyOf": [*lists, range_schema()]}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionValue:
    """What an axis must be: a value, a list of values, or bounds ``{ge, gt, le, lt}``."""

    def parse(self, value: object, key: KeyPath, problems: Problems) -> Condition | Invalid:
        """See ``Type.parse``."""
        axis = str(key[-1])
        if isinstance(value, dict):
            bounds = _BOUNDS.parse(value, key, problems)
            if bounds is INVALID or len(bounds) < len(value):
                return INVALID
            if not bounds:
                return problems.refuse(key, "expected at least one of ge, gt, le, lt")
            return Condition(axis=axis, **bounds)
        if isinstance(value, list):
            values = AxisValues().parse(value, key, problems)
            if values is INVALID:
                return INVALID
            return Condition(axis=axis, one_of=tuple(sized(axis, item) for item in values))
        scalar = ScalarValue().parse(value, key, problems)
        return INVALID if scalar is INVALID else Condition(axis=axis, equals=sized(axis, scalar))

    def schema(self) -> JsonSchema:
        """See ``Type.schema``."""
        return {
            "description": "A value, a list of values, or bounds {ge, gt, le, lt}.",
            "anyOf": [
                ScalarValue().schema(),
                Array(item=ScalarValue()).schema(),
                {**_BOUNDS.schema(), "minProperties": 1},
            ],
        }


_BOUNDS = Record(
    help="Bounds on a numeric axis; all of them hold.",
    fields={
        "ge": Field(type=Number(), help="At least this."),
        "gt": Field(type=Number(), help="More than this."),
        "le": Field(type=Number(), help="At most this."),
        "lt": Field(type=Number(), help="Less than this."),
    },
)


def range_schema() -> JsonSchema:
    """JSON Schema of a range ``{start, stop, factor|step}``."""
    return {**_RANGE.schema(), "oneOf": [{"required": ["factor"]}, {"required": ["step"]}]}


def sized(axis: str, value: Scalar) -> Scalar:
    """A value of an axis that counts bytes in bytes: ``"8GiB"``; any other as it is."""
    if not axis.endswith("_bytes") or not isinstance(value, str):
        return value
    try:
        return parse_bytes(value)
    except QuantityError:
        return value


def kind_of(value: Scalar) -> str:
    """``string``, ``boolean`` or ``number``."""
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def _mixed(values: tuple[Scalar, ...], key: KeyPath, problems: Problems) -> bool:
    wanted = kind_of(values[0])
    odd = next((i for i, value in enumerate(values) if kind_of(value) != wanted), None)
    if odd is None:
        return False
    problems.add(
        (*key, odd),
        f"{shown(values[odd])} is a {kind_of(values[odd])} in an axis of {wanted}s; "
        "an axis has values of one type",
    )
    return True


def _range(value: dict[str, Any], key: KeyPath, problems: Problems) -> tuple[Scalar, ...] | Invalid:
    parsed = _RANGE.parse(value, key, problems)
    if parsed is INVALID or len(parsed) < len(value) or not {"start", "stop"} <= parsed.keys():
        return INVALID
    if ("factor" in parsed) == ("step" in parsed):
        return problems.refuse(key, "expected either factor or step")
    start, stop = parsed["start"], parsed["stop"]
    if stop < start:
        return problems.refuse((*key, "stop"), f"expected at least start ({start}), got {stop}")
    if "factor" in parsed and start <= 0:
        return problems.refuse((*key, "start"), f"expected more than 0 with a factor, got {start}")
    return _listed(parsed, key, problems)


def _listed(
    parsed: dict[str, Any], key: KeyPath, problems: Problems
) -> tuple[Scalar, ...] | Invalid:
    start, stop = parsed["start"], parsed["stop"]
    factor, step = parsed.get("factor", 0), parsed.get("step", 0)
    count = math.log(stop / start) / math.log(factor) if factor else (stop - start) / step
    if count >= MAX_VALUES:
        return problems.refuse(
            key, f"is a range of {count:,.0f} values; expected at most {MAX_VALUES:,}"
        )
    # One more than the quotient says, so that rounding never loses the last value.
    indices = range(int(count) + 2)
    values = [start * factor**i if factor else start + i * step for i in indices]
    return tuple(_tidy(value) for value in values if value <= stop + 1e-9 * abs(stop))


def _tidy(value: float) -> float:
    """Write 0.1 + 2 * 0.1 as 0.3: the value is a label, too."""
    return value if isinstance(value, int) else float(f"{value:.12g}")
