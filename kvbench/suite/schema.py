"""The JSON Schema of suites, from the declarations that the loader uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvbench.engine import EngineInfo
from kvbench.suite.options import option_schemas, options_of, value_schema
from kvbench.suite.tables import root_record
from kvbench.suite.types import JsonSchema

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def suite_schema(infos: Iterable[EngineInfo]) -> JsonSchema:
    """Return the JSON Schema (draft 2020-12) of a suite file.

    Args:
        infos: Installed engines: their options become descriptions, types and choices.

    What only the whole file decides stays with the loader: names that refer to something,
    excludes that match, equal lengths of a zip.
    """
    infos = sorted(infos, key=lambda info: info.name)
    schema = root_record(option_schemas(infos), domain_schemas()).schema()
    engine = schema["properties"]["engines"]["additionalProperties"]
    engine["allOf"] = [_options_of_plugin(info) for info in infos]
    return {"$schema": DIALECT, "title": "kvbench suite", **schema}


def domain_schemas() -> dict[str, JsonSchema]:
    """JSON Schema of one ``models``, ``devices`` and ``workloads`` table."""
    from kvbench.suite.device_tables import DEVICE
    from kvbench.suite.model_tables import MODEL

    return {
        "models": MODEL.schema(),
        "devices": DEVICE.schema(),
        "workloads": workload_schema(),
    }


def workload_schema() -> JsonSchema:
    """JSON Schema of one ``[workloads.NAME]`` table: its keys depend on its kind."""
    from kvbench.workload.kinds import KINDS

    return {
        "type": "object",
        "properties": {"kind": {"description": "Kind of workload.", "enum": list(KINDS)}},
        "required": ["kind"],
        "oneOf": [
            {
                "description": kind.help,
                "properties": {
                    "kind": {"const": kind.name},
                    **{param.name: _param_schema(param) for param in kind.params},
                },
                "required": [param.name for param in kind.params if param.required],
                "additionalProperties": False,
            }
            for kind in KINDS.values()
        ],
    }


_JSON_TYPES = {"int": "integer", "float": "number", "str": "string"}


def _param_schema(param: Any) -> JsonSchema:
    rules = {
        "default": param.default,
        "minimum": param.minimum,
        "exclusiveMinimum": param.above,
        "maximum": param.maximum,
        "enum": list(param.choices) or None,
    }
    given = {name: rule for name, rule in rules.items() if rule is not None}
    return {"description": param.help, "type": _JSON_TYPES[param.type], **given}


def _options_of_plugin(info: EngineInfo) -> JsonSchema:
    """Only the plugin's own options may stand in its engine table."""
    own = {name: value_schema([(info.name, option)]) for name, option in options_of(info).items()}
    return {
        "if": {"properties": {"plugin": {"const": info.name}}, "required": ["plugin"]},
        "then": {"properties": {"options": {"properties": own, "additionalProperties": False}}},
    }
