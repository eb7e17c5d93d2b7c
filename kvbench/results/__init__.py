"""Results of runs: the schema, writing, reading.

``read_results(path)`` gives a ``Results``: two Arrow tables and the run's metadata. The names
below load pyarrow on first use only, so that importing the package stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvbench.results.build import build_results
    from kvbench.results.read import read_results
    from kvbench.results.table import Results
    from kvbench.results.write import write_results

_HOMES = {
    "Results": "kvbench.results.table",
    "build_results": "kvbench.results.build",
    "read_results": "kvbench.results.read",
    "write_results": "kvbench.results.write",
}

__all__ = ["Results", "build_results", "read_results", "write_results"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
