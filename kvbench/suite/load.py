"""Load a suite: TOML text to ``Suite``, strict, with every mistake reported at once."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from kvbench.errors import Problem, SuiteError
from kvbench.plugins import Plugins
from kvbench.suite.axis_types import check_axis_types
from kvbench.suite.benchmarks import BenchmarkReader, note_duplicate_names, read_protocol
from kvbench.suite.engines import Engine, OptionReader, read_engines
from kvbench.suite.lines import KeyPath, Positions, dotted, scan
from kvbench.suite.problems import Invalid, Problems
from kvbench.suite.relations import RelationReader
from kvbench.suite.resources import Resources
from kvbench.suite.spec import Benchmark, Comparison, Expectation, Protocol, Suite
from kvbench.suite.tables import SUITE_SCHEMA_VERSION, root_record

_Relation = TypeVar("_Relation", Comparison, Expectation)
_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$| \(at end of document\)$")


def load_suite(path: Path, plugins: Plugins) -> Suite:
    """Read and check a suite.

    Args:
        path: The TOML file.
        plugins: What is installed: engines are known by it, and options by their engines.

    Raises:
        SuiteError: Every mistake in the file, in the order of its lines.
    """
    text, digest = _read(path)
    positions = scan(text)
    document = _parse(path, text, positions)
    problems = Problems(path, positions)
    _refuse_newer(document, problems)
    suite = _Loader(path, text, digest, plugins, problems).load(document)
    if isinstance(suite, Invalid) or problems:
        raise problems.error()
    return suite


def _read(path: Path) -> tuple[str, str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise _failure(path, None, message) from None
    try:
        return data.decode("utf-8-sig"), hashlib.sha256(data).hexdigest()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _failure(path, line, "is not UTF-8 text, which TOML has to be") from None


def _parse(path: Path, text: str, positions: Positions) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, text, str(error), positions) from None
    except RecursionError:
        raise _failure(path, None, "is nested too deeply") from None


def _syntax_error(path: Path, text: str, message: str, positions: Positions) -> SuiteError:
    """Say which key is defined twice, which ``tomllib`` leaves out, or what it says otherwise."""
    if positions.duplicates:
        return SuiteError(
            tuple(
                Problem(
                    path=path,
                    line=duplicate.line,
                    key=dotted(duplicate.key),
                    message=f"is defined twice, first on line {duplicate.first_line}",
                )
                for duplicate in positions.duplicates
            )
        )
    match = _AT_LINE.search(message)
    last = len(text.splitlines())
    line = int(match[1]) if match and match[1] else last
    return _failure(path, line, f"is not TOML: {_AT_LINE.sub('', message)}")


def _failure(path: Path, line: int | None, message: str) -> SuiteError:
    return SuiteError((Problem(path=path, line=line, key="", message=message),))


def _refuse_newer(document: Mapping[str, Any], problems: Problems) -> None:
    """Stop at once where a newer format makes every other message misleading."""
    version = document.get("schema")
    if isinstance(version, int) and version > SUITE_SCHEMA_VERSION:
        problems.add(
            ("schema",),
            f"version {version} is newer than this kvbench reads; expected "
            f"{SUITE_SCHEMA_VERSION}, or upgrade kvbench",
        )
        raise problems.error()


class _Loader:
    """Builds one suite; collects problems as it goes."""

    def __init__(
        self, path: Path, text: str, digest: str, plugins: Plugins, problems: Problems
    ) -> None:
        self._path = path
        self._text = text
        self._digest = digest
        self._plugins = plugins
        self._problems = problems

    def load(self, document: dict[str, Any]) -> Suite | Invalid:
        table = root_record().parse(document, (), self._problems)
        if isinstance(table, Invalid):
            return table
        resources = Resources(table, document, self._path.parent, self._problems)
        resources.load_tables()
        reader = OptionReader(resources, self._problems)
        engines = read_engines(table.get("engines", {}), self._plugins, reader, self._problems)
        protocol = read_protocol(table.get("protocol", {}), Protocol())
        benchmarks = self._benchmarks(table, document, engines, reader, protocol)
        comparisons, expectations = self._relations(table, document, benchmarks, engines)
        check_axis_types(benchmarks, self._problems)
        about = table.get("suite", {})
        return Suite(
            path=self._path,
            text=self._text,
            sha256=self._digest,
            name=about.get("name", ""),
            description=about.get("description", ""),
            tags=about.get("tags", ()),
            protocol=protocol,
            engines={name: engine.table for name, engine in engines.items()},
            models=resources.models,
            devices=resources.devices,
            workloads=resources.workloads,
            benchmarks=tuple(item for item in benchmarks if not isinstance(item, Invalid)),
            comparisons=comparisons,
            expectations=expectations,
        )

    def _benchmarks(
        self,
        table: Mapping[str, Any],
        document: Mapping[str, Any],
        engines: Mapping[str, Engine],
        reader: OptionReader,
        protocol: Protocol,
    ) -> list[Benchmark | Invalid]:
        tables = table.get("benchmark", ())
        note_duplicate_names(_tables(tables), "benchmark", self._problems)
        written = document.get("engines")
        broken = frozenset(written if isinstance(written, dict) else ()) - engines.keys()
        benchmarks = BenchmarkReader(
            engines=engines,
            broken_engines=broken,
            reader=reader,
            protocol=protocol,
            problems=self._problems,
        )
        return [
            item
            if isinstance(item, Invalid)
            else benchmarks.read(item, ("benchmark", index), document["benchmark"][index])
            for index, item in enumerate(tables)
        ]

    def _relations(
        self,
        table: Mapping[str, Any],
        document: Mapping[str, Any],
        benchmarks: Sequence[Benchmark | Invalid],
        engines: Mapping[str, Engine],
    ) -> tuple[tuple[Comparison, ...], tuple[Expectation, ...]]:
        stated = Counter(item.get("name") for item in _tables(table.get("benchmark", ())))
        right = {
            item.name: item
            for item in benchmarks
            if not isinstance(item, Invalid) and stated[item.name] == 1
        }
        reader = RelationReader(
            benchmarks=right,
            broken=frozenset(name for name in stated if name and name not in right),
            engines=engines,
            base=self._path.parent,
            problems=self._problems,
        )
        comparisons = self._each(table, document, "compare", reader.comparison)
        expectations = self._each(table, document, "expect", reader.expectation)
        return comparisons, expectations

    def _each(
        self,
        table: Mapping[str, Any],
        document: Mapping[str, Any],
        kind: str,
        read: Callable[[Mapping[str, Any], KeyPath], _Relation | Invalid],
    ) -> tuple[_Relation, ...]:
        tables = table.get(kind, ())
        note_duplicate_names(_tables(tables), kind, self._problems)
        found = [
            read(item, (kind, index))
            for index, item in enumerate(tables)
            if _is_whole(item, document[kind][index])
        ]
        return _with_unique_names([item for item in found if not isinstance(item, Invalid)])


def _with_unique_names(items: Sequence[_Relation]) -> tuple[_Relation, ...]:
    """Number the names that were made for unnamed tables where they are the same."""
    seen: Counter[str] = Counter()
    unique = []
    for item in items:
        seen[item.name] += 1
        number = seen[item.name]
        unique.append(replace(item, name=f"{item.name} ({number})") if number > 1 else item)
    return tuple(unique)


def _is_whole(item: Any, written: Any) -> bool:
    """Whether nothing of a relation's table was refused."""
    if isinstance(item, Invalid) or item.keys() != written.keys():
        return False
    nested = ("where", "relative_to")
    return all(len(item.get(name, ())) == len(written.get(name, ())) for name in nested)


def _tables(items: Sequence[Any]) -> list[Any]:
    return [{} if isinstance(item, Invalid) else item for item in items]
