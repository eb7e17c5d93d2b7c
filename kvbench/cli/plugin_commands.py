"""Commands that plugins add, kept from breaking each other or the core."""

from __future__ import annotations

from collections.abc import Container
from functools import cache

import click

from kvbench.plugins import Plugin, load_plugins


@cache
def plugin_commands() -> tuple[dict[str, click.Command], dict[str, str]]:
    """Collect every plugin's commands.

    Returns:
        The usable commands by name, and by plugin what is wrong with the others.
    """
    commands: dict[str, click.Command] = {}
    wrong: dict[str, str] = {}
    for plugin in load_plugins().loaded.values():
        try:
            added = _commands_of(plugin)
        except Exception as error:
            wrong[plugin.name] = f"kvbench_commands raised {type(error).__name__}: {error}"
            continue
        for name, command in added.items():
            if name in commands:
                wrong[plugin.name] = f"its command {name!r} is taken by another plugin"
            commands.setdefault(name, command)
    return commands, wrong


def add_plugin_commands(group: click.Group, reserved: Container[str]) -> None:
    """Put the plugins' commands into ``group``, never over a name in ``reserved``."""
    for name, command in plugin_commands()[0].items():
        if name not in reserved:
            group.commands.setdefault(name, command)


def _commands_of(plugin: Plugin) -> dict[str, click.Command]:
    group = click.Group()
    plugin.add_commands(group)
    return dict(group.commands)
