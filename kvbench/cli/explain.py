"""``kvbench explain``: every KV figure of an engine's log, derived or contradicted."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvbench.cli.output import emit, emit_json, format_option

if TYPE_CHECKING:
    from kvbench.explain.finding import Explanation

_MAX_BYTES = 64 << 20
_TIMEOUT_S = 10.0
_COLUMNS = ("figure", "logged", "verdict", "words")


@click.command("explain")
@click.argument("source", metavar="LOG|-|URL")
@click.option("--model", help="Derive the figures from this model's geometry.")
@click.option("--engine", help="Ask this engine's plugin only.")
@format_option
def command(source: str, model: str | None, engine: str | None, output_format: str) -> None:
    """Take apart a start-up log, or the metrics of a running server.

    LOG is a file, - reads stdin, and a URL is asked for its /metrics. Each figure is *derived*
    (other figures or the geometry give the same), *contradicted*, *misleading* (right, but not
    what it seems to say) or only *stated*. Without --model the catalog's entry is taken when the
    log names one. A bearer token for the URL is taken from the environment variable
    KVBENCH_API_TOKEN.

    Exit codes: 0 every figure agrees, 1 a figure is contradicted, 2 nothing could be read,
    4 no KV figure was found.
    """
    from kvbench.model.load import load_model

    spec = None if model is None else load_model(model, weights=False)
    text = _read(source)
    found = _explain(text, spec, engine)
    if found is None:
        click.echo(f"kvbench: {source}: no KV figure of a known engine in it", err=True)
        sys.exit(4)
    _print(found, output_format)
    if any(each.verdict == "contradicted" for each in found.findings):
        sys.exit(1)


def _read(source: str) -> str:
    from kvbench.errors import ResultsError

    if source.startswith(("http://", "https://")):
        return _fetch(source)
    try:
        if source == "-":
            data = sys.stdin.buffer.read(_MAX_BYTES + 1)
        else:
            with Path(source).open("rb") as stream:
                data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ResultsError(f"{source}: {error.strerror or error}") from None
    if len(data) > _MAX_BYTES:
        raise ResultsError(f"{source}: larger than {_MAX_BYTES >> 20} MiB; give the start-up part")
    return data.decode("utf-8", errors="replace")


def _fetch(url: str) -> str:
    import urllib.error
    import urllib.request

    from kvbench.errors import EngineUnavailable

    address = url if url.rstrip("/").endswith("/metrics") else f"{url.rstrip('/')}/metrics"
    token = os.environ.get("KVBENCH_API_TOKEN", "")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        request = urllib.request.Request(address, headers=headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
            data: bytes = answer.read(_MAX_BYTES)
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise EngineUnavailable(f"{address}: {reason}", "is a server running there?") from None
    return data.decode("utf-8", errors="replace")


def _explain(text: str, model: Any, engine: str | None) -> Explanation | None:
    from kvbench.plugins import load_plugins

    plugins = load_plugins()
    asked = [plugins.get(engine)] if engine else list(plugins.loaded.values())
    for plugin in asked:
        found: Explanation | None = plugin.explain(text, model)
        if found is not None:
            return found
    return None


def _print(found: Explanation, output_format: str) -> None:
    rows = [
        {
            "figure": each.figure,
            "logged": each.logged,
            "verdict": str(each.verdict),
            "words": each.words,
        }
        for each in found.findings
    ]
    if output_format == "json":
        emit_json(
            {
                "engine": found.engine,
                "findings": rows,
                "assumptions": list(found.assumptions),
                "state": list(found.state),
            }
        )
        return
    if output_format != "table":
        emit(rows, _COLUMNS, output_format)
        return
    click.echo(f"{found.engine}\n")
    for row in rows:
        click.echo(f"{row['verdict']:13}{row['figure']}: {row['logged']}\n    {row['words']}")
    for line in found.assumptions:
        click.echo(f"\nassumed: {line}")
    for line in found.state:
        click.echo(f"\n{line}")
