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
        trace_params: Stated keys of a trace (``format``, ``limit``, ``on_bad_line``); they come
            before those of a table.

    Raises:
        KvbenchError: Nothing there, a wrong key, or keys of a trace where none is read.
    """
    path, _, table = source.partition("#")
    if path.endswith(".toml"):
        return _from_suite(Path(path), table, trace_params)
    kind, colon, rest = source.partition(":")
    if colon and kind in KINDS:
        return _workload(kind, {**_pairs(kind, rest), "kind": kind}, trace_params, Path())
    trace = Path(source)
    if not trace.is_file():
        raise TraceError(_nothing(source, trace))
    stated: dict[str, object] = {"kind": "trace", "path": trace.name}
    return _workload(trace.name, stated, trace_params, trace.parent)


def _workload(
    name: str, table: dict[str, object], trace_params: dict[str, Any], base: Path
) -> WorkloadSpec:
    kind = KINDS.get(str(table.get("kind")))
    if trace_params and kind is not None and not kind.reads_trace:
        keys = ", ".join(trace_params)
        raise TraceError(f"{name}: {keys}: only for traces, and {kind.name!r} workloads read none")
    return parse_workload(name, {**table, **trace_params}, base)


def _nothing(source: str, trace: Path) -> str:
    """Say what is wrong with a source that is neither a file nor a generator."""
    if trace.is_dir():
        return f"{source}: a folder; expected a trace file"
    kind, colon, _ = source.partition(":")
    if kind in KINDS and not colon:
        return f"{source}: no such file; as a generator it needs its keys, {source}:key=value,…"
    if colon and kind.isidentifier():
        return f"{source}: no such file, and no generator {kind!r}{did_you_mean(kind, KINDS)}"
    return (
        f"{source}: no such file; expected a trace, FILE.toml#NAME or a generator as in "
        "constant:requests=10,prompt_tokens=100,output_tokens=20"
    )


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


def _from_suite(path: Path, name: str, trace_params: dict[str, Any]) -> WorkloadSpec:
    return _workload(name, _table(path, "workloads", name), trace_params, path.parent)


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
        what = f"no {kind.removesuffix('s')} {name!r}" if name else f"which of its {kind}?"
        raise KvbenchError(f"{path}: {what}{'; there' if name else ' There'} are: {names}")
    return found


def _pairs(kind: str, text: str) -> dict[str, object]:
    pairs: dict[str, object] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise TraceError(f"{kind}:{text}: {part!r} is not key=value")
        if key.strip() in pairs:
            raise TraceError(f"{kind}:{text}: {key.strip()!r} is given twice")
        pairs[key.strip()] = _value(value.strip())
    return pairs


def _value(text: str) -> object:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text
