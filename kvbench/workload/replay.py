"""Requests of a workload of kind ``trace``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from kvbench.errors import TraceError
from kvbench.workload.request import Request
from kvbench.workload.spec import WorkloadSpec
from kvbench.workload.traces import Trace, open_trace


def trace_of(spec: WorkloadSpec) -> Trace:
    """Open the trace that a workload reads.

    Raises:
        TraceError: The workload reads none, or its trace cannot be opened.
    """
    if spec.path is None:
        raise TraceError(f"workload {spec.name!r} of kind {spec.kind!r} reads no trace")
    params: dict[str, Any] = dict(spec.params)
    return open_trace(
        spec.path,
        format=params.get("format"),
        on_bad_line=params.get("on_bad_line", "refuse"),
        limit=params.get("limit"),
    )


def trace_requests(spec: WorkloadSpec, trace: Trace) -> Iterator[Request]:
    """Yield the trace's requests, their arrivals scaled by ``time_scale``."""
    scale = float(str(spec.params.get("time_scale", 1.0)))
    if scale == 1.0:
        return iter(trace)
    return (
        dataclasses.replace(request, arrival_ms=request.arrival_ms * scale) for request in trace
    )
