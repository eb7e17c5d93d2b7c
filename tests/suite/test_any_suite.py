"""Whatever a file holds, the loader answers with a suite or with located mistakes."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvbench.errors import SuiteError
from kvbench.plan.make import make_plan
from kvbench.plugins import load_plugins
from kvbench.suite.lines import KeyPath
from kvbench.suite.load import load_suite

from ..conftest import REPOSITORY
from .test_lines import paths
from .toy_engines import toy_plugins
from .toy_suites import GOOD

DOCUMENT = tomllib.loads(GOOD)
SUITES = sorted((REPOSITORY / "suites").glob("*.toml"))

ODD_VALUES = st.one_of(
    st.sampled_from([0, -1, 1, 2**63, 2**70, 0.5, 1e300, True, False, "", "mha", "../x", "\u0000"]),
    st.sampled_from([[], {}, [[]], [{}], {"": 1}, [1, "a"], {"ge": 1}, {"start": 1, "stop": 2}]),
    st.sampled_from(["calc", "model", "engine", "bytes", "logical_bytes", "size", "1GiB"]),
    # A slash would make it the name of a model on the hub.
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), max_size=5),
    st.integers(),
    st.lists(st.integers(0, 3), max_size=3),
)


def written(value: Any) -> str:
    """Write plain data as TOML, inline."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, dict):
        pairs = (f"{written(key)} = {written(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    return repr(value)


def changed(document: dict[str, Any], path: KeyPath, action: str, value: Any) -> dict[str, Any]:
    """Return the document with one node replaced, removed, or given another key."""
    document = copy.deepcopy(document)
    node: Any = document
    for part in path[:-1]:
        node = node[part]
    if action == "remove":
        del node[path[-1]]
    elif action == "rename" and isinstance(node, dict):
        node[str(value)] = node.pop(path[-1])
    else:
        node[path[-1]] = value
    return document


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(paths(DOCUMENT), key=str)),
            st.sampled_from(["replace", "remove", "rename"]),
            ODD_VALUES,
        ),
        min_size=1,
        max_size=2,
    )
)
@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_spoiled_suite_loads_or_is_refused(
    tmp_path: Path, changes: list[tuple[KeyPath, str, Any]]
) -> None:
    document = DOCUMENT
    for node, action, value in changes:
        try:
            document = changed(document, node, action, value)
        except (KeyError, IndexError, TypeError):
            continue
    path = tmp_path / "suite.toml"
    lines = [f"{written(key)} = {written(value)}" for key, value in document.items()]
    text = "\n".join(lines) + "\n"
    path.write_text(text, encoding="utf-8")
    try:
        suite = load_suite(path, toy_plugins())
    except SuiteError as error:
        found = error.problems
    else:
        found = ()
        assert make_plan(suite, toy_plugins()).cells
    assert all(problem.message for problem in found)
    assert all(1 <= (problem.line or 0) <= len(lines) for problem in found)
    assert not any("is not TOML" in problem.message for problem in found)


@given(st.binary(max_size=60))
@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_bytes_are_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "suite.toml"
    path.write_bytes(data)
    with pytest.raises(SuiteError):
        load_suite(path, toy_plugins())


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_every_shipped_suite_plans(path: Path) -> None:
    plugins = load_plugins()
    suite = load_suite(path, plugins)
    assert suite.name == path.stem
    assert suite.description
    plan = make_plan(suite, plugins)
    assert len({planned.cell.cell_id for planned in plan.cells}) == len(plan.cells)
