"""``[[benchmark]]`` tables: engines, options, axes and points, all checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvbench.engine import Cache, Scalar, Stage
from kvbench.names import did_you_mean
from kvbench.suite.engines import Engine, OptionReader
from kvbench.suite.expand import Axes, size_of
from kvbench.suite.lines import KeyPath
from kvbench.suite.options import NAMED_TYPES
from kvbench.suite.points import has_points, read_excludes, read_includes
from kvbench.suite.problems import INVALID, Invalid, Problems
from kvbench.suite.spec import Benchmark, Isolation, OnFailure, Order, Protocol
from kvbench.suite.types import identity, repeated

#: Most cells of one benchmark; a plan holds them all in memory.
MAX_CELLS = 250_000

_ENUMS: Mapping[str, type[Order | Isolation | Cache | OnFailure]] = {
    "order": Order,
    "isolation": Isolation,
    "cache": Cache,
    "on_failure": OnFailure,
}
_NESTED = ("options", "matrix", "zip", "protocol")


def read_protocol(table: Mapping[str, Any], base: Protocol) -> Protocol:
    """Return ``base`` with the keys of a checked ``[protocol]`` table."""
    changes: dict[str, Any] = {
        k: _ENUMS[k](value) if k in _ENUMS else value for k, value in table.items()
    }
    for name in ("min_measure_s", "timeout_s"):
        if name in changes:
            changes[name] = float(changes[name])
    return replace(base, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkReader:
    """Makes benchmarks of checked tables; what does not fit together is noted.

    Attributes:
        engines: Usable engines by name.
        broken_engines: Names of engine tables that have a mistake of their own.
        reader: Checks option values.
        protocol: The suite's protocol.
        problems: Where mistakes go.
    """

    engines: Mapping[str, Engine]
    broken_engines: frozenset[str]
    reader: OptionReader
    protocol: Protocol
    problems: Problems

    def read(
        self, table: Mapping[str, Any], key: KeyPath, raw: Mapping[str, Any]
    ) -> Benchmark | Invalid:
        """Return the benchmark, or ``INVALID`` when anything about it is wrong.

        Args:
            table: What is right of the table.
            key: Where it is.
            raw: The table as written.
        """
        # What can be checked without the missing keys is checked, so that all is said at once.
        stage = Stage(table["stage"]) if "stage" in table else None
        names = table.get("engines", ())
        engines = self._engines_of(names, stage, (*key, "engines"))
        draft = _Draft(
            table=table,
            raw=raw,
            key=key,
            stage=stage,
            engines=engines,
            reader=self.reader,
            problems=self.problems,
        )
        options, matrix, zipped = draft.options(), draft.axes("matrix"), draft.axes("zip")
        if not draft.is_whole or len(engines) < len(names):
            return INVALID
        if len(matrix) + len(zipped) < sum(len(raw.get(kind, ())) for kind in ("matrix", "zip")):
            return INVALID
        if stage is None or not draft.fits(options, matrix, zipped):
            return INVALID
        return self._benchmark(draft, stage, options, matrix, zipped)

    def _benchmark(
        self,
        draft: _Draft,
        stage: Stage,
        options: Mapping[str, Scalar],
        matrix: Axes,
        zipped: Axes,
    ) -> Benchmark | Invalid:
        table = draft.table
        bare = Benchmark(
            name=table["name"],
            stage=stage,
            engines=table["engines"],
            options=options,
            matrix=matrix,
            zip=zipped,
            exclude=(),
            include=(),
            protocol=read_protocol(table.get("protocol", {}), self.protocol),
        )
        benchmark = replace(
            bare,
            exclude=read_excludes(table.get("exclude", ()), bare, draft.key, self.problems),
            include=read_includes(
                table.get("include", ()), bare, draft.values, draft.key, self.problems
            ),
        )
        return benchmark if has_points(benchmark, draft.key, self.problems) else INVALID

    def _engines_of(
        self, names: Sequence[str], stage: Stage | None, key: KeyPath
    ) -> tuple[Engine, ...]:
        found = []
        for index, name in enumerate(names):
            engine = self.engines.get(name)
            if engine is None:
                self._note_unknown_engine(name, (*key, index))
            elif engine.info and stage and stage not in engine.info.stages:
                stages = ", ".join(sorted(engine.info.stages))
                message = f"engine {name!r} has no stage {str(stage)!r}; it has {stages}"
                self.problems.add((*key, index), message)
            else:
                found.append(engine)
        return tuple(found)

    def _note_unknown_engine(self, name: str, key: KeyPath) -> None:
        if name not in self.broken_engines:
            hint = did_you_mean(name, {*self.engines, *self.broken_engines})
            self.problems.add(key, f"no [engines.{name}] table{hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """One table on its way to a benchmark: its options and axes, against its engines."""

    table: Mapping[str, Any]
    raw: Mapping[str, Any]
    key: KeyPath
    stage: Stage | None
    engines: tuple[Engine, ...]
    reader: OptionReader
    problems: Problems

    @property
    def is_whole(self) -> bool:
        """Whether nothing of the table was refused."""
        table, raw = self.table, self.raw
        if table.keys() != raw.keys() or not {"name", "stage", "engines"} <= table.keys():
            return False
        if any(len(table.get(name, {})) != len(raw.get(name, {})) for name in _NESTED):
            return False
        tables = (*table.get("exclude", ()), *table.get("include", ()))
        if any(isinstance(item, Invalid) for item in tables):
            return False
        pairs = zip(table.get("include", ()), raw.get("include", ()), strict=True)
        return all(len(item) == len(written) for item, written in pairs)

    def values(self, table: Mapping[str, Scalar], key: KeyPath) -> dict[str, Scalar]:
        """Return the option values that are right for every engine."""
        values: dict[str, Scalar] = {}
        for engine in self.engines:
            values.update(self.reader.table(table, engine, self.stage, key))
        return values

    def options(self) -> dict[str, Scalar]:
        """Return the ``options`` that are right."""
        return self.values(self.table.get("options", {}), (*self.key, "options"))

    def axes(self, kind: str) -> dict[str, tuple[Scalar, ...]]:
        """Return the axes of ``matrix`` or ``zip`` that are right."""
        written = self.raw.get(kind)
        names = written if isinstance(written, dict) else {}
        known = [name for name in names if self._is_known(name, (*self.key, kind, name))]
        axes = {
            name: self._axis(name, values, (*self.key, kind, name))
            for name, values in self.table.get(kind, {}).items()
            if name in known
        }
        return {name: values for name, values in axes.items() if not isinstance(values, Invalid)}

    def fits(self, options: Mapping[str, Scalar], matrix: Axes, zipped: Axes) -> bool:
        """Whether axes and options make points; what stands in the way is noted."""
        given = {*options, *matrix, *zipped}
        fits = (
            self._zip_fits(matrix, zipped),
            self._size_fits(matrix, zipped),
            self._is_complete(given),
            self._defaults_exist(given),
        )
        return all(fits)

    def _is_known(self, name: str, key: KeyPath) -> bool:
        known = [self.reader.known(name, engine, self.stage, key) for engine in self.engines]
        return all(known)

    def _axis(
        self, name: str, values: tuple[Scalar, ...], key: KeyPath
    ) -> tuple[Scalar, ...] | Invalid:
        for engine in self.engines:
            read = [
                self.reader.value(name, value, engine, self.stage, (*key, index))
                for index, value in enumerate(values)
            ]
            right = tuple(value for value in read if not isinstance(value, Invalid))
            if len(right) < len(values):
                return INVALID
            values = right
        # Only now "1024MiB" and "1GiB" are seen to be the same.
        is_matrix = key[-2] == "matrix"
        return INVALID if is_matrix and repeated(values, key, self.problems) else values

    def _zip_fits(self, matrix: Axes, zipped: Axes) -> bool:
        both = [name for name in zipped if name in matrix]
        for name in both:
            self.problems.add((*self.key, "zip", name), "is an axis of the matrix, too; keep one")
        lengths = {name: len(values) for name, values in zipped.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            self.problems.add((*self.key, "zip"), f"expected axes of one length: {listed}")
            return False
        return not self._repeats_position(zipped) and not both

    def _repeats_position(self, zipped: Axes) -> bool:
        """Note a position of the zip at which every axis has the values of an earlier one."""
        first: dict[tuple[object, ...], int] = {}
        for index, position in enumerate(zip(*zipped.values(), strict=True)):
            seen = first.setdefault(tuple(map(identity, position)), index)
            if seen != index:
                key = (*self.key, "zip", next(iter(zipped)), index)
                self.problems.add(
                    key, f"makes position {index + 1} of the zip equal to position {seen + 1}"
                )
                return True
        return False

    def _size_fits(self, matrix: Axes, zipped: Axes) -> bool:
        cells = size_of(matrix, zipped) * len(self.engines)
        if cells > MAX_CELLS:
            message = f"expands to {cells:,} cells; expected at most {MAX_CELLS:,}"
            self.problems.add(self.key, message)
        return cells <= MAX_CELLS

    def _is_complete(self, given: set[str]) -> bool:
        missing = [
            (engine, option)
            for engine in self.engines
            for option in (engine.options(self.stage) or {}).values()
            if option.required and option.name not in {*given, *engine.table.options}
        ]
        for engine, option in missing:
            message = (
                f"engine {engine.name!r} needs {option.name!r} in stage {str(self.stage)!r}: "
                f"give it as an axis or under options ({option.help})"
            )
            self.problems.add(self.key, message)
        return not missing

    def _defaults_exist(self, given: set[str]) -> bool:
        """Resolve defaults that name a model, device or workload."""
        defaults = [
            self.reader.value(option.name, option.default, engine, self.stage, self.key)
            for engine in self.engines
            for option in (engine.options(self.stage) or {}).values()
            if option.type in NAMED_TYPES
            and option.default is not None
            and option.name not in {*given, *engine.table.options}
        ]
        return INVALID not in defaults


def note_duplicate_names(tables: Sequence[Any], kind: str, problems: Problems) -> None:
    """Note names that several ``[[kind]]`` tables carry."""
    named = [(index, table["name"]) for index, table in enumerate(tables) if "name" in table]
    first: dict[str, int] = {}
    for index, name in named:
        seen = first.setdefault(name, index)
        if seen != index:
            line = problems.line((kind, seen, "name"))
            problems.add(
                (kind, index, "name"), f"{name!r} is taken by another {kind}, on line {line}"
            )
