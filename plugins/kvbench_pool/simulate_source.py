"""What ``kvbench simulate`` is pointed at: a trace, a suite's workload or device, a generator."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvbench.device.catalog import load_device
from kvbench.device.spec import DeviceSpec
from kvbench.errors import KvbenchError, TraceError
from kvbench.names import did_you_mean
from kvbench.workload.load import KINDS, RequestStream, parse_workload
from kvbench.workload.request import Request
from kvbench.workload.spec import WorkloadSpec


class TimedRequests:
    """Requests of a stream, and the seconds that reading them took so far."""

    def __init__(self, requests: RequestStream) -> None:
        self._requests = iter(requests)
        self.spent_s = 0.0

    def __iter__(self) -> Iterator[Request]:
        return self

    def __next__(self) -> Request:
        start = time.perf_counter()
        try:
            return next(self._requests)
        finally:
            self.spent_s += time.perf_counter() - start


def find_workload(source: str, trace_params: dict[str, Any]) -> WorkloadSpec:
    """Return the workload behind an argument.

    Args:
        source: Path of a trace; ``FILE.toml#NAME`` for a suite's ``[workloads.NAME]`` table; or
            ``KIND:key=value,…`` for a generator (``lognormal:requests=1000,arrival=poisson``).
        trace_params: Further keys for a trace (``format``, ``limit``, ``on_bad_line``).

    Raises:
        KvbenchError: Nothing there, or a wrong key.
    """
    path, _, table = source.partition("#")
    if path.endswith(".toml"):
        return _from_suite(Path(path), table)
    kind, colon, rest = source.partition(":")
    if colon and kind in KINDS and not KINDS[kind].reads_trace:
        return parse_workload(kind, {"kind": kind, **_pairs(kind, rest)}, Path())
    trace = Path(source)
    if not trace.is_file():
        raise TraceError(f"{source}: no such trace, and no generator{_hint(kind)}")
    stated = {key: value for key, value in trace_params.items() if value is not None}
    table_of = {"kind": "trace", "path": trace.name, **stated}
    return parse_workload(trace.name, table_of, trace.parent)


def _hint(kind: str) -> str:
    generators = [name for name, found in KINDS.items() if not found.reads_trace]
    near = did_you_mean(kind, generators)
    return f"{near}; generators are {', '.join(f'{name}:key=value,…' for name in generators)}"


def find_device(source: str) -> DeviceSpec:
    """Return the device behind an argument.

    Args:
        source: Catalog name, or ``FILE.toml#NAME`` for a suite's ``[devices.NAME]`` table.

    Raises:
        KvbenchError: Nothing there, or a wrong key.
    """
    path, hash_sign, name = source.partition("#")
    if not hash_sign:
        return load_device(source)
    return load_device(name, {name: _table(Path(path), "devices", name)})


def _from_suite(path: Path, name: str) -> WorkloadSpec:
    return parse_workload(name, _table(path, "workloads", name), path.parent)


def _table(path: Path, kind: str, name: str) -> dict[str, Any]:
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8")).get(kind, {})
    except OSError as error:
        raise KvbenchError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KvbenchError(f"{path}: not TOML: {error}") from error
    found = tables.get(name) if isinstance(tables, dict) else None
    if not isinstance(found, dict):
        names = ", ".join(f"{path}#{known}" for known in tables) or "none"
        raise KvbenchError(f"{path}: no {kind.removesuffix('s')} {name!r}; there are: {names}")
    return found


def _pairs(kind: str, text: str) -> dict[str, object]:
    pairs: dict[str, object] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise TraceError(f"{kind}:{text}: {part!r} is not key=value")
        pairs[key.strip()] = _value(value.strip())
    return pairs


def _value(text: str) -> object:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text
