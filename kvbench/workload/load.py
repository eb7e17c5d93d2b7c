"""From a ``[workloads.NAME]`` table to a stream of requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kvbench.errors import TraceError
from kvbench.workload.generate import GENERATORS
from kvbench.workload.kinds import KINDS, find_problems, with_defaults
from kvbench.workload.replay import trace_of, trace_requests
from kvbench.workload.request import Request
from kvbench.workload.spec import WorkloadSpec
from kvbench.workload.traces import Trace, file_sha256

__all__ = [
    "KINDS",
    "check_params",
    "find_problems",
    "open_workload",
    "parse_workload",
    "workload_from_trace",
]


def check_params(kind: str, params: Mapping[str, object]) -> None:
    """Check the keys of a workload table (all but ``kind``).

    Raises:
        TraceError: Names every wrong key, one a line, with what was expected.
    """
    problems = find_problems(kind, params)
    if problems:
        raise TraceError("\n".join(f"{key}: {message}" for key, message in problems))


def parse_workload(name: str, table: Mapping[str, object], base: Path) -> WorkloadSpec:
    """Return the workload that a suite's table states, its trace found and hashed.

    Args:
        name: Name of the ``[workloads.NAME]`` table.
        table: The table, ``kind`` included.
        base: Folder that ``path`` is relative to.

    Raises:
        TraceError: A wrong key, or a trace that cannot be read or is in no known format.
    """
    kind = table.get("kind")
    if not isinstance(kind, str):
        raise TraceError(f"workload {name!r}: kind: expected one of {', '.join(KINDS)}")
    stated = {key: value for key, value in table.items() if key != "kind"}
    problems = find_problems(kind, stated)
    if problems:
        lines = (f"workload {name!r}: {key}: {message}" for key, message in problems)
        raise TraceError("\n".join(lines))
    params = with_defaults(kind, stated)
    if not KINDS[kind].reads_trace:
        return WorkloadSpec(name=name, kind=kind, params=params)
    return _with_trace(name, kind, params, base)


def _with_trace(name: str, kind: str, params: dict[str, object], base: Path) -> WorkloadSpec:
    path = base / str(params.pop("path"))
    if not path.is_file():
        raise TraceError(f"workload {name!r}: path: no such file: {path}")
    spec = WorkloadSpec(name=name, kind=kind, params=params, path=path, sha256=file_sha256(path))
    trace_of(spec)
    return spec


def workload_from_trace(path: Path, **params: object) -> WorkloadSpec:
    """Return a ``trace`` workload for a file given on a command line.

    Raises:
        TraceError: As ``parse_workload``.
    """
    stated = {key: value for key, value in params.items() if value is not None}
    table = {"kind": "trace", "path": path.name, **stated}
    return parse_workload(path.name, table, path.parent)


class RequestStream(Iterator[Request]):
    """The requests of a workload, once through.

    Attributes:
        trace: The trace behind a workload of kind ``trace``, whose ``counts`` tell what was
            rejected or changed so far; ``None`` for the others.
    """

    def __init__(self, requests: Iterator[Request], trace: Trace | None = None) -> None:
        self._requests = requests
        self.trace = trace

    def __iter__(self) -> Iterator[Request]:
        return self._requests

    def __next__(self) -> Request:
        return next(self._requests)


def open_workload(spec: WorkloadSpec, seed: int) -> RequestStream:
    """Stream the requests of a workload; the same spec and seed give the same requests.

    Raises:
        TraceError: A bad line of the trace, while it is read.
    """
    if spec.kind == "trace":
        trace = trace_of(spec)
        return RequestStream(trace_requests(spec, trace), trace)
    return RequestStream(GENERATORS[spec.kind](spec, seed))
