"""What a batched simulation notes of its steps: a row each, or one for a stretch of decoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.flow import Chunk, Flow
from kvbench_pool.vllm_policy.free_blocks import FreeBlocks
from kvbench_pool.vllm_policy.pool_split import SplitSeries, full_attention_splits
from kvbench_pool.vllm_policy.step_series import Matrix, StepSeries

#: What a stretch of decoding is noted with; the decoding requests by phase follow.
_STRETCH = (
    "first",
    "steps",
    "free",
    "findable",
    "cached",
    "running",
    "waiting",
    "tables",
    "live",
    "shared",
)
# Where there is so much to work off, it pays; memory is bounded by it.
_MOST_STEPS = 1 << 14
_MOST_NUMBERS = 1 << 19

_T = TypeVar("_T")


class StepNotes:
    """Rows for ``StepSeries``, of one full-attention group.

    Attributes:
        series: Figures of every step.
        split: What the slots were used for in every step.
        table_blocks: Blocks in the tables of all running requests.
        live_tokens: Tokens that they have computed.
    """

    def __init__(self, config: PoolConfig, free: FreeBlocks) -> None:
        self._config = config
        self._free = free
        self.split = SplitSeries()
        self.series = StepSeries(
            config.block_size, lambda rows: self.split.add_rows(full_attention_splits(rows, config))
        )
        self.table_blocks = 0
        self.live_tokens = 0
        self._stretches: list[int] = []
        self._stretch_steps = 0

    def add(
        self,
        step: int,
        running: int,
        queued: int,
        decoding: int,
        chunks: Sequence[Chunk],
        prefilling: Flow | None,
    ) -> None:
        """Note a step, its blocks taken and its tokens not yet counted.

        Args:
            step: The step.
            running: Running requests.
            queued: Requests that waited when it began.
            decoding: Requests that compute one token.
            chunks: Parts of prompts computed.
            prefilling: The request whose prompt was under way when the step began.
        """
        free, series = self._free, self.series
        computed = sum([tokens for _, tokens, _ in chunks]) + decoding
        idle_blocks = idle_tokens = 0
        if prefilling is not None and not (chunks and chunks[0][0] is prefilling):
            idle_blocks, idle_tokens = prefilling.num_blocks, prefilling.computed
        series.pending += (
            step,
            self._config.usable_blocks - free.num_free,
            free.num_findable,
            free.num_cached,
            running,
            queued,
            decoding + len(chunks),
            computed,
            self.table_blocks - idle_blocks,
            self.live_tokens + computed - idle_tokens,
            free.num_shared,
            idle_blocks,
            idle_tokens,
        )
        if series.is_due:
            self.settle()

    def add_decoding(
        self,
        steps: range,
        running: int,
        queued: int,
        counts: list[int],
        free_before: tuple[int, int],
    ) -> None:
        """Note steps in which all that happened is decoding; count what they computed.

        Args:
            steps: The steps; the blocks that they took have left the pool.
            running: Running requests, all of which decode.
            queued: Requests that waited.
            counts: Running requests by the phase of the steps in which they need a block.
            free_before: Free blocks before these steps, and findable ones among them, which are
                taken last.
        """
        free, count = self._free, len(steps)
        num_free, findable = free_before
        self._stretches += (
            steps.start,
            count,
            num_free,
            findable,
            free.num_cached + findable - free.num_findable,
            running,
            queued,
            self.table_blocks,
            self.live_tokens,
            free.num_shared,
        )
        self._stretches += counts
        self._stretch_steps += count
        self.table_blocks += num_free - free.num_free
        self.live_tokens += running * count
        if self._config.enable_prefix_caching:
            ahead = 1 - self._config.lookahead_tokens
            free.num_cached += sum(over_steps(counts, steps.start + ahead, count))
        if self._stretch_steps >= _MOST_STEPS or len(self._stretches) >= _MOST_NUMBERS:
            self.settle()

    def settle(self) -> None:
        """Work off what was noted."""
        width = len(_STRETCH) + self._config.block_size
        stretches: Matrix = np.fromiter(self._stretches, np.int64).reshape(-1, width)
        self._stretches.clear()
        self._stretch_steps = 0
        self.series.settle(_decoding_rows(stretches, self._config))


def over_steps(by_phase: Sequence[_T], first: int, steps: int) -> list[_T]:
    """Return what belongs to the phase of each of some steps, from ``first`` on."""
    size = len(by_phase)
    start = first % size
    return ([*by_phase] * (steps // size + 2))[start : start + steps]


def _decoding_rows(stretches: Matrix, config: PoolConfig) -> Matrix:
    """Return the rows of all steps of stretches of decoding, as ``StepSeries`` takes them."""
    lengths = stretches[:, _STRETCH.index("steps")]
    starts = np.cumsum(lengths) - lengths
    which = np.repeat(np.arange(len(stretches)), lengths)
    of = dict(zip(_STRETCH, stretches[which, : len(_STRETCH)].T, strict=True))
    place = np.arange(len(which)) - starts[which]
    step = of["first"] + place

    def so_far(phase: Matrix) -> Matrix:
        """Sum the counts of phases over each stretch's steps."""
        counts = stretches[which, len(_STRETCH) + phase % config.block_size]
        total = np.cumsum(counts)
        before = total - counts
        inside: Matrix = total - before[starts][which]
        return inside

    taken = so_far(step)
    free = of["free"] - taken
    findable = np.minimum(of["findable"], free)
    cached = of["cached"] + findable - of["findable"]
    if config.enable_prefix_caching:
        cached += so_far(step + 1 - config.lookahead_tokens)
    running, nothing = of["running"], np.zeros_like(step)
    columns = (
        step,
        config.usable_blocks - free,
        findable,
        cached,
        running,
        of["waiting"],
        running,
        running,
        of["tables"] + taken,
        of["live"] + running * (place + 1),
        of["shared"],
        nothing,
        nothing,
    )
    return np.stack(columns, axis=1)
