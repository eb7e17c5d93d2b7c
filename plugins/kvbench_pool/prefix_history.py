"""The whole prefix history of a workload, compressed: which runs of blocks each request reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvbench.workload.request import Request
from kvbench_pool.page_keys import PageKeyer
from kvbench_pool.prefix_tree import Node, PrefixTree


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixHistory:
    """Accesses of a workload to runs of blocks that are always read together.

    Request i accesses the runs ``runs[first[i]:first[i + 1]]``, from the root of the tree of
    prefixes downwards. No two requests ever part within a run, so a run is as good as its blocks.

    Attributes:
        first: Where each request's accesses start; one more entry than requests.
        runs: Run of each access.
        starts: First block of each run, counted from the start of a sequence.
        blocks: Blocks of each run.
        readable: Whether each access may be served by a cache. A request computes its last
            prompt token anew, so its block (and whatever the request writes after it) may not.
        block_size: Tokens per block.
        prompts: Prompt tokens of each request.
    """

    first: npt.NDArray[np.int64]
    runs: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    blocks: npt.NDArray[np.int64]
    readable: npt.NDArray[np.bool_]
    block_size: int
    prompts: npt.NDArray[np.int64]

    @property
    def distinct_blocks(self) -> int:
        """Blocks of all runs together: the working set."""
        return int(self.blocks.sum())

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of all requests."""
        return int(self.prompts.sum())

    @property
    def requests(self) -> int:
        """Requests of the workload."""
        return len(self.first) - 1


def prefix_history(requests: Iterable[Request], block_size: int) -> PrefixHistory:
    """Read a workload once and return its accesses.

    A request's blocks are the full ones of its prompt, and of its output where the workload
    says what that is: unknown outputs are read by nobody again.
    """
    tree, keyer = PrefixTree(), PageKeyer(block_size)
    ends: list[Node] = []
    limits: list[int] = []
    prompts: list[int] = []
    for request in requests:
        keys = keyer.keys(request)
        ends.append(tree.insert(keys, keys.shared)[0])
        limits.append((request.prompt_tokens - 1) // block_size)
        tree.match(keys, min(limits[-1], keys.shared))  # parts the run there, if it is inside one
        prompts.append(request.prompt_tokens)
    return _numbered(ends, limits, block_size, prompts)


def _numbered(
    ends: list[Node], limits: list[int], block_size: int, prompts: list[int]
) -> PrefixHistory:
    numbers: dict[Node, int] = {}
    runs: list[int] = []
    readable: list[bool] = []
    first = [0]
    for end, limit in zip(ends, limits, strict=True):
        path = list(end.path())[::-1]
        runs.extend(numbers.setdefault(node, len(numbers)) for node in path)
        readable.extend(node.end <= limit for node in path)
        first.append(len(runs))
    return PrefixHistory(
        first=np.asarray(first, np.int64),
        runs=np.asarray(runs, np.int64),
        starts=np.fromiter((node.start for node in numbers), np.int64, len(numbers)),
        blocks=np.fromiter((node.pages for node in numbers), np.int64, len(numbers)),
        readable=np.asarray(readable, np.bool_),
        block_size=block_size,
        prompts=np.asarray(prompts, np.int64),
    )
