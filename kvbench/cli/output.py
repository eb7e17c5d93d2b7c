"""Tables on stdout in the formats that every listing command offers."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click

FORMATS = ("table", "json", "csv", "md")

Row = Mapping[str, Any]


def format_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--format table|json|csv|md`` to a command, as its argument ``output_format``."""
    return click.option(
        "--format",
        "output_format",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How to print the result; json is machine-clean on stdout.",
    )(function)


def emit(rows: Iterable[Row], columns: Sequence[str], output_format: str) -> None:
    """Print ``rows`` on stdout.

    Args:
        rows: Mappings; keys beyond ``columns`` appear in JSON only.
        columns: Columns of the other formats, in order.
        output_format: One of ``FORMATS``.
    """
    rows = list(rows)
    if output_format == "json":
        emit_json(rows)
    else:
        click.echo(_RENDERERS[output_format](rows, columns))


def emit_json(value: object) -> None:
    """Print ``value`` as one JSON document; NaN and infinities are refused, not printed."""
    click.echo(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False, default=str))


def _table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    cells = [[_text(row.get(column)) for column in columns] for row in rows]
    widths = [
        max([len(column), *(len(row[index]) for row in cells)])
        for index, column in enumerate(columns)
    ]
    numeric = [
        bool(rows) and all(_is_number(row.get(column)) for row in rows) for column in columns
    ]
    lines = [_aligned(columns, widths, numeric), _aligned(["-" * w for w in widths], widths, [])]
    lines += [_aligned(row, widths, numeric) for row in cells]
    return "\n".join(lines)


def _aligned(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    right = [*numeric, *([False] * (len(cells) - len(numeric)))]
    parts = [
        cell.rjust(width) if is_right else cell.ljust(width)
        for cell, width, is_right in zip(cells, widths, right, strict=True)
    ]
    return "  ".join(parts).rstrip()


def _markdown(rows: Sequence[Row], columns: Sequence[str]) -> str:
    lines = [_markdown_row(columns), _markdown_row(["---"] * len(columns))]
    lines += [_markdown_row([_text(row.get(column)) for column in columns]) for row in rows]
    return "\n".join(lines)


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _csv(rows: Sequence[Row], columns: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(row.get(column)) for column in columns] for row in rows)
    return out.getvalue().rstrip("\n")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(_text(item) for item in value)
    return str(value)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return value is None or (isinstance(value, int | float) and math.isfinite(value))


_RENDERERS: dict[str, Callable[[Sequence[Row], Sequence[str]], str]] = {
    "table": _table,
    "csv": _csv,
    "md": _markdown,
}
