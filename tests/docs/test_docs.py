"""Docs and code are forced to agree: pages are current, examples plan, nothing is undocumented."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from kvbench import hookspecs
from kvbench.plan.make import make_plan
from kvbench.plugins import load_plugins
from kvbench.results.schema import Status
from kvbench.suite.load import load_suite
from kvbench.workload.load import KINDS
from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), REPOSITORY / "README.md"])
TOML_BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{index}")
    for page in PAGES
    for index, block in enumerate(re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), re.S))
    if "schema = 1" in block
]


def generator():
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_generate"] = module
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_code_says():
    for name, text in generator().pages().items():
        written = (DOCS / "reference" / name).read_text("utf-8")
        # How click wraps its help is not ours to pin.
        current = written.split() == text.split()
        assert current, f"docs/reference/{name} is old: run python docs/generate.py"


def test_there_are_examples_to_check():
    assert len(TOML_BLOCKS) >= 2


@pytest.mark.parametrize("block", TOML_BLOCKS)
def test_every_suite_in_the_docs_plans(block, tmp_path):
    path = tmp_path / "suite.toml"
    path.write_text(block, encoding="utf-8")
    plugins = load_plugins()
    plan = make_plan(load_suite(path, plugins), plugins)
    assert plan.cells
    assert all(not cell.skip_status for cell in plan.cells)


def test_every_hook_has_its_signature_in_the_reference():
    page = (DOCS / "reference" / "hooks.md").read_text("utf-8")
    hooks = [name for name in vars(hookspecs) if name.startswith("kvbench_")]
    assert len(hooks) >= 10
    for name in hooks:
        assert f"## {name}\n" in page
        assert f"\n{name}(" in page


def test_every_metric_is_documented():
    page = (DOCS / "reference" / "metrics.md").read_text("utf-8")
    for name, evidence in load_plugins().metrics():
        assert f"| `{name}` | {evidence} |" in page


@pytest.mark.parametrize("status", list(Status))
def test_every_status_is_documented(status):
    assert f"| `{status}` |" in (DOCS / "results.md").read_text("utf-8")


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 130])
def test_every_exit_code_is_documented(code):
    assert f"| {code} |" in (DOCS / "results.md").read_text("utf-8")


def links():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
            if not target.startswith(("http", "mailto")):
                yield pytest.param(page, target, id=f"{page.stem}-{target}")


@pytest.mark.parametrize(("page", "target"), list(links()))
def test_every_link_leads_somewhere(page: Path, target):
    assert (page.parent / target).exists()


def test_every_page_is_in_the_navigation():
    text = (REPOSITORY / "mkdocs.yml").read_text("utf-8")
    for page in DOCS.rglob("*.md"):
        assert page.relative_to(DOCS).as_posix() in text


def test_every_shipped_suite_is_in_the_readme():
    readme = (REPOSITORY / "README.md").read_text("utf-8")
    families = re.findall(r"\| `([a-z_]+)\*?` \|", readme)
    for suite in (REPOSITORY / "suites").glob("*.toml"):
        assert any(suite.stem.startswith(family) for family in families), suite.stem


def test_every_key_of_every_workload_is_documented():
    page = (DOCS / "reference" / "suites.md").read_text("utf-8")
    parts = dict(re.findall(r"^### Workloads of kind `(\w+)`\n(.*?)(?=^#)", page, re.S | re.M))
    assert set(parts) == set(KINDS)
    for name, kind in KINDS.items():
        assert all(f"| `{param.name}` |" in parts[name] for param in kind.params), name
