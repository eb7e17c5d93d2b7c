"""The JSON Schema says what the loader says, as far as a schema can."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from kvbench.plugins import load_plugins
from kvbench.suite.schema import DIALECT, suite_schema

from ..conftest import REPOSITORY
from .bad_suites import CASES
from .toy_engines import toy_plugins
from .toy_suites import GOOD

#: Mistakes that only the whole file, other files or the installed catalogs decide.
LOADER_ONLY = frozenset(
    {
        "plugin_unknown",
        "model_geometry_missing",
        "inherits_unknown",
        "inherits_cycle",
        "inherits_itself",
        "model_config_missing",
        "device_memory_text",
        "device_memory_huge",
        "device_unknown",
        "option_size",
        "axis_repeats_as_size",
        "workload_trace_missing",
        "benchmark_name_taken",
        "stage_not_of_engine",
        "engine_unknown",
        "option_unknown",
        "option_of_other_stage",
        "option_required",
        "axis_unknown",
        "model_unknown",
        "workload_unknown",
        "zip_unequal",
        "axis_in_both",
        "zip_repeats_position",
        "range_backwards",
        "range_huge",
        "too_many_cells",
        "exclude_nothing",
        "exclude_value",
        "exclude_axis",
        "exclude_bound_on_text",
        "exclude_all",
        "include_is_there",
        "include_incomplete",
        "include_extra",
        "compare_benchmark",
        "compare_which_benchmark",
        "compare_axis",
        "compare_baseline",
        "compare_metric",
        "compare_nothing",
        "expect_metric",
        "expect_where_value",
        "expect_where_axis",
        "expect_where_nothing",
        "expect_unpaired",
        "expect_nothing",
        "expect_limits",
        "expect_tolerance",
        "expect_alpha",
        "expect_against",
        "expect_name_taken",
        "seed_huge",
        # Not JSON: NaN, infinities and dates.
        "timeout_nan",
        "timeout_inf",
        "range_infinite",
        "expect_nan",
    }
)


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return suite_schema(plugin.info for plugin in toy_plugins().loaded.values())


def refuses(schema: dict[str, Any], text: str) -> bool:
    validator = jsonschema.Draft202012Validator(schema)
    return not validator.is_valid(tomllib.loads(text))


def test_it_is_a_schema_of_its_dialect(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == DIALECT
    jsonschema.Draft202012Validator.check_schema(schema)


def test_it_accepts_a_right_suite(schema: dict[str, Any]) -> None:
    jsonschema.validate(tomllib.loads(GOOD), schema)


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "suites").glob("*.toml")), ids=lambda path: path.name
)
def test_it_accepts_every_shipped_suite(path: Path) -> None:
    schema = suite_schema(plugin.info for plugin in load_plugins().loaded.values())
    jsonschema.validate(tomllib.loads(path.read_text(encoding="utf-8")), schema)


def test_it_refuses_what_a_schema_can_refuse(schema: dict[str, Any]) -> None:
    accepted = {case.name for case in CASES if not refuses(schema, case.text)}
    assert accepted == LOADER_ONLY


def test_every_key_has_a_description_for_editors(schema: dict[str, Any]) -> None:
    assert not [path for path, item in _properties(schema) if "description" not in item]


def test_options_of_engines_are_described_and_bounded(schema: dict[str, Any]) -> None:
    benchmark = schema["properties"]["benchmark"]["items"]["properties"]
    share = benchmark["options"]["properties"]["share"]
    assert share == {"description": "Share of the memory. (calc)", "type": "number", "minimum": 0.1}
    assert "anyOf" in benchmark["matrix"]["properties"]["context_tokens"]


def test_an_engine_table_completes_the_options_of_its_plugin(schema: dict[str, Any]) -> None:
    assert refuses(schema, GOOD.replace("block_size = 32", "eager = true"))
    assert not refuses(schema, GOOD.replace("block_size = 32", "reuse = true"))


def _properties(schema: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    if isinstance(schema, list):
        return [found for item in schema for found in _properties(item, path)]
    if not isinstance(schema, dict):
        return []
    found = []
    for key, item in schema.items():
        if key == "properties" and "if" not in path:
            found += [
                (f"{path}.{name}", rule) for name, rule in item.items() if "const" not in rule
            ]
        if key not in ("if", "then"):
            found += _properties(item, f"{path}.{key}")
    return found
