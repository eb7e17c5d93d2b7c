"""``kvbench schema``: the JSON Schema of suites, for editors and checks."""

from __future__ import annotations

import click

from kvbench.cli.output import emit_json


@click.command("schema")
def command() -> None:
    """Print the JSON Schema (draft 2020-12) of suites.

    It knows the options of the installed engines, so an editor completes and checks them. With
    Even Better TOML: `kvbench schema > kvbench.schema.json`, and `#:schema kvbench.schema.json`
    as the first line of the suite.
    """
    from kvbench.plugins import load_plugins
    from kvbench.suite.schema import suite_schema

    emit_json(suite_schema(plugin.info for plugin in load_plugins().loaded.values()))
