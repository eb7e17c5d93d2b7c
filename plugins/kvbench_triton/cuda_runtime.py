"""The real device behind ``timing.Runtime`` and the framework's levels of the memory ladder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_WARM_UP_LAUNCHES = 3


class CudaRuntime:
    """CUDA graphs and events of torch (HIP's under the same names)."""

    def capture(self, launches: Sequence[Callable[[], None]]) -> Callable[[], float]:
        """Compile by launching, then capture all launches into one graph."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP_LAUNCHES):
                launches[0]()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for launch in launches:
                launch()
        return lambda: _replay(graph)


def _replay(graph: Any) -> float:
    """Replay once between two events; seconds."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000


def allocator_levels(statistics: dict[str, Any]) -> dict[str, int | None]:
    """``reserved``, ``allocated`` and ``requested`` from ``torch.cuda.memory_stats()``."""
    names = {
        "reserved": "reserved_bytes.all.current",
        "allocated": "allocated_bytes.all.current",
        "requested": "requested_bytes.all.current",
    }
    return {level: _optional_int(statistics.get(name)) for level, name in names.items()}


def _optional_int(value: Any) -> int | None:
    return None if value is None else int(value)
