"""Make the plan of a suite: every cell with its identity, and why some would not run.

Order: benchmarks as in the file, engine by engine, each with its points in the order of
``kvbench.suite.expand`` (product, zip, exclude, include); *fit* then marks cells, so that a
report can show the hole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kvbench.engine import Cell, EngineConfig, EngineInfo, Option, Scalar, Scope, Stage
from kvbench.errors import Problem, SuiteError
from kvbench.names import did_you_mean
from kvbench.plan.fit import REASON, FitRule
from kvbench.plan.identity import digest, protocol_content, spec_digest
from kvbench.plan.spec import Plan, PlannedCell, StageCounts
from kvbench.plugins import Plugins
from kvbench.suite.axis_types import axis_types
from kvbench.suite.expand import Expansion, Point, expand
from kvbench.suite.options import options_of
from kvbench.suite.spec import Benchmark, EngineTable, Protocol, Suite
from kvbench.workload.seeds import derive_seed

#: Enters every cell id: a change of what the id covers must not collide with older ids.
_ID_VERSION = 1
#: Reason of the cells of an engine that cannot run here.
UNAVAILABLE = "engine_unavailable"


def make_plan(suite: Suite, plugins: Plugins, *, only_engine: str | None = None) -> Plan:
    """Expand ``suite`` into cells.

    Args:
        suite: A loaded suite.
        plugins: What is installed; engines are probed once each.
        only_engine: Keep the cells of this ``[engines.NAME]`` table only.

    Raises:
        SuiteError: ``only_engine`` is no engine of the suite.
    """
    if only_engine is not None and only_engine not in suite.engines:
        hint = did_you_mean(only_engine, suite.engines)
        message = f"no [engines.{only_engine}] table{hint}"
        raise SuiteError((Problem(path=suite.path, line=None, key="engines", message=message),))
    planner = _Planner(suite, plugins)
    cells: list[PlannedCell] = []
    counts = []
    for benchmark in suite.benchmarks:
        kept = _only(benchmark, only_engine)
        if not kept.engines:
            continue
        expansion = expand(kept)
        found = list(planner.cells(kept, expansion, len(cells)))
        cells += found
        counts.append(_counts(kept, expansion, found))
    return Plan(
        suite=suite,
        plan_id=digest([cell.cell.cell_id for cell in cells]),
        cells=tuple(cells),
        counts=tuple(counts),
        axis_types=axis_types(suite.benchmarks),
    )


def _only(benchmark: Benchmark, engine: str | None) -> Benchmark:
    if engine is None:
        return benchmark
    return replace(benchmark, engines=tuple(name for name in benchmark.engines if name == engine))


def _counts(benchmark: Benchmark, expansion: Expansion, cells: list[PlannedCell]) -> StageCounts:
    return StageCounts(
        benchmark=benchmark.name,
        product=expansion.product,
        zipped=expansion.zipped,
        excluded=expansion.excluded,
        included=expansion.included,
        fit=sum(cell.skip_reason != REASON for cell in cells),
    )


def reduced(protocol: Protocol, stage: Stage, info: EngineInfo | None) -> Protocol:
    """Return the protocol without repeats that could only give the same values again."""
    if stage is Stage.SIZE or (info is not None and info.deterministic):
        return replace(protocol, warmup=0, repeats=1, min_measure_s=0.0)
    return protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One engine of one benchmark: everything that its cells have in common.

    ``content`` is what the ids of the cells cover of it. The names of benchmark and engine table
    are part of that: a suite may ask the same of the same engine twice, and the results keep
    both apart.
    """

    benchmark: Benchmark
    table: EngineTable
    info: EngineInfo | None
    options: Mapping[str, Option]
    defaults: Mapping[str, Scalar]
    protocol: Protocol
    unusable: tuple[str, str]
    content: Mapping[str, object]

    def in_scope(self, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Settings that decide which live engine is needed."""
        options = self.options
        return {
            name: value
            for name, value in settings.items()
            if name in options and options[name].scope is Scope.ENGINE
        }

    def attaches(self, settings: Mapping[str, Scalar]) -> bool:
        """Whether the settings name an engine that runs already."""
        return any(name in self.options and self.options[name].attaches for name in settings)


class _Planner:
    """Makes the cells of one suite; digests of specs and engine configurations are kept."""

    def __init__(self, suite: Suite, plugins: Plugins) -> None:
        self._suite = suite
        self._plugins = plugins
        self._fit = FitRule()
        self._unusable: dict[str, tuple[str, str]] = {}
        self._configs: dict[tuple[object, ...], tuple[EngineConfig, str]] = {}
        self._digests = {
            "model": {name: spec_digest(spec) for name, spec in suite.models.items()},
            "device": {name: spec_digest(spec) for name, spec in suite.devices.items()},
            "workload": {name: spec_digest(spec) for name, spec in suite.workloads.items()},
        }

    def cells(
        self, benchmark: Benchmark, expansion: Expansion, start: int
    ) -> Iterator[PlannedCell]:
        sides = {name: self._side(benchmark, name) for name in benchmark.engines}
        for ordinal, (engine, point) in enumerate(expansion.cells, start):
            yield self._cell(sides[engine], point, ordinal)

    def _side(self, benchmark: Benchmark, engine: str) -> _Side:
        table = self._suite.engines[engine]
        plugin = self._plugins.loaded.get(table.plugin)
        info = plugin.info if plugin else None
        options = options_of(info, benchmark.stage) if info else {}
        defaults = {o.name: o.default for o in options.values() if o.default is not None}
        stated = {**defaults, **table.options, **benchmark.options}
        protocol = reduced(benchmark.protocol, benchmark.stage, info)
        return _Side(
            benchmark=benchmark,
            table=table,
            info=info,
            options=options,
            defaults={k: v for k, v in stated.items() if info is None or k in options},
            protocol=protocol,
            unusable=self._why_unusable(table.plugin),
            content={
                "version": _ID_VERSION,
                "benchmark": benchmark.name,
                "stage": benchmark.stage,
                "engine": [table.name, table.plugin, *_released(info)],
                "protocol": protocol_content(protocol),
            },
        )

    def _why_unusable(self, plugin: str) -> tuple[str, str]:
        """Stable reason code and message, empty for an engine that can run here."""
        if plugin not in self._unusable:
            self._unusable[plugin] = self._probe(plugin)
        return self._unusable[plugin]

    def _probe(self, name: str) -> tuple[str, str]:
        for broken in self._plugins.broken:
            if broken.name == name and name not in self._plugins.loaded:
                return "plugin_broken", f"plugin {name!r}: {broken.error}; {broken.remedy}"
        answer = self._plugins.get(name).availability()
        if answer.available:
            return "", ""
        return UNAVAILABLE, "; ".join(filter(None, (answer.reason, answer.remedy)))

    def _cell(self, side: _Side, point: Point, ordinal: int) -> PlannedCell:
        settings = {**side.defaults, **point}
        names = {kind: self._name(side, settings, kind) for kind in self._digests}
        digests = {kind: self._digests[kind].get(name, "") for kind, name in names.items()}
        cell_id = digest({**side.content, "settings": settings, "specs": digests})
        cell = Cell(
            cell_id=cell_id,
            ordinal=ordinal,
            benchmark=side.benchmark.name,
            stage=side.benchmark.stage,
            engine=side.table.name,
            plugin=side.table.plugin,
            axes=point,
            settings=settings,
            model=self._suite.models.get(names["model"]),
            device=self._suite.devices.get(names["device"]),
            workload=self._suite.workloads.get(names["workload"]),
            seed=_seed(side.protocol.seed, digests["workload"], cell_id),
            cache=side.protocol.cache,
        )
        config, config_id = self._config(side, cell, digests)
        version, distribution = _released(side.info)
        status, reason, message = self._skip(side, cell)
        return PlannedCell(
            cell=cell,
            config=config,
            config_id=config_id,
            protocol=side.protocol,
            engine_version=version,
            engine_distribution=distribution,
            exclusive=side.info.exclusive if side.info else False,
            monotonic=tuple(n for n in point if n in side.options and side.options[n].monotonic),
            skip_status=status,
            skip_reason=reason,
            skip_message=message,
        )

    def _name(self, side: _Side, settings: Mapping[str, Scalar], kind: str) -> str:
        """The model, device or workload that the settings name, empty when they name none."""
        if side.info is not None and (kind not in side.options or side.options[kind].type != kind):
            return ""
        return str(settings.get(kind, ""))

    def _config(
        self, side: _Side, cell: Cell, digests: Mapping[str, str]
    ) -> tuple[EngineConfig, str]:
        settings = side.in_scope(cell.settings)
        key = (side.table.name, *settings.items())
        if key not in self._configs:
            content = {
                "version": _ID_VERSION,
                "engine": [side.table.plugin, *_released(side.info)],
                "settings": settings,
                "specs": {kind: digests[kind] for kind in digests if kind in settings},
            }
            config = EngineConfig(
                engine=side.table.name,
                plugin=side.table.plugin,
                settings=settings,
                model=cell.model if "model" in settings else None,
                device=cell.device if "device" in settings else None,
            )
            self._configs[key] = config, digest(content)
        return self._configs[key]

    def _skip(self, side: _Side, cell: Cell) -> tuple[str, str, str]:
        """Status, reason code and message; empty for a cell that will run."""
        excess = self._fit.excess(cell.model, cell.device, cell.settings)
        if excess:
            return "skipped", REASON, excess
        reason, message = side.unusable
        if reason == UNAVAILABLE and side.attaches(cell.settings):
            return "", "", ""
        return ("unsupported", reason, message) if reason else ("", "", "")


def _released(info: EngineInfo | None) -> tuple[str, str]:
    """Version and distribution of an engine, empty while they are not known."""
    return (info.version, info.distribution) if info else ("", "")


def _seed(suite_seed: int, workload: str, cell_id: str) -> int:
    """Seed of a cell, below 2**63.

    Cells that are asked the same workload get the same seed, whatever else differs, so that
    engines, models and block sizes are compared on the same requests.
    """
    stream = ("workload", workload) if workload else ("cell", cell_id)
    return derive_seed(suite_seed, *stream) >> 1
