"""Types of the values in a suite; each one checks a value and writes its own JSON Schema.

The loader and ``kvbench schema`` read the same declarations (``kvbench.suite.tables``), so that
what an editor accepts is what the loader accepts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvbench.names import did_you_mean
from kvbench.quantity import QuantityError, parse_bytes
from kvbench.suite.lines import KeyPath
from kvbench.suite.problems import INVALID, Invalid, Problems, shown

JsonSchema = dict[str, Any]

#: Names that become folders, files, columns and report anchors.
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
SAFE_NAME_RULE = "letters, digits, '.', '_' and '-', starting with a letter or digit, 100 at most"

#: Integers that every reader of the results can hold.
INT64 = 2**63 - 1


class Type(Protocol):
    """What a value may be."""

    def parse(self, value: object, key: KeyPath, problems: Problems) -> Any:
        """Return the value, or note its mistakes and return ``INVALID``."""

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of the values that ``parse`` accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A string.

    Attributes:
        choices: Allowed values, empty for any.
        safe_name: It becomes a file name, so it has to be a safe one.
        empty: The empty string is fine.
    """

    choices: tuple[str, ...] = ()
    safe_name: bool = False
    empty: bool = False

    def parse(self, value: object, key: KeyPath, problems: Problems) -> str | Invalid:
        """See ``Type.parse``."""
        if not isinstance(value, str):
            return problems.refuse(key, f"expected a string, got {shown(value)}")
        if self.choices and value not in self.choices:
            allowed = ", ".join(map(repr, self.choices))
            hint = did_you_mean(value, self.choices)
            hint = hint if "did you mean" in hint else ""
            return problems.refuse(key, f"expected one of {allowed}, got {value!r}{hint}")
        if not value and not self.empty:
            return problems.refuse(key, "expected a string that is not empty")
        if self.safe_name and not is_safe_name(value):
            return problems.refuse(key, unsafe_name(value))
        return value

    def schema(self) -> JsonSchema:
        """See ``Type.schema``."""
        if self.choices:
            return {"type": "string", "enum": list(self.choices)}
        if self.safe_name:
            return {"type": "string", "pattern": f"^{SAFE_NAME.pattern}$"}
        return {"type": "string"} if self.empty else {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer:
    """A whole number; booleans and floats are none."""

    minimum: int = -INT64
    maximum: int = INT64

    def parse(self, value: object, key: KeyPath, problems: Problems) -> int | Invalid:
        """See ``Type.parse``."""
        if not isinstance(value, int) or isinstance(value, bool):
            return problems.refuse(key, f"expected an integer, got {shown(value)}")
        if value < self.minimum:
            return problems.refuse(key, f"expected at least {self.minimum}, got {value}")
        if value > self.maximum:
            return problems.refuse(key, f"expected at most {self.maximum}, got {value}")
        return value

    def schema(self) -> JsonSchema:
        """See ``Type.schema``."""
        bounds: JsonSchema = {"type": "integer"}
        if self.minimum != -INT64:
            bounds["minimum"] = self.minimum
        if self.maximum != INT64:
            bounds["maximum"] = self.maximum
        return bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A finite number, integers included.

    Attributes:
        minimum: Smallest allowed value.
        above: Number that the value must exceed.
        maximum: Largest allowed value.
    """

    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None

    def parse(self, value: object, key: KeyPath, problems: Problems) -> float | Invalid:
        """See ``Type.parse``."""
        if not isinstance(value, int | float) or isinstance(value, bool):
            return problems.refuse(key, f"expected a number, got {shown(value)}")
        if not _is_finite(value):
            return problems.refuse(key, f"expected a finite number, got {value}")
        wrong = self._out_of_range(value)
        return problems.refuse(key, f"{wrong}, got {value}") if wrong else value

    def _out_of_range(self, value: float) -> str:
        if self.minimum is not None and value < self.minimum:
            return f"expected at least {self.minimum:g}"
        if self.above is not None and value <= self.above:
            return f"expected more than {self.above:g}"
        if self.maximum is not None and value > self.maximum:
            return f"expected at most {self.maximum:g}"
        return ""

    def schema(self) -> JsonSchema:
        """See ``Type.schema``."""
        bounds = {
            "minimum": self.minimum,
            "exclusiveMinimum": self.above,
            "maximum": self.maximum,
        }
        return {"type": "number", **{k: bound for k, bound in bounds.items() if bound is not None}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """A number of bytes: an integer, or text with a unit such as ``"80GiB"``."""

    def parse(self, value: object, key: KeyPath, problems: Problems) -> int | Invalid:
        """See ``Type.parse``."""
        if not isinstance(value, int | str) or isinstance(value, bool):
            return problems.refuse(key, f"expected a size such as 80GiB, got {shown(value)}")
        try:
            return parse_bytes(value)
        except QuantityError as error:
            return problems.refuse(key, str(error))

    def schema(self) -> JsonSchema:
        """See ``Type.schema``."""
        return {"type": ["integer", "string"], "minimum": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarValue:
    """A string, a finite number or a boolean."""

    def parse(
        self, value: object, key: KeyPath, problems: Problems
    ) -> str | int | float | bool | Invalid:
        """See ``Type.parse``."""
        if not isinstance(value, str | int | float):
            got = shown(value)
            return problems.refuse(key, f"expected a string, a number or a boolean, got {got}")
        if not isinstance(value, str) and not _is_finite(value):
            return problems.refuse(key, f"expected a finite number, got {value}")
        return value

    def schema(self) -> JsonSchema:
        """See ``Type.schema``."""
        return {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """A list of values of one type.

    Attributes:
        item: Type of the values.
        minimum: Fewest values.
        unique: No value may appear twice.
    """

    item: Type
    minimum: int = 1
    unique: bool = True

    def parse(self, value: object, key: KeyPath, problems: Problems) -> tuple[Any, ...] | Invalid:
        """See ``Type.parse``."""
        if not isinstance(value, list):
            return problems.refuse(key, f"expected a list, got {shown(value)}")
        if len(value) < self.minimum:
            return problems.refuse(key, "expected at least one value, got an empty list")
        items = [self.item.parse(v, (*key, i), problems) for i, v in enumerate(value)]
        if any(item is INVALID for item in items):
            return INVALID
        if self.unique and repeated(items, key, problems):
            return INVALID
        return tuple(items)

    def schema(self) -> JsonSchema:
        """See ``Type.schema``."""
        schema: JsonSchema = {"type": "array", "items": self.item.schema()}
        if self.unique:
            schema["uniqueItems"] = True
        return {**schema, "minItems": self.minimum} if self.minimum else schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One key of a table.

    Attributes:
        type: What its value may be.
        help: One sentence, shown by editors and the documentation.
        required: The table must have it.
        default: Value when the table is silent, for the documentation.
    """

    type: Type
    help: str
    required: bool = False
    default: str | int | float | bool | None = None

    def schema(self) -> JsonSchema:
        """JSON Schema with description and default, for editors."""
        schema = {"description": self.help, **self.type.schema()}
        return schema if self.default is None else {**schema, "default": self.default}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A table with fixed keys."""

    fields: Mapping[str, Field]
    help: str = ""

    def parse(self, value: object, key: KeyPath, problems: Problems) -> dict[str, Any] | Invalid:
        """Return the keys that are right; unknown, wrong and missing ones are noted."""
        if not isinstance(value, dict):
            return problems.refuse(key, f"expected a table, got {shown(value)}")
        for name in value:
            if name not in self.fields:
                problems.add((*key, name), f"unknown key{did_you_mean(name, self.fields)}")
        for name, declared in self.fields.items():
            if declared.required and name not in value:
                problems.add((*key, name), f"is missing; expected: {declared.help}")
        parsed = {
            name: declared.type.parse(value[name], (*key, name), problems)
            for name, declared in self.fields.items()
            if name in value
        }
        return {name: item for name, item in parsed.items() if item is not INVALID}

    def schema(self) -> JsonSchema:
        """See ``Type.schema``."""
        schema: JsonSchema = {"type": "object", "additionalProperties": False}
        if self.help:
            schema["description"] = self.help
        schema["properties"] = {name: item.schema() for name, item in self.fields.items()}
        required = [name for name, item in self.fields.items() if item.required]
        return {**schema, "required": required} if required else schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """A list of tables (``[[benchmark]]``); wrong ones keep their place as what is right of them.

    Attributes:
        item: One of the tables.
        minimum: Fewest tables.
    """

    item: Type
    minimum: int = 0

    def parse(self, value: object, key: KeyPath, problems: Problems) -> tuple[Any, ...] | Invalid:
        """See ``Type.parse``."""
        if not isinstance(value, list):
            return problems.refuse(key, f"expected a list of tables [[...]], got {shown(value)}")
        if len(value) < self.minimum:
            return problems.refuse(key, "expected at least one table, got an empty list")
        return tuple(self.item.parse(v, (*key, i), problems) for i, v in enumerate(value))

    def schema(self) -> JsonSchema:
        """See ``Type.schema``."""
        schema = {"type": "array", "items": self.item.schema()}
        return {**schema, "minItems": self.minimum} if self.minimum else schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table whose keys the suite chooses.

    Attributes:
        item: Type of the values.
        minimum: Fewest keys.
        safe_names: The keys become file names, so they have to be safe ones.
        known: Keys with a description of their own, for editors.
    """

    item: Type
    minimum: int = 0
    safe_names: bool = False
    known: Mapping[str, JsonSchema] = field(default_factory=dict)

    def parse(self, value: object, key: KeyPath, problems: Problems) -> dict[str, Any] | Invalid:
        """See ``Type.parse``."""
        if not isinstance(value, dict):
            return problems.refuse(key, f"expected a table, got {shown(value)}")
        if len(value) < self.minimum:
            return problems.refuse(key, "expected at least one key, got an empty table")
        for name in value:
            if self.safe_names and not is_safe_name(name):
                problems.add((*key, name), unsafe_name(name))
        parsed = {n: self.item.parse(v, (*key, n), problems) for n, v in value.items()}
        return {name: item for name, item in parsed.items() if item is not INVALID}

    def schema(self) -> JsonSchema:
        """See ``Type.schema``."""
        schema: JsonSchema = {"type": "object", "additionalProperties": self.item.schema()}
        if self.minimum:
            schema["minProperties"] = self.minimum
        if self.safe_names:
            schema["propertyNames"] = Text(safe_name=True).schema()
        return {**schema, "properties": dict(self.known)} if self.known else schema


def is_safe_name(name: str) -> bool:
    """Whether ``name`` can be a file name and a column name everywhere."""
    return SAFE_NAME.fullmatch(name) is not None


def unsafe_name(name: str) -> str:
    """Say why ``name`` is refused."""
    return f"{shown(name)} is no safe name; expected {SAFE_NAME_RULE}"


def identity(value: object) -> tuple[str, object]:
    """Key under which equal TOML values are equal: 1 equals 1.0, but neither equals true."""
    return ("bool" if isinstance(value, bool) else "other", value)


def repeated(values: Sequence[Any], key: KeyPath, problems: Problems) -> bool:
    """Note every value that came before, with both lines; return whether there was one."""
    first: dict[tuple[str, object], int] = {}
    found = False
    for index, value in enumerate(values):
        seen = first.setdefault(identity(value), index)
        if seen != index:
            line = problems.line((*key, seen))
            problems.add((*key, index), f"{shown(value)} appears twice, first on line {line}")
            found = True
    return found


def _is_finite(value: float) -> bool:
    if isinstance(value, int):
        return abs(value) <= INT64
    return math.isfinite(value)
