"""``kvbench metrics``: every registered metric with its unit and evidence."""

from __future__ import annotations

import click

from kvbench.cli.output import emit, format_option
from kvbench.plugins import load_plugins

COLUMNS = ("name", "unit", "direction", "evidence", "plugins", "meaning")


@click.command("metrics")
@format_option
def command(output_format: str) -> None:
    """List every registered metric: unit, which way is better, kind of evidence, meaning."""
    rows: dict[tuple[str, str], dict[str, object]] = {}
    for plugin in load_plugins().loaded.values():
        for metric in plugin.metrics:
            row = {
                "name": metric.name,
                "unit": metric.unit,
                "direction": str(metric.direction),
                "evidence": str(metric.evidence),
                "plugins": [],
                "exact": metric.exact,
                "meaning": metric.meaning,
            }
            found = rows.setdefault((metric.name, metric.evidence), row)
            found["plugins"] = [*_names(found["plugins"]), plugin.name]
    emit([rows[key] for key in sorted(rows)], COLUMNS, output_format)


def _names(value: object) -> list[str]:
    return list(value) if isinstance(value, list) else []
