"""``kvbench engines``: what is installed, what runs here, and what is wrong with the rest."""

from __future__ import annotations

from typing import Any

import click

from kvbench.cli.output import emit, format_option
from kvbench.cli.plugin_commands import plugin_commands
from kvbench.plugins import BrokenPlugin, Plugin, load_plugins

COLUMNS = ("name", "status", "version", "stages", "evidence", "distribution", "detail")


@click.command("engines")
@format_option
def command(output_format: str) -> None:
    """List engine plugins: status ok, unavailable or broken, with the reason and a remedy."""
    plugins = load_plugins()
    wrong_commands = plugin_commands()[1]
    rows = [_row(plugin, wrong_commands.get(name)) for name, plugin in plugins.loaded.items()]
    rows += [_broken_row(plugin) for plugin in plugins.broken]
    emit(rows, COLUMNS, output_format)


def _row(plugin: Plugin, wrong_command: str | None) -> dict[str, Any]:
    available = plugin.availability()
    reason = f"{available.reason}; {available.remedy}".strip("; ")
    detail = plugin.info.summary if available.available else reason
    return {
        "name": plugin.name,
        "status": "ok" if available.available else "unavailable",
        "version": plugin.info.version,
        "stages": sorted(plugin.info.stages),
        "evidence": sorted(plugin.info.evidence),
        "distribution": plugin.distribution,
        "detail": f"{detail} ({wrong_command})" if wrong_command else detail,
        "options": [option.name for option in plugin.info.options],
        "layouts": [layout.name for layout in plugin.layouts],
    }


def _broken_row(plugin: BrokenPlugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "status": "broken",
        "distribution": plugin.distribution,
        "detail": f"{plugin.error}; {plugin.remedy}",
    }
