"""``kvbench new-plugin``: a working engine plugin to start from."""

from __future__ import annotations

import keyword
import re
from importlib import resources
from pathlib import Path
from string import Template

import click

from kvbench.errors import KvbenchError, PluginError
from kvbench.plugins import load_plugins

#: Template in ``new_plugin_files`` -> path in the new project.
FILES = {
    "pyproject.toml.txt": "pyproject.toml",
    "plugin.py.txt": "kvbench_$name/plugin.py",
    "init.py.txt": "kvbench_$name/__init__.py",
    "test_plugin.py.txt": "tests/test_$name.py",
    "suite.toml.txt": "suites/$name.toml",
    "README.md.txt": "README.md",
}


@click.command("new-plugin")
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Folder to write, new or empty [default: kvbench-NAME].",
)
def command(name: str, output: Path | None) -> None:
    """Write an engine plugin NAME that installs, runs a suite and passes its own tests."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise PluginError(f"new-plugin: {name!r} is no plugin name; use a-z, 0-9 and _")
    if name in load_plugins().loaded:
        raise PluginError(f"new-plugin: {name!r} is installed already; choose another name")
    folder = output or Path(f"kvbench-{name.replace('_', '-')}")
    for path in write_plugin(name, folder):
        click.echo(path)
    click.echo(
        f"Next: python -m pip install -e {folder} && kvbench run {folder}/suites/{name}.toml",
        err=True,
    )


def write_plugin(name: str, folder: Path) -> list[Path]:
    """Write the files of plugin ``name`` into ``folder`` and return their paths.

    Raises:
        KvbenchError: The folder holds files already, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise KvbenchError(f"new-plugin: {folder} is not a new or empty folder")
    values = {"name": name, "distribution": f"kvbench-{name.replace('_', '-')}"}
    templates = resources.files("kvbench.cli") / "new_plugin_files"
    written = []
    for template, target in FILES.items():
        path = folder / Template(target).substitute(values)
        text = Template((templates / template).read_text("utf-8")).substitute(values)
        _write(path, text)
        written.append(path)
    return written


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise KvbenchError(f"new-plugin: cannot write {path}: {error.strerror}") from error
