"""Trees of agents: children fork from everything their parent has read and written."""

from __future__ import annotations

import heapq
import itertools
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvbench.workload.arrivals import arrival_times
from kvbench.workload.request import Request
from kvbench.workload.spec import WorkloadSpec


@dataclass(frozen=True, slots=True, order=True)
class _Node:
    """A node that waits for its arrival; ordered by (arrival, age)."""

    arrival_ms: float
    age: int
    level: int
    context: array[int]
    parent: int | None


class _Forest:
    """Grows trees in order of arrival, a node's children when the node is reached."""

    def __init__(self, params: dict[str, Any]) -> None:
        self._params = params
        self._fresh = itertools.count()
        self._ages = itertools.count()
        self._waiting: list[_Node] = []
        self._index = itertools.count()

    def plant(self, arrival_ms: float) -> None:
        """Add the root of one tree."""
        self._push(arrival_ms, 0, self._say(self._params["root_tokens"]), None)

    def grow_until(self, limit_ms: float) -> Iterator[Request]:
        """Yield every node that arrives before ``limit_ms``."""
        while self._waiting and self._waiting[0].arrival_ms < limit_ms:
            yield self._visit(heapq.heappop(self._waiting))

    def _visit(self, node: _Node) -> Request:
        index = next(self._index)
        output = self._say(self._params["output_tokens"])
        if node.level < self._params["depth"]:
            self._branch(node, index, node.context + output)
        return Request(
            arrival_ms=node.arrival_ms,
            prompt_tokens=len(node.context),
            output_tokens=len(output),
            prompt_ids=node.context,
            output_ids=output,
            parent=node.parent,
        )

    def _branch(self, node: _Node, index: int, context: array[int]) -> None:
        arrival_ms = node.arrival_ms + self._params["step_s"] * 1000
        for _ in range(self._params["fanout"]):
            own = self._say(self._params["prompt_tokens"])
            self._push(arrival_ms, node.level + 1, context + own, index)

    def _push(self, arrival_ms: float, level: int, context: array[int], parent: int | None) -> None:
        node = _Node(arrival_ms, next(self._ages), level, context, parent)
        heapq.heappush(self._waiting, node)

    def _say(self, tokens: int) -> array[int]:
        return array("q", itertools.islice(self._fresh, tokens))


def agent_tree(spec: WorkloadSpec, seed: int) -> Iterator[Request]:
    """Yield the nodes of all trees in order of arrival; ``parent`` is an index into them."""
    params: dict[str, Any] = dict(spec.params)
    forest = _Forest(params)
    for start_ms in itertools.islice(arrival_times(spec, seed), params["trees"]):
        yield from forest.grow_until(start_ms)
        forest.plant(start_ms)
    yield from forest.grow_until(float("inf"))
