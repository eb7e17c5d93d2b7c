"""Directions of knowledge, by reading the imports of every module."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "kvbench"
PLUGINS = ROOT / "plugins"
PLUGIN_PACKAGES = {path.name for path in PLUGINS.iterdir() if (path / "plugin.py").exists()}

#: Packages of the domain: arithmetic and nouns.
DOMAIN = ("model", "workload", "device", "layout.py", "fit", "quantity.py", "engine.py")
PRESENTATION = {"click", "pandas", "matplotlib", "torch", "pluggy", "rich", "jinja2"}
HEAVY = {"numpy", "pandas", "pyarrow", "matplotlib", "torch", "triton", "vllm", "transformers"}

#: Part of the core -> parts it must not know, at module level or inside a function.
FORBIDDEN = {
    "model": {"cli", "runner", "report", "results", "suite", "plan", "plugins", "hookspecs"},
    "workload": {"cli", "runner", "report", "results", "suite", "plan", "plugins", "hookspecs"},
    "device": {"cli", "runner", "report", "results", "suite", "plan", "plugins", "hookspecs"},
    "layout.py": {"cli", "runner", "report", "results", "suite", "plan", "plugins", "workload"},
    "results": {"cli", "runner", "report"},
    "compare": {"cli", "runner", "report"},
    "suite": {"cli", "runner", "report"},
    "plan": {"cli", "runner", "report"},
    "report": {"cli", "runner", "plan"},
    "runner": {"cli", "report"},
    "hookspecs.py": {"cli", "runner", "report", "results", "suite", "plan"},
}

#: A notebook shows results as their report would begin; loaded when one does.
NOTEBOOK = {"kvbench/results/table.py: kvbench.report.exports"}


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def modules(folder: Path) -> list[Path]:
    return [folder] if folder.is_file() else sorted(folder.rglob("*.py"))


def imports(path: Path, *, module_level: bool = False) -> Iterator[tuple[int, str]]:
    """Absolute names that a module imports, each with its line; type-checking ones left out."""
    for node in _statements(tree(path), module_level):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            module = node.module or ""
            yield node.lineno, module
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def _statements(node: ast.AST, module_level: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if module_level and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        yield child
        yield from _statements(child, module_level)


def offences(paths: list[Path], banned: set[str], *, module_level: bool = False) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in paths
        for line, name in imports(path, module_level=module_level)
        if name in banned or any(name.startswith(f"{one}.") for one in banned)
    ]


def test_the_plugins_are_found() -> None:
    assert {"kvbench_analytic", "kvbench_pool", "kvbench_triton", "kvbench_vllm"} <= PLUGIN_PACKAGES
    assert len(modules(CORE)) > 100


def test_the_core_imports_no_plugin() -> None:
    assert offences(modules(CORE), PLUGIN_PACKAGES) == []


def test_the_core_names_no_engine_package() -> None:
    assert offences(modules(CORE), {"torch", "triton", "vllm", "transformers"}) == []


@pytest.mark.parametrize("part", DOMAIN)
def test_the_domain_imports_no_presentation(part: str) -> None:
    assert (CORE / part).exists()
    assert offences(modules(CORE / part), PRESENTATION) == []


@pytest.mark.parametrize("part", FORBIDDEN)
def test_direction_of_knowledge(part: str) -> None:
    banned = {f"kvbench.{other}" for other in FORBIDDEN[part]}
    found = offences(modules(CORE / part), banned)
    assert [one for one in found if not _is_notebook(one)] == []


def _is_notebook(offence: str) -> bool:
    path, _, name = offence.split(":", 2)
    return any(f"{path}:{name}".startswith(one) for one in NOTEBOOK)


@pytest.mark.parametrize("plugin", sorted(PLUGIN_PACKAGES))
def test_registration_imports_nothing_heavy(plugin: str) -> None:
    path = PLUGINS / plugin / "plugin.py"
    assert offences([path], HEAVY, module_level=True) == []


@pytest.mark.parametrize("plugin", sorted(PLUGIN_PACKAGES))
def test_plugins_import_no_command_line_and_no_runner(plugin: str) -> None:
    paths = modules(PLUGINS / plugin)
    banned = {"kvbench.runner", "kvbench.suite", "kvbench.plan"}
    assert offences(paths, banned) == []


def test_only_the_command_line_ends_the_process() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in modules(CORE)
        if path.relative_to(CORE).parts[0] not in {"cli", "__main__.py", "testing"}
        for line in _exits(path)
    ]
    assert found == []


def _exits(path: Path) -> Iterator[int]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Raise) and "SystemExit" in ast.dump(node):
            yield node.lineno
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"sys.exit", "exit", "quit"}:
            yield node.lineno


def test_modules_stay_readable() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in [*modules(CORE), *modules(PLUGINS)]
        if (lines := len(path.read_text("utf-8").splitlines())) > 400
    }
    assert long == {}
