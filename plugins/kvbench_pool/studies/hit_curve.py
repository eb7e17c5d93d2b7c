"""Hit ratio over memory: LRU at every capacity in one pass, the optimum, and no limit."""

from __future__ import annotations

import math
from collections.abc import Iterator

from kvbench.engine import Cell, CellOutput, Observation
from kvbench_pool.belady import OptimalCache
from kvbench_pool.lru_curve import LruCurve, capacities
from kvbench_pool.observe import simulated, simulated_list
from kvbench_pool.one_table import check_one_table
from kvbench_pool.prefix_history import prefix_history
from kvbench_pool.settings import Memory, memory_of, setting
from kvbench_pool.studies.requests import requests_of, warnings_of
from kvbench_pool.text_table import text_table

_ASSUMPTIONS = (
    "A curve knows no time: each request reads and writes the cache at once, nothing is pinned "
    "by running requests, and its own output is kept only where the workload says what it is.",
    "LRU and optimum share the rule that a request computes at least its last prompt token.",
)


def run(cell: Cell) -> CellOutput:
    """Trace the cell's curve, up to its pool or, without one, to the whole working set.

    Raises:
        CellFailed: The cell has no workload, or a model of several tables per request.
        TraceError: The workload's trace cannot be read.
    """
    check_one_table(cell, "study 'hit_curve'")
    memory = memory_of(cell, default_blocks=0)
    requests = requests_of(cell)
    history = prefix_history(requests, memory.block_size)
    largest = memory.num_blocks - memory.null_blocks
    if memory.num_blocks == 0:
        largest = max(1, history.distinct_blocks)
    sizes = capacities(largest, setting(cell, "curve_points", int))
    lru, optimal = LruCurve(history), OptimalCache(history)
    curve = Curve(
        sizes, [lru.hit_ratio(size) for size in sizes], [optimal.hit_ratio(size) for size in sizes]
    )
    infinite = lru.hit_ratio(math.inf)
    totals = {
        "infinite_hit_ratio": infinite,
        "working_set_blocks": history.distinct_blocks,
        "query_tokens": history.prompt_tokens,
        "requests_count": history.requests,
        "block_size_tokens": memory.block_size,
    }
    return CellOutput(
        observations=(*simulated(totals), *curve.observations(memory)),
        effective={"block_size": memory.block_size, "layout": memory.layout},
        assumptions=(*memory.assumptions, *_ASSUMPTIONS),
        warnings=tuple(warnings_of(requests, 0)),
        artifacts={"hit ratio over memory": curve.table(memory, infinite)},
    )


class Curve:
    """Hit ratios at some capacities."""

    def __init__(self, sizes: list[int], lru: list[float], optimal: list[float]) -> None:
        self.sizes = sizes
        self.lru = lru
        self.optimal = optimal

    def observations(self, memory: Memory) -> Iterator[Observation]:
        """Yield the curve; sample i of each metric is capacity i."""
        yield from simulated_list("curve_capacity_blocks", self.sizes)
        if memory.bytes_per_block is not None:
            in_bytes = (size * memory.bytes_per_block for size in self.sizes)
            yield from simulated_list("curve_capacity_bytes", in_bytes)
        yield from simulated_list("lru_hit_ratio", self.lru)
        yield from simulated_list("optimal_hit_ratio", self.optimal)

    def table(self, memory: Memory, infinite: float) -> str:
        """Return the curve as text."""
        header = ["blocks", "GiB", "LRU", "optimal", "of no limit"]
        rows = [
            [
                f"{size:,}",
                _gib(size, memory.bytes_per_block),
                f"{lru:.2%}",
                f"{optimal:.2%}",
                f"{lru / infinite:.0%}" if infinite else "-",
            ]
            for size, lru, optimal in zip(self.sizes, self.lru, self.optimal, strict=True)
        ]
        return text_table(header, [*rows, ["no limit", "-", f"{infinite:.2%}", "-", "100%"]])


def _gib(blocks: int, bytes_per_block: int | None) -> str:
    return "-" if bytes_per_block is None else f"{blocks * bytes_per_block / 2**30:.2f}"
