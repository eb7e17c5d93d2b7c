"""Write the reference pages from the code they describe: ``python docs/generate.py``.

The tests fail when a page differs from what this would write.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from kvbench import hookspecs
from kvbench.cli import cli
from kvbench.plugins import load_plugins

FOLDER = Path(__file__).parent / "reference"
GENERATED = "<!-- Written by docs/generate.py; edit the code instead. -->\n\n"


def pages() -> dict[str, str]:
    """Return every generated page by file name."""
    return {
        "cli.md": GENERATED + "".join(_command_line()),
        "suites.md": GENERATED + "".join(_suites()),
        "hooks.md": GENERATED + "".join(_hooks()),
        "metrics.md": GENERATED + "".join(_metrics()),
    }


def _command_line() -> Iterator[str]:
    yield "# Command line\n\nSizes take binary suffixes (`8GiB`), counts `k` and `M`.\n"
    context = click.Context(cli)
    for name in ["", *cli.list_commands(context)]:
        words = [name, "--help"] if name else ["--help"]
        shown = CliRunner().invoke(cli, words, prog_name="kvbench", terminal_width=88)
        yield f"\n## kvbench {name}".rstrip() + f"\n\n```text\n{shown.output.rstrip()}\n```\n"


def _hooks() -> Iterator[str]:
    yield f"# Hooks\n\n{_prose(hookspecs.__doc__)}\n"
    for name, hook in vars(hookspecs).items():
        if name.startswith("kvbench_"):
            signature = re.sub(r"'([^']*)'", r"\1", str(inspect.signature(hook)))
            yield f"\n## {name}\n\n```python\n{name}{signature}\n```\n\n{_prose(hook.__doc__)}\n"


def _metrics() -> Iterator[str]:
    yield "# Metrics\n\nOne row for each metric and kind of evidence of the shipped plugins.\n\n"
    yield "| metric | evidence | unit | better | plugins | meaning |\n"
    yield "| --- | --- | --- | --- | --- | --- |\n"
    plugins = load_plugins()
    for (name, evidence), metric in sorted(plugins.metrics().items()):
        owners = [
            plugin.name
            for plugin in plugins.loaded.values()
            if any((m.name, m.evidence) == (name, evidence) for m in plugin.metrics)
        ]
        yield (
            f"| `{name}` | {evidence} | {metric.unit} | {metric.direction} "
            f"| {', '.join(owners)} | {metric.meaning} |\n"
        )


def _suites() -> Iterator[str]:
    result = CliRunner().invoke(cli, ["schema"], prog_name="kvbench")
    schema = json.loads(result.output)
    yield "# Suites\n\nEvery key of a suite, as `kvbench schema` states it.\n"
    for name, part in schema["properties"].items():
        yield from _table(name, part)
    yield from _engine_options()


def _table(name: str, part: dict[str, Any]) -> Iterator[str]:
    title, keys = _keys_of(name, part)
    yield f"\n## {title}\n\n{part.get('description', '')}\n"
    if not keys:
        return
    yield from _key_rows(keys)
    for variant in keys.get("oneOf", ()):
        properties = dict(variant["properties"])
        kind = properties.pop("kind")["const"]
        yield f"\n### {name.capitalize()} of kind `{kind}`\n\n{variant.get('description', '')}\n"
        yield from _key_rows({**variant, "properties": properties})


def _key_rows(keys: dict[str, Any]) -> Iterator[str]:
    required = set(keys.get("required", ()))
    yield "\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n"
    for key, value in keys["properties"].items():
        default = "required" if key in required else json.dumps(value.get("default", ""))
        meaning = _cell(value.get("description", ""))
        yield f"| `{key}` | {_type(value)} | {default.strip(chr(34))} | {meaning} |\n"


def _keys_of(name: str, part: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if part.get("type") == "array":
        return f"[[{name}]]", part["items"] if "properties" in part["items"] else {}
    if "properties" in part:
        return f"[{name}]", part
    inner = part.get("additionalProperties")
    if isinstance(inner, dict):
        return f"[{name}.NAME]", inner if "properties" in inner else {}
    return name, {}


def _type(value: dict[str, Any]) -> str:
    if "enum" in value:
        return " ".join(f"`{choice}`" for choice in value["enum"])
    kind = value.get("type", "value")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _engine_options() -> Iterator[str]:
    yield "\n## Engine options and axes\n\n"
    yield "Each can be fixed under `options` or swept as an axis of `matrix` or `zip`.\n"
    for plugin in load_plugins().loaded.values():
        yield f"\n### {plugin.name}\n\n{plugin.info.summary}\n\n"
        yield "| option | type | default | stages | meaning |\n| --- | --- | --- | --- | --- |\n"
        for option in plugin.info.options:
            stages = ", ".join(option.stages) or "all"
            default = "required" if option.required else _shown(option.default)
            yield (
                f"| `{option.name}` | {option.type} | {default} | {stages} "
                f"| {_cell(option.help)} |\n"
            )


def _shown(value: object) -> str:
    return "" if value is None else f"`{json.dumps(value)}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _prose(docstring: str | None) -> str:
    text = inspect.cleandoc(docstring or "")
    return re.sub(r"``([^`]+)``", r"`\1`", text).replace("::\n", ":\n")


def main() -> None:
    """Write every page."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
