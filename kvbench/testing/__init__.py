"""Tools for testing engines, suites and readers of results; shipped with kvbench.

``EngineConformance`` is the class that an engine's tests derive from, ``FakeEngine`` and
``fake_plugins`` are an engine that does what a suite says, ``SuiteRunner`` (in pytest: the
fixture ``suite_runner``) runs a suite from a string, ``ResultsBuilder`` fabricates results.
The names load on first use, so that a worker of the fake engine stays small.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvbench.testing.conformance import EngineConformance
    from kvbench.testing.fake_engine import FakeEngine, fake_plugins
    from kvbench.testing.results_builder import ResultsBuilder
    from kvbench.testing.suite_runner import RunOutcome, SuiteRunner

_HOMES = {
    "EngineConformance": "conformance",
    "FakeEngine": "fake_engine",
    "ResultsBuilder": "results_builder",
    "RunOutcome": "suite_runner",
    "SuiteRunner": "suite_runner",
    "fake_plugins": "fake_engine",
}

__all__ = [
    "EngineConformance",
    "FakeEngine",
    "ResultsBuilder",
    "RunOutcome",
    "SuiteRunner",
    "fake_plugins",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
