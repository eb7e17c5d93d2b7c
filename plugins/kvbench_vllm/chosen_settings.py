"""What vLLM made of the settings it was given."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvbench.engine import Evidence, ReportSection
from kvbench.results.schema import MEASURED

if TYPE_CHECKING:
    from kvbench.results import Results

#: Combinations that a report lists; the results hold the others.
MOST_ROWS = 60
_HEADER = ("setting", "requested", "effective (engine)", "cells")


def sections(results: Results) -> Sequence[ReportSection]:
    """List the settings of vLLM's cells, as requested and as the engine resolved them."""
    columns = ["plugin", "status", "params_json", "effective_json"]
    cells = [
        cell
        for cell in results.cells.select(columns).to_pylist()
        if cell["plugin"] == "vllm" and cell["status"] in MEASURED
    ]
    counted = Counter(row for cell in cells for row in _settings(cell))
    if not counted:
        return ()
    rows = sorted((*row, str(count)) for row, count in counted.items())
    return (
        ReportSection(
            title="What vLLM made of its settings",
            text="A setting that was not requested is the engine's own choice.",
            evidence=Evidence.ENGINE,
            table=(_HEADER, *rows[:MOST_ROWS]),
        ),
    )


def _settings(cell: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    requested = json.loads(cell["params_json"] or "{}")
    for name, value in json.loads(cell["effective_json"] or "{}").items():
        yield name, str(requested.get(name, "not requested")), str(value)
