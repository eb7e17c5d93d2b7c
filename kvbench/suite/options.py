"""Values of engine options: checked against what the engine declares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvbench.engine import EngineInfo, Option, Scalar, Stage
from kvbench.names import did_you_mean
from kvbench.quantity import QuantityError, parse_bytes
from kvbench.suite.axis import range_schema
from kvbench.suite.problems import shown
from kvbench.suite.types import JsonSchema

#: Option types whose value names a table of the suite or a catalog entry.
NAMED_TYPES = ("model", "device", "workload")

_WANTED = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "true or false",
    "model": "the name of a model (a string)",
    "device": "the name of a device (a string)",
    "workload": "the name of a workload (a string)",
}


def options_of(info: EngineInfo, stage: Stage | None = None) -> dict[str, Option]:
    """Options that an engine reads in ``stage`` (in any stage when ``None``), by name."""
    return {
        option.name: option
        for option in info.options
        if stage is None or not option.stages or stage in option.stages
    }


def fault(option: Option, value: Scalar) -> str:
    """Say what is wrong with ``value`` and what was expected; empty when it is right."""
    if _is_size(option, value):
        try:
            value = parse_bytes(str(value))
        except QuantityError as error:
            return f"{error}: {option.help}"
    if not _has_type(option, value):
        return f"expected {_WANTED[option.type]}, got {shown(value)}: {option.help}"
    if option.choices and value not in option.choices:
        allowed = ", ".join(shown(choice) for choice in option.choices)
        return f"expected one of {allowed}, got {shown(value)}{_near(value, option)}"
    if option.minimum is not None and not isinstance(value, str) and value < option.minimum:
        return f"expected at least {option.minimum:g}, got {value}: {option.help}"
    return ""


def normal(option: Option, value: Scalar) -> Scalar:
    """The value as the engine gets it: ``"8GiB"`` in bytes, integers for a number as floats."""
    if _is_size(option, value):
        return parse_bytes(str(value))
    return float(value) if option.type == "float" else value


def unknown_option(name: str, engine: str, info: EngineInfo, stage: Stage | None) -> str:
    """Say that an engine has no such option, and which one may have been meant."""
    elsewhere = options_of(info)
    known = options_of(info, stage)
    if name in elsewhere and stage is not None:
        stages = ", ".join(elsewhere[name].stages)
        return f"option {name!r} of engine {engine!r} is read in stage {stages}, not in {stage}"
    where = f" in stage {stage}" if stage is not None else ""
    return f"engine {engine!r} has no option {name!r}{where}{did_you_mean(name, known)}"


def option_schemas(infos: Iterable[EngineInfo]) -> dict[str, JsonSchema]:
    """JSON Schema of one value of every option of the given engines, by name.

    An option that several engines declare is described by each; only the engine that a suite
    names decides, so the schema merely lists types and choices that any of them takes.
    """
    declared: dict[str, list[tuple[str, Option]]] = {}
    for info in infos:
        for option in info.options:
            declared.setdefault(option.name, []).append((info.name, option))
    return {name: value_schema(options) for name, options in sorted(declared.items())}


def _is_size(option: Option, value: Scalar) -> bool:
    """Whether the value is a size with a unit for an option that counts bytes."""
    return takes_size(option) and isinstance(value, str)


def takes_size(option: Option) -> bool:
    """Whether the option counts bytes, so that ``"8GiB"`` is as good as an integer."""
    return option.type == "int" and option.name.endswith("_bytes")


def _has_type(option: Option, value: Scalar) -> bool:
    if option.type == "bool":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if option.type == "int":
        return isinstance(value, int)
    if option.type == "float":
        return isinstance(value, int | float)
    return isinstance(value, str) and value != ""


def _near(value: Scalar, option: Option) -> str:
    hint = did_you_mean(str(value), map(str, option.choices))
    return hint if "did you mean" in hint else ""


def _types(schema: JsonSchema) -> list[str]:
    types = schema["type"]
    return [types] if isinstance(types, str) else list(types)


_JSON_TYPES = {"int": "integer", "float": "number", "bool": "boolean"}


def value_schema(options: Sequence[tuple[str, Option]]) -> JsonSchema:
    """JSON Schema of one value of an option, as (engine, option) pairs declare it."""
    helps = dict.fromkeys(f"{option.help} ({engine})" for engine, option in options)
    types = dict.fromkeys(_JSON_TYPES.get(option.type, "string") for _, option in options)
    if any(takes_size(option) for _, option in options):
        types["string"] = None
    schema: JsonSchema = {"description": " ".join(helps)}
    schema["type"] = next(iter(types)) if len(types) == 1 else list(types)
    if all(option.choices for _, option in options):
        choices = dict.fromkeys(choice for _, option in options for choice in option.choices)
        schema["enum"] = list(choices)
    minimums = [option.minimum for _, option in options]
    if all(minimum is not None for minimum in minimums):
        schema["minimum"] = min(minimum for minimum in minimums if minimum is not None)
    return schema


def axis_schema(value: JsonSchema, *, unique: bool) -> JsonSchema:
    """JSON Schema of an axis of values that are right by ``value``."""
    items = {key: rule for key, rule in value.items() if key != "description"}
    values = {"type": "array", "items": items, "minItems": 1, "uniqueItems": unique}
    axis = {"description": value["description"]}
    if not {"integer", "number"} & set(_types(value)):
        return {**axis, **values}
    return {**axis, "anyOf": [values, range_schema()]}
