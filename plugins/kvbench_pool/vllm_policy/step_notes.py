"""What a batched simulation notes of its steps: a row each, a stretch of decoding in one go."""

from __future__ import annotations

from collections.abc import Sequence

from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.flow import Chunk, Flow
from kvbench_pool.vllm_policy.free_blocks import FreeBlocks
from kvbench_pool.vllm_policy.pool_split import SplitSeries, full_attention_splits
from kvbench_pool.vllm_policy.step_series import StepSeries


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
            series.settle()

    def add_decoding(
        self,
        steps: range,
        running: int,
        queued: int,
        counts: Sequence[int],
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
        config, free, size = self._config, self._free, len(counts)
        ahead = 1 - config.lookahead_tokens
        filled = counts if config.enable_prefix_caching else [0] * size
        num_free, findable = free_before
        cached = free.num_cached + findable - free.num_findable
        pending, usable, shared = self.series.pending, config.usable_blocks, free.num_shared
        tables, live = self.table_blocks, self.live_tokens
        for step in steps:
            phase = step % size
            taken = counts[phase]
            num_free -= taken
            tables += taken
            live += running
            cached += filled[(step + ahead) % size]
            if findable > num_free:
                cached -= findable - num_free
                findable = num_free
            pending += (
                step,
                usable - num_free,
                findable,
                cached,
                running,
                queued,
                running,
                running,
                tables,
                live,
                shared,
                0,
                0,
            )
        free.num_cached, self.table_blocks, self.live_tokens = cached, tables, live
        if self.series.is_due:
            self.series.settle()
