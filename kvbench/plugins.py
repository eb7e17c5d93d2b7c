"""Discovery of plugins, one entry point at a time, so that a broken one breaks nothing else."""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

from kvbench import hookspecs
from kvbench.engine import Availability, Cell, CellOutput, EngineConfig, EngineInfo, Metric, Stage
from kvbench.errors import PluginError
from kvbench.layout import Layout, PagedLayout
from kvbench.names import did_you_mean

if TYPE_CHECKING:
    import click

    from kvbench.engine import Observer, ReportSection
    from kvbench.explain.finding import Explanation
    from kvbench.model.spec import ModelSpec
    from kvbench.results import Results

GROUP = "kvbench"
_HOOKS = frozenset(name for name in vars(hookspecs) if name.startswith("kvbench_"))
_NAME = re.compile(r"[a-z][a-z0-9_-]*\Z")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """One loaded plugin: its hooks as typed methods, each call isolated from other plugins.

    Attributes:
        info: What the plugin says it is.
        metrics: What it registers.
        layouts: Layouts it offers.
        distribution: Distribution that registered it, with its version.
        source: What a worker process imports to get the same plugin (``module`` or
            ``module:attribute``); empty for an object that cannot be imported by name.
    """

    info: EngineInfo
    metrics: tuple[Metric, ...]
    layouts: tuple[Layout, ...]
    distribution: str
    source: str
    _manager: pluggy.PluginManager = field(repr=False)

    @property
    def name(self) -> str:
        """Name in suites and on the command line."""
        return self.info.name

    def availability(self) -> Availability:
        """Probe whether the engine can run here; a probe that raises says "no" with its reason."""
        try:
            return self.info.probe()
        except Exception as error:
            return Availability(available=False, reason=f"its probe raised {_short(error)}")

    def open(self, config: EngineConfig) -> Any:
        """Return the context manager of a live engine, or ``None`` when the plugin needs none."""
        return self._manager.hook.kvbench_open(config=config)

    def call(self, cell: Cell, session: Any) -> CellOutput:
        """Call the stage hook that ``cell`` names.

        Raises:
            PluginError: The plugin does not implement the stage or returned something else.
        """
        hook = getattr(self._manager.hook, f"kvbench_{cell.stage}")
        output = hook(cell=cell, session=session)
        if not isinstance(output, CellOutput):
            got = type(output).__name__
            raise PluginError(
                f"plugin {self.name!r}: kvbench_{cell.stage} returned {got}, expected a CellOutput"
            )
        return output

    def environment(self) -> Mapping[str, str]:
        """Provenance of the engine; empty when the plugin gives none."""
        return dict(self._manager.hook.kvbench_environment() or {})

    def observe(self, url: str) -> Observer | None:
        """An observer of the server at ``url``, ``None`` when it is none of this engine's."""
        observer: Observer | None = self._manager.hook.kvbench_observe(url=url)
        return observer

    def report_sections(self, results: Results) -> Sequence[ReportSection]:
        """Sections for the report of ``results``."""
        return tuple(self._manager.hook.kvbench_report_sections(results=results) or ())

    def explain(self, text: str, model: ModelSpec | None) -> Explanation | None:
        """Take apart a log, ``None`` when it is not this engine's."""
        found: Explanation | None = self._manager.hook.kvbench_explain(text=text, model=model)
        return found

    def add_commands(self, cli: click.Group) -> None:
        """Let the plugin add its commands to ``cli``."""
        self._manager.hook.kvbench_commands(cli=cli)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPlugin:
    """An entry point that could not be used.

    Attributes:
        name: Name of the entry point.
        distribution: Distribution that registered it.
        error: What is wrong, one line.
        remedy: What to do about it.
    """

    name: str
    distribution: str
    error: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """Everything that discovery found, usable or not."""

    loaded: Mapping[str, Plugin]
    broken: tuple[BrokenPlugin, ...]

    def get(self, name: str) -> Plugin:
        """Return a usable plugin.

        Raises:
            PluginError: It is unknown or broken; the message says what to do.
        """
        if name in self.loaded:
            return self.loaded[name]
        for plugin in self.broken:
            if plugin.name == name:
                raise PluginError(f"plugin {name!r} is broken: {plugin.error}; {plugin.remedy}")
        raise PluginError(f"no plugin {name!r}{did_you_mean(name, self.loaded)}")

    def layout(self, name: str) -> Layout:
        """Return a layout by name.

        Raises:
            PluginError: No plugin offers it.
        """
        layouts = self.layouts()
        if name not in layouts:
            raise PluginError(f"no layout {name!r}{did_you_mean(name, layouts)}")
        return layouts[name]

    def layouts(self) -> dict[str, Layout]:
        """Every layout by name: the core's ``paged``, then the plugins'."""
        found: dict[str, Layout] = {"paged": PagedLayout()}
        for plugin in self.loaded.values():
            found.update({layout.name: layout for layout in plugin.layouts})
        return found

    def metrics(self) -> dict[tuple[str, str], Metric]:
        """Every registered metric by (name, evidence)."""
        return {
            (metric.name, metric.evidence): metric
            for plugin in self.loaded.values()
            for metric in plugin.metrics
        }


@cache
def load_plugins() -> Plugins:
    """Discover the installed plugins, once per process."""
    return discover(importlib.metadata.entry_points(group=GROUP))


