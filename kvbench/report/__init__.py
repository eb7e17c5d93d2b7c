"""Reports: one HTML file and its figures, made from stored results only.

``write_report`` loads pandas and matplotlib on first use, so that importing the package (as the
plugins do for ``geometry_json``) stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvbench.report.geometry import geometry_json
    from kvbench.report.make import write_report

_HOMES = {
    "geometry_json": "kvbench.report.geometry",
    "write_report": "kvbench.report.make",
}

__all__ = ["geometry_json", "write_report"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
