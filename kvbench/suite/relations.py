"""``[[compare]]`` and ``[[expect]]`` tables: what they refer to has to be in the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvbench.engine import Scalar
from kvbench.names import did_you_mean
from kvbench.suite.axis import sized
from kvbench.suite.conditions import check_conditions, check_value, values_of
from kvbench.suite.engines import Engine, registered_metrics
from kvbench.suite.expand import ENGINE, Expansion, Point, expand, holds
from kvbench.suite.lines import KeyPath
from kvbench.suite.problems import INVALID, Invalid, Problems, shown
from kvbench.suite.spec import Benchmark, Comparison, Condition, Expectation

_GATE_KEYS = ("max_regression", "min_effect", "alpha")
_CHECKS = ("equals", "at_least", "at_most", "against")


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationReader:
    """Makes comparisons and expectations of checked tables.

    Attributes:
        benchmarks: Benchmarks that are right, by name.
        broken: Names of benchmarks that have a mistake; what refers to them is left alone.
        engines: Usable engines by name.
        base: Folder of the suite.
        problems: Where mistakes go.
        expansions: Cells of benchmarks that were looked at before.
    """

    benchmarks: Mapping[str, Benchmark]
    broken: frozenset[str]
    engines: Mapping[str, Engine]
    base: Path
    problems: Problems
    expansions: dict[str, Expansion] = field(default_factory=dict)

    def comparison(self, table: Mapping[str, Any], key: KeyPath) -> Comparison | Invalid:
        """Return the comparison, or ``INVALID`` when it refers to nothing."""
        benchmark = self._benchmark(table, key)
        if isinstance(benchmark, Invalid) or not {"vary", "baseline", "metrics"} <= table.keys():
            return INVALID
        self._check_metrics(table["metrics"], benchmark, (*key, "metrics"))
        vary, baseline = table["vary"], sized(table["vary"], table["baseline"])
        axes = values_of(benchmark)
        if vary not in axes:
            hint = did_you_mean(vary, axes)
            return self.problems.refuse(
                (*key, "vary"), f"{vary!r} is no axis of benchmark {benchmark.name!r}{hint}"
            )
        if not check_value(baseline, vary, axes[vary], (*key, "baseline"), self.problems):
            return INVALID
        if not _has_pair(self._cells(benchmark), vary, baseline):
            return self.problems.refuse(
                key,
                f"compares nothing: no two cells of {benchmark.name!r} differ only in {vary!r} "
                f"with {shown(baseline)} on one side",
            )
        name = table.get("name", f"{benchmark.name}: {vary} against {baseline}")
        return Comparison(
            name=name,
            benchmark=benchmark.name,
            vary=vary,
            baseline=baseline,
            metrics=table["metrics"],
        )

    def expectation(self, table: Mapping[str, Any], key: KeyPath) -> Expectation | Invalid:
        """Return the expectation, or ``INVALID`` when it refers to nothing or says nothing."""
        benchmark = self._benchmark(table, key)
        if isinstance(benchmark, Invalid) or "metric" not in table:
            return INVALID
        self._check_metrics((table["metric"],), benchmark, (*key, "metric"), single=True)
        self._check_rule(table, key)
        self._check_cells(table, benchmark, key)
        where, relative_to = table.get("where", {}), table.get("relative_to", {})
        known = {"name", "benchmark", "where", "relative_to", "against"}
        return Expectation(
            name=table.get("name", _described(table)),
            benchmark=benchmark.name,
            where=tuple(where.values()),
            relative_to=tuple(relative_to.values()),
            against=self._against(table, key),
            **{name: value for name, value in table.items() if name not in known},
        )

    def _benchmark(self, table: Mapping[str, Any], key: KeyPath) -> Benchmark | Invalid:
        known = {*self.benchmarks, *self.broken}
        if "benchmark" not in table:
            return self._only_benchmark(table, key)
        name = table["benchmark"]
        if name not in known:
            return self.problems.refuse(
                (*key, "benchmark"), f"no benchmark {name!r}{did_you_mean(name, known)}"
            )
        return self.benchmarks.get(name, INVALID)

    def _only_benchmark(self, table: Mapping[str, Any], key: KeyPath) -> Benchmark | Invalid:
        """The one benchmark that has the axes and metrics which the table names."""
        if self.broken:
            return INVALID
        fitting = [item for item in self.benchmarks.values() if self._answers(item, table)]
        if len(fitting) == 1:
            return fitting[0]
        if len(self.benchmarks) == 1:
            return next(iter(self.benchmarks.values()))
        listed = ", ".join(item.name for item in fitting or self.benchmarks.values())
        return self.problems.refuse((*key, "benchmark"), f"is missing; expected one of: {listed}")

    def _answers(self, benchmark: Benchmark, table: Mapping[str, Any]) -> bool:
        axes = {*table.get("where", ()), *table.get("relative_to", ())}
        axes |= {table["vary"]} if "vary" in table else set()
        metrics = {*table.get("metrics", ())} | ({table["metric"]} if "metric" in table else set())
        known = registered_metrics(self.engines[name] for name in benchmark.engines)
        return axes <= values_of(benchmark).keys() and (known is None or metrics <= known)

    def _check_metrics(
        self, metrics: Sequence[str], benchmark: Benchmark, key: KeyPath, *, single: bool = False
    ) -> None:
        known = registered_metrics(self.engines[name] for name in benchmark.engines)
        for index, metric in enumerate(metrics):
            if known is not None and metric not in known:
                engines = ", ".join(benchmark.engines)
                self.problems.add(
                    key if single else (*key, index),
                    f"no engine of {benchmark.name!r} ({engines}) has the metric {metric!r}"
                    f"{did_you_mean(metric, known)}",
                )

    def _check_rule(self, table: Mapping[str, Any], key: KeyPath) -> None:
        if not any(name in table for name in _CHECKS):
            self.problems.add(key, f"expects nothing; give one of {', '.join(_CHECKS)}")
        if "tolerance" in table and "equals" not in table:
            self.problems.add((*key, "tolerance"), "is read with equals only")
        for name in _GATE_KEYS:
            if name in table and "against" not in table:
                self.problems.add((*key, name), "is read with against only")
        if table.get("at_least", 0) > table.get("at_most", table.get("at_least", 0)):
            self.problems.add(
                (*key, "at_least"), f"{table['at_least']} is above at_most, {table['at_most']}"
            )

    def _check_cells(self, table: Mapping[str, Any], benchmark: Benchmark, key: KeyPath) -> None:
        axes = values_of(benchmark)
        where, relative_to = table.get("where", {}), table.get("relative_to", {})
        right = [
            check_conditions(where, axes, (*key, "where"), self.problems),
            check_conditions(relative_to, axes, (*key, "relative_to"), self.problems),
        ]
        if not all(right):
            return
        looked_at = [cell for cell in self._cells(benchmark) if holds(where.values(), *cell)]
        if not looked_at:
            self.problems.add((*key, "where"), f"matches no cell of {benchmark.name!r}")
        elif relative_to and not self._is_paired(looked_at, benchmark, where, relative_to):
            self.problems.add(
                (*key, "relative_to"), f"pairs no cell of {benchmark.name!r} with another"
            )

    def _is_paired(
        self,
        looked_at: Sequence[tuple[str, Point]],
        benchmark: Benchmark,
        where: Mapping[str, Condition],
        relative_to: Mapping[str, Condition],
    ) -> bool:
        conditions = {**where, **relative_to}.values()
        others = {
            _rest(cell, relative_to) for cell in self._cells(benchmark) if holds(conditions, *cell)
        }
        return any(_rest(cell, relative_to) in others for cell in looked_at)

    def _against(self, table: Mapping[str, Any], key: KeyPath) -> Path | None:
        if "against" not in table:
            return None
        path = self.base / str(table["against"])
        if not path.exists() and table.get("on_missing", "fail") == "fail":
            self.problems.add(
                (*key, "against"),
                f"no such run: {path}; give a run's folder or samples.parquet, or set "
                'on_missing = "ignore"',
            )
        return path

    def _cells(self, benchmark: Benchmark) -> tuple[tuple[str, Point], ...]:
        if benchmark.name not in self.expansions:
            self.expansions[benchmark.name] = expand(benchmark)
        return self.expansions[benchmark.name].cells


def _rest(cell: tuple[str, Point], varied: Mapping[str, object] | tuple[str, ...]) -> Any:
    """The cell without the axes that differ."""
    engine, point = cell
    axes = {ENGINE: engine, **point}
    return tuple(item for item in axes.items() if item[0] not in varied)


def _has_pair(cells: Sequence[tuple[str, Point]], vary: str, baseline: Scalar) -> bool:
    sides: dict[bool, set[Any]] = {True: set(), False: set()}
    for cell in cells:
        value = cell[0] if vary == ENGINE else cell[1][vary]
        sides[value == baseline].add(_rest(cell, (vary,)))
    return not sides[True].isdisjoint(sides[False])


def _described(table: Mapping[str, Any]) -> str:
    text = str(table["metric"])
    if "where" in table:
        text += f" where {_listed(table['where'].values())}"
    if "relative_to" in table:
        text += f" relative to {_listed(table['relative_to'].values())}"
    rules = {"equals": "equals", "at_least": "is at least", "at_most": "is at most"}
    said = [f"{words} {table[name]}" for name, words in rules.items() if name in table]
    if "against" in table:
        said.append(f"against {table['against']}")
    return f"{text} {' and '.join(said)}".rstrip()


def _listed(conditions: Any) -> str:
    return ", ".join(map(_condition_text, conditions))


def _condition_text(condition: Condition) -> str:
    if condition.equals is not None:
        return f"{condition.axis} = {condition.equals}"
    if condition.one_of:
        return f"{condition.axis} in {', '.join(map(str, condition.one_of))}"
    bounds = (("≥", condition.ge), (">", condition.gt), ("≤", condition.le), ("<", condition.lt))
    return " and ".join(
        f"{condition.axis} {sign} {bound}" for sign, bound in bounds if bound is not None
    )
