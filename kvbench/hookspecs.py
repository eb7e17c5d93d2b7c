"""Every hook an engine plugin can implement, in the order of its life.

A plugin is a module (or object) registered under the entry-point group ``kvbench``::

    [project.entry-points.kvbench]
    myengine = "kvbench_myengine.plugin"

It marks its functions with ``kvbench.hookimpl`` and implements ``kvbench_engine`` plus whatever
else it can answer. The runner calls the one plugin that a cell names, so no hook ever sees
another engine's cells, and an exception stays with the plugin that raised it.

Importing the plugin module must stay cheap: no engine, torch, pandas or matplotlib at module
level. Heavy imports belong inside ``kvbench_open`` and the stages, which run in the worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pluggy

from kvbench.engine import (
    Cell,
    CellOutput,
    EngineConfig,
    EngineInfo,
    Metric,
    Observer,
    ReportSection,
)
from kvbench.layout import Layout

if TYPE_CHECKING:
    import click

    from kvbench.explain.finding import Explanation
    from kvbench.model.spec import ModelSpec
    from kvbench.results import Results

hookspec = pluggy.HookspecMarker("kvbench")


# --- registration: in every process, at discovery; must not import the engine ---------------


@hookspec(firstresult=True)
def kvbench_engine() -> EngineInfo:  # type: ignore[empty-body]
    """Say who you are: name, kinds of evidence, stages, options, availability probe.

    Called once per process at discovery. An exception makes the plugin *broken*: a row in
    ``kvbench engines`` and ``unsupported`` cells.
    """


@hookspec(firstresult=True)
def kvbench_metrics() -> Sequence[Metric]:  # type: ignore[empty-body]
    """Register every metric you can observe, once per kind of evidence it can have.

    An observation of an unregistered (metric, evidence) pair fails its cell. A metric that
    another plugin registers too must agree with it on unit and direction.
    """


@hookspec(firstresult=True)
def kvbench_layouts() -> Sequence[Layout]:  # type: ignore[empty-body]
    """Offer layouts: how your engine arranges a model spec in its pool, by pure arithmetic.

    Called at discovery; any engine and ``kvbench size --layout`` can then use them by name.
    """


@hookspec(firstresult=True)
def kvbench_commands(cli: click.Group) -> None:
    """Add commands to the ``kvbench`` command line.

    Called once, when the command line needs to know its commands. A command whose name is
    taken by the core or by another plugin is refused and reported in ``kvbench engines``.
    """


@hookspec(firstresult=True)
def kvbench_explain(text: str, model: ModelSpec | None) -> Explanation | None:
    """Take apart a start-up log or a page of metrics of your engine.

    Called by ``kvbench explain`` with the whole text; return ``None`` when it is not your
    engine's. ``model`` is the model the user names or the log does, when its geometry is known:
    every figure that follows from it should be derived or contradicted, in words.
    """


# --- one run: in the parent ------------------------------------------------------------------


@hookspec(firstresult=True)
def kvbench_environment() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Return provenance: versions and settings that the numbers depend on.

    Called once per run in the parent. Never return secrets: the mapping is stored in the
    results. An exception is recorded in place of the mapping.
    """


# --- one live engine: in the worker ----------------------------------------------------------


@hookspec(firstresult=True)
def kvbench_open(config: EngineConfig) -> AbstractContextManager[Any]:  # type: ignore[empty-body]
    """Return a context manager around the live engine; its value is the *session*.

    Called in the worker, once per engine configuration: cells whose engine-scope options are
    equal share the session. Optional; without it the session is ``None``. Raise
    ``EngineUnavailable`` when the engine cannot run here: the cells become ``unsupported``.
    """


@hookspec(firstresult=True)
def kvbench_size(cell: Cell, session: Any) -> CellOutput:  # type: ignore[empty-body]
    """Answer by arithmetic: bytes, blocks, concurrency. Called once per repeat, in the worker.

    Raise ``CellFailed`` for a failure with a stable reason, ``EngineUnavailable`` when the
    cell needs what is not here, ``ModelError`` when the model is refused; anything else is
    recorded with its traceback in the cell's log, and the next cell runs in a new worker.
    """


@hookspec(firstresult=True)
def kvbench_allocate(cell: Cell, session: Any) -> CellOutput:  # type: ignore[empty-body]
    """Allocate cache for the cell's workload, in a simulation or in the engine.

    Called like ``kvbench_size``.
    """


@hookspec(firstresult=True)
def kvbench_measure(cell: Cell, session: Any) -> CellOutput:  # type: ignore[empty-body]
    """Run the cell on the engine and measure. Called like ``kvbench_size``.

    Warm-up repeats call this too and are recorded as such; do not warm up inside.
    """


# --- a server that runs already: in the command ``observe`` ---------------------------------


@hookspec(firstresult=True)
def kvbench_observe(url: str) -> Observer | None:
    """Return an observer when ``url`` is a server of your engine, ``None`` when it is not.

    Raise ``CellFailed`` when it is yours but cannot be read (access refused, metrics off).
    """


# --- after the run: in the parent, results only ----------------------------------------------


@hookspec(firstresult=True)
def kvbench_report_sections(results: Results) -> Sequence[ReportSection]:  # type: ignore[empty-body]
    """Add sections to the report of a run that holds cells of yours.

    Called with the stored results only, so that a report can be made anywhere. An exception
    becomes a sentence in the report.
    """
