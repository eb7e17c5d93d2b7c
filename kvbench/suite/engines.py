"""``[engines.NAME]`` tables: the plugin behind each, and its options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kvbench.engine import EngineInfo, Metric, Option, Scalar, Stage
from kvbench.names import did_you_mean
from kvbench.plugins import Plugins
from kvbench.suite.lines import KeyPath
from kvbench.suite.options import NAMED_TYPES, fault, normal, options_of, unknown_option
from kvbench.suite.problems import INVALID, Invalid, Problems
from kvbench.suite.resources import Resources
from kvbench.suite.spec import EngineTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A table and what its plugin declares.

    Attributes:
        table: The table.
        info: What the plugin says it is; ``None`` when the plugin is broken, and then nothing
            about options or metrics can be checked.
        metrics: What the plugin registers.
    """

    table: EngineTable
    info: EngineInfo | None
    metrics: tuple[Metric, ...] = ()

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.table.name

    def options(self, stage: Stage | None) -> dict[str, Option] | None:
        """Options that are read in ``stage``; ``None`` when they are not known."""
        return None if self.info is None else options_of(self.info, stage)


class OptionReader:
    """Checks values against the options of engines, and resolves the names among them."""

    def __init__(self, resources: Resources, problems: Problems) -> None:
        self._resources = resources
        self._problems = problems

    def value(
        self, name: str, value: Scalar, engine: Engine, stage: Stage | None, key: KeyPath
    ) -> Scalar | Invalid:
        """Return the value as the engine gets it, or note what is wrong with it."""
        options = engine.options(stage)
        if options is None:
            return self._unchecked(name, value, key)
        option = options.get(name)
        if option is None:
            return INVALID
        wrong = fault(option, value)
        if wrong:
            return self._problems.refuse(key, wrong)
        if option.type in NAMED_TYPES:
            found = self._resources.resolve(option.type, str(value), key)
            return INVALID if found is INVALID else value
        return normal(option, value)

    def known(self, name: str, engine: Engine, stage: Stage | None, key: KeyPath) -> bool:
        """Whether the engine has the option; noted when it has not."""
        options = engine.options(stage)
        if options is None or name in options:
            return True
        if engine.info is not None:
            self._problems.add(key, unknown_option(name, engine.name, engine.info, stage))
        return False

    def table(
        self, options: Mapping[str, Scalar], engine: Engine, stage: Stage | None, key: KeyPath
    ) -> dict[str, Scalar]:
        """Return the options that are right; the others are noted."""
        values = {
            name: self.value(name, value, engine, stage, (*key, name))
            for name, value in options.items()
            if self.known(name, engine, stage, (*key, name))
        }
        return {name: value for name, value in values.items() if not isinstance(value, Invalid)}

    def _unchecked(self, name: str, value: Scalar, key: KeyPath) -> Scalar | Invalid:
        """A broken plugin declares nothing; the three names that are the core's still hold."""
        if name in NAMED_TYPES and isinstance(value, str):
            found = self._resources.resolve(name, value, key)
            return INVALID if found is INVALID else value
        return value


def read_engines(
    tables: Mapping[str, Any], plugins: Plugins, reader: OptionReader, problems: Problems
) -> dict[str, Engine]:
    """Return every engine whose plugin is installed, broken or not."""
    engines: dict[str, Engine] = {}
    for name, table in tables.items():
        key: KeyPath = ("engines", name)
        plugin = table.get("plugin")
        if plugin is None or not _is_installed(plugin, plugins, (*key, "plugin"), problems):
            continue
        engine = _engine(name, plugin, {}, plugins)
        options = reader.table(table.get("options", {}), engine, None, (*key, "options"))
        engines[name] = _engine(name, plugin, options, plugins)
    return engines


def registered_metrics(engines: Iterable[Engine]) -> set[str] | None:
    """Names of the metrics that the engines can observe; ``None`` when one of them is broken."""
    engines = tuple(engines)
    if any(engine.info is None for engine in engines):
        return None
    return {metric.name for engine in engines for metric in engine.metrics}


def _engine(name: str, plugin: str, options: Mapping[str, Scalar], plugins: Plugins) -> Engine:
    table = EngineTable(name=name, plugin=plugin, options=options)
    loaded = plugins.loaded.get(plugin)
    if loaded is None:
        return Engine(table=table, info=None)
    return Engine(table=table, info=loaded.info, metrics=loaded.metrics)


def _is_installed(name: str, plugins: Plugins, key: KeyPath, problems: Problems) -> bool:
    installed = {*plugins.loaded, *(plugin.name for plugin in plugins.broken)}
    if name in installed:
        return True
    problems.add(key, f"no plugin {name!r} is installed{did_you_mean(name, installed)}")
    return False
