"""The requests of a cell, and what to say about those that were not taken as stated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvbench.engine import Cell
from kvbench.errors import CellFailed
from kvbench.names import counted
from kvbench.workload.load import RequestStream, open_workload
from kvbench.workload.spec import WorkloadSpec


def workload_of(cell: Cell) -> WorkloadSpec:
    """Return the cell's workload.

    Raises:
        CellFailed: It has none.
    """
    if cell.workload is None:
        study = cell.settings.get("study")
        raise CellFailed("option_missing", f"study {study!r} needs the option 'workload'")
    return cell.workload


def requests_of(cell: Cell) -> RequestStream:
    """Stream the requests of the cell's workload; cells of equal seed get the same ones."""
    requests = open_workload(workload_of(cell), cell.seed)
    return at_rate(requests, float(cell.settings.get("rate_scale", 1)))


def at_rate(requests: RequestStream, scale: float) -> RequestStream:
    """Return requests that arrive ``scale`` times as fast, otherwise unchanged."""
    if scale == 1:
        return requests
    faster = (replace(one, arrival_ms=one.arrival_ms / scale) for one in requests)
    return RequestStream(faster, requests.trace)


def warnings_of(requests: RequestStream, dropped: int) -> Iterator[str]:
    """Yield what a reader has to know about requests that were not replayed as stated."""
    if dropped:
        yield f"{counted(dropped, 'request')} left out, too large for the pool."
    if requests.trace is not None:
        yield from requests.trace.remarks()