def discover(points: Iterable[importlib.metadata.EntryPoint]) -> Plugins:
    """Load each entry point by itself; what cannot be used becomes a ``BrokenPlugin``.

    Of two that claim one name or metric, the one of kvbench's own distribution stays.
    """
    loaded: dict[str, Plugin] = {}
    broken: list[BrokenPlugin] = []
    for point in sorted(points, key=_precedence):
        try:
            # What a plugin prints must not end up in the output of a command.
            with contextlib.redirect_stdout(sys.stderr):
                plugin = _load(point)
            _check_against(plugin, loaded)
        except (Exception, SystemExit) as error:
            broken.append(_broken(point, error))
        else:
            loaded[plugin.name] = plugin
    return Plugins(loaded=dict(sorted(loaded.items())), broken=tuple(broken))


def _precedence(point: importlib.metadata.EntryPoint) -> tuple[bool, str, str]:
    own = point.dist is not None and point.dist.name == "kvbench"
    return not own, point.name, _owner(point)


def load_module(
    module: object, name: str, distribution: str = "", source: str | None = None
) -> Plugin:
    """Make a plugin of a module or object that implements the hooks.

    Args:
        module: The module or object.
        name: Name to register it under.
        distribution: Distribution that it belongs to.
        source: How to import it by name; a module's own name when not given.

    Raises:
        PluginError: A hook is misspelt or missing, or returned something unusable.
    """
    manager = pluggy.PluginManager("kvbench")
    manager.add_hookspecs(hookspecs)
    _check_spelling(module)
    manager.register(module, name)
    manager.check_pending()
    info = _expect(manager.hook.kvbench_engine(), EngineInfo, "kvbench_engine")
    if not _NAME.match(info.name):
        raise PluginError(f"kvbench_engine gave the name {info.name!r}; use a-z, 0-9, - and _")
    plugin = Plugin(
        info=info,
        metrics=tuple(_each(manager.hook.kvbench_metrics, Metric)),
        layouts=tuple(manager.hook.kvbench_layouts() or ()),
        distribution=distribution,
        source=source if source is not None else _module_name(module),
        _manager=manager,
    )
    _check_stages(plugin)
    return plugin


def load_source(source: str, name: str) -> Plugin:
    """Load one plugin by its ``source``, as a worker process does.

    Raises:
        PluginError: It is not a usable plugin.
    """
    point = importlib.metadata.EntryPoint(name=name, value=source, group=GROUP)
    return load_module(point.load(), name, source=source)


def _module_name(module: object) -> str:
    return module.__name__ if isinstance(module, ModuleType) else ""


def _load(point: importlib.metadata.EntryPoint) -> Plugin:
    plugin = load_module(point.load(), point.name, _owner(point), point.value)
    if plugin.name != point.name:
        raise PluginError(
            f"its entry point is {point.name!r} but kvbench_engine says {plugin.name!r}; "
            "give both the same name"
        )
    return plugin


def _check_spelling(module: object) -> None:
    for name in dir(module):
        if name.startswith("kvbench_") and callable(getattr(module, name)) and name not in _HOOKS:
            raise PluginError(f"unknown hook {name!r}{did_you_mean(name, _HOOKS)}")


def _check_stages(plugin: Plugin) -> None:
    for stage in Stage:
        hook = getattr(plugin._manager.hook, f"kvbench_{stage}")
        if (stage in plugin.info.stages) != bool(hook.get_hookimpls()):
            verb = "declares" if stage in plugin.info.stages else "does not declare"
            raise PluginError(f"kvbench_engine {verb} stage {stage!r}, the hooks say otherwise")


def _check_against(plugin: Plugin, others: Mapping[str, Plugin]) -> None:
    if plugin.name in others:
        owner = others[plugin.name].distribution
        raise PluginError(f"the name {plugin.name!r} is taken by {owner}")
    known = {metric.name: metric for other in others.values() for metric in other.metrics}
    for metric in plugin.metrics:
        first = known.get(metric.name, metric)
        if (first.unit, first.direction) != (metric.unit, metric.direction):
            raise PluginError(
                f"metric {metric.name!r} is registered elsewhere as {first.unit} "
                f"({first.direction} is better), here as {metric.unit} ({metric.direction})"
            )
    taken = {layout.name for other in others.values() for layout in other.layouts} | {"paged"}
    for layout in plugin.layouts:
        if layout.name in taken:
            raise PluginError(f"the layout {layout.name!r} is offered by another plugin already")


def _each(hook: Callable[[], Any], kind: type[_T]) -> Iterable[_T]:
    return [_expect(item, kind, "kvbench_metrics") for item in hook() or ()]


def _expect(value: Any, kind: type[_T], hook: str) -> _T:
    if value is None:
        raise PluginError(f"hook {hook} is missing or returned nothing")
    if not isinstance(value, kind):
        raise PluginError(f"{hook} returned {type(value).__name__}, expected {kind.__name__}")
    return value


def _broken(point: importlib.metadata.EntryPoint, error: BaseException) -> BrokenPlugin:
    owner = _owner(point)
    remedy = f"report it to the authors of {owner}, or uninstall it"
    if isinstance(error, ImportError):
        remedy = f"reinstall {owner}: {point.value} cannot be imported"
    return BrokenPlugin(name=point.name, distribution=owner, error=_short(error), remedy=remedy)


def _owner(point: importlib.metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, PluginError) else f"{type(error).__name__}: {text}"[:300]
