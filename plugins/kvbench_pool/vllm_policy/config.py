"""What the vLLM policy can be told, under the engine's own names where it has them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from kvbench.errors import KvbenchError
from kvbench_pool.step_time import StepTime

#: The version whose decisions this package mirrors.
MIRRORS = "vllm 0.32.0"


#: Pages of a request whose states are kept: the running one, the one before, an exported one.
_EXPORTING_PAGES = 3


class GroupKind(StrEnum):
    """How the layers of a group use their blocks."""

    FULL = "full"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    STATE = "state"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheGroup:
    """Layers that share block tables; all groups draw block ids from one pool.

    Attributes:
        kind: ``full`` keeps every token, ``sliding`` the last ``window_tokens``, ``chunked`` those
            of the chunk of ``window_tokens`` in hand, ``state`` a fixed number of pages whatever
            the length.
        window_tokens: Window of a ``sliding`` group, chunk of a ``chunked`` one.
        fixed_blocks: Pages of one request in a ``state`` group. With prefix caching a state is
            kept wherever a chunk ends at a block's end, two at a time in a running request; 3
            stands for kernels that also export a state from inside the last chunk of a prompt.
        block_size: Tokens per block where the group has a size of its own, ``None`` for the
            pool's. A block id costs the same bytes in every group, so that layers with less per
            token hold more tokens in it.
    """

    kind: GroupKind = GroupKind.FULL
    window_tokens: int = 0
    fixed_blocks: int = 1
    block_size: int | None = None

    def __post_init__(self) -> None:
        if self.kind in (GroupKind.SLIDING, GroupKind.CHUNKED) and self.window_tokens < 1:
            raise KvbenchError(
                f"a {self.kind} window is at least 1 token, got {self.window_tokens}"
            )
        if self.kind is GroupKind.STATE and self.fixed_blocks < 1:
            raise KvbenchError(f"a state group takes at least 1 block, got {self.fixed_blocks}")
        if self.block_size is not None and self.block_size < 1:
            raise KvbenchError(f"a group's block is at least 1 token, got {self.block_size}")

    def skipped_tokens(self, computed: int) -> int:
        """Leading tokens that no later token can see after ``computed`` tokens."""
        if self.kind is GroupKind.SLIDING:
            return max(0, computed - self.window_tokens + 1)
        if self.kind is GroupKind.CHUNKED:
            return computed // self.window_tokens * self.window_tokens
        return 0

    @property
    def exports_states(self) -> bool:
        """Whether kernels export a state from inside a chunk."""
        return self.kind is GroupKind.STATE and self.fixed_blocks == _EXPORTING_PAGES


FULL = CacheGroup()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolConfig:
    """A pool and a scheduler.

    Attributes:
        num_blocks: Block ids of the pool; id 0 is the null block, which holds no tokens.
        block_size: Tokens per block, of every group that has no size of its own.
        max_num_seqs: Most requests running.
        max_num_batched_tokens: Token budget of one step.
        watermark: Share of the blocks that an admission leaves free while others run.
        enable_prefix_caching: Keep and share full blocks by their prefix.
        reserve_full_prompt: Admit only what fits with its whole known text
            (``scheduler_reserve_full_isl``).
        async_scheduling: Schedule a step before the output of the one before it is known.
        max_concurrent_batches: Steps under way at once, as the admission cap of windowed groups
            counts them. An engine on a GPU counts 2 under async scheduling; the decision logs
            count 1, since they were made where the platform clears that setting.
        lookahead_tokens: Slots held beyond the computed tokens for speculation.
        prefix_cache_retention_interval: Which full blocks of sliding and state groups can be found
            later. 0 keeps the last window of blocks, or the last state, before the end of each
            prompt and before the place where a request parted from a longer known prefix; a
            multiple of the block size keeps them before each such multiple as well; ``None``
            keeps every block that a hit can need. vLLM's own default is 0; the decision logs
            were made with ``None``.
        groups: Cache groups in the engine's order.
        step_ms: Milliseconds of one step, by which arrivals become steps.
        step_time: Model that gives every step its seconds; requests then join when that clock
            has passed their arrival. ``None`` counts steps of ``step_ms``.
    """

    num_blocks: int
    block_size: int = 16
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    watermark: float = 0.0
    enable_prefix_caching: bool = True
    reserve_full_prompt: bool = True
    async_scheduling: bool = False
    max_concurrent_batches: int = 1
    lookahead_tokens: int = 0
    prefix_cache_retention_interval: int | None = None
    groups: tuple[CacheGroup, ...] = (FULL,)
    step_ms: float = 50.0
    step_time: StepTime | None = None

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise KvbenchError(problem)

    def _problems(self) -> Iterator[str]:
        """Yield what is wrong; what comes later relies on what comes before."""
        least = {
            "num_blocks": 2,
            "block_size": 1,
            "max_num_seqs": 1,
            "max_num_batched_tokens": self.max_num_seqs,
            "max_concurrent_batches": 1,
            "lookahead_tokens": 0,
            "watermark": 0,
        }
        for name, minimum in least.items():
            if not getattr(self, name) >= minimum:
                yield f"{name} is {getattr(self, name)}; expected at least {minimum}"
        if self.watermark >= 1:
            yield f"watermark is {self.watermark}; expected a share below 1"
        if not 0 < self.step_ms < math.inf:
            yield f"step_ms is {self.step_ms}; expected a number above 0"
        if not self.groups:
            yield "groups is empty; expected at least one cache group"
        interval = self.prefix_cache_retention_interval or 0
        if interval < 0 or interval % self.scheduler_block_size:
            yield (
                f"prefix_cache_retention_interval is {interval}; expected 0 or a multiple of the "
                f"block size ({self.scheduler_block_size})"
            )
        yield from self._group_problems()

    def _group_problems(self) -> Iterator[str]:
        for group, size in zip(self.groups, self.block_sizes, strict=True):
            if group.kind is GroupKind.CHUNKED and group.window_tokens % size:
                yield f"a chunk is {group.window_tokens} tokens; expected whole blocks of {size}"
        if not self.enable_prefix_caching:
            return
        kinds = {group.kind for group in self.groups}
        if len(set(self.block_sizes)) > 1 and kinds & {GroupKind.CHUNKED, GroupKind.STATE}:
            yield (
                f"prefix caching with blocks of {sorted(set(self.block_sizes))} tokens in one "
                "pool is simulated for full and sliding attention only"
            )
        if any(
            g.kind is GroupKind.STATE and g.fixed_blocks > _EXPORTING_PAGES for g in self.groups
        ):
            yield (
                f"a request holds at most {_EXPORTING_PAGES} state pages with prefix caching; "
                "states for speculative tokens are not simulated"
            )

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """Tokens per block of every group."""
        return tuple([group.block_size or self.block_size for group in self.groups])

    @property
    def scheduler_block_size(self) -> int:
        """Tokens that a found prefix is a multiple of: whole blocks in every group."""
        return math.lcm(*self.block_sizes)

    @property
    def hash_block_size(self) -> int:
        """Tokens per prefix key: a block of any group ends where one of them does."""
        return math.gcd(*self.block_sizes)

    @property
    def has_state(self) -> bool:
        """Whether some group holds fixed pages."""
        return any(group.kind is GroupKind.STATE for group in self.groups)

    @property
    def keeps_states(self) -> bool:
        """Whether states of fixed size are kept for later requests."""
        return self.has_state and self.enable_prefix_caching

    @property
    def exports_states(self) -> bool:
        """Whether all state groups export states, so that a prompt's last chunk stays whole."""
        return all(g.exports_states for g in self.groups if g.kind is GroupKind.STATE)

    @property
    def usable_blocks(self) -> int:
        """Blocks that can be handed out: all but the null block."""
        return self.num_blocks - 1

    @property
    def watermark_blocks(self) -> int:
        """Blocks that an admission leaves free while others run."""
        return int(self.watermark * self.num_blocks)

    @property
    def max_in_flight_tokens(self) -> int:
        """Most tokens scheduled and not yet settled: one budget per concurrent batch."""
        return self.max_concurrent_batches * self.max_num_batched_tokens

    def arrival_step(self, arrival_ms: float) -> int:
        """Step at which a request that arrives at ``arrival_ms`` (whole ms count) can start."""
        return int(-(-int(arrival_ms) // self.step_ms))

    def fits(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether the pool could ever hold such a request; the others are dropped.

        In one group by the rule of the decision logs: all its tokens have slots at once, but
        states take the same pages whatever the length. In several groups by the blocks that no
        schedule can do without: those that its last step reads and writes.
        """
        tokens = prompt_tokens + output_tokens
        if len(self.groups) == 1:
            if self.has_state:
                return self.groups[0].fixed_blocks <= self.usable_blocks
            return tokens <= self.most_tokens
        end = tokens - 1 + self.lookahead_tokens
        least = [
            self._least_blocks(group, size, tokens - 2, end)
            for group, size in zip(self.groups, self.block_sizes, strict=True)
        ]
        return sum(least) <= self.usable_blocks

    @property
    def most_tokens(self) -> int:
        """Tokens of the longest request that fits one group whose blocks hold tokens.

        The last token is never computed, so that the first slot for speculation is its own.
        """
        return self.usable_blocks * self.block_sizes[0] - max(0, self.lookahead_tokens - 1)

    def _least_blocks(self, group: CacheGroup, size: int, computed: int, end: int) -> int:
        """Blocks of a group in a step that has ``computed`` tokens and makes room for ``end``."""
        if group.kind is GroupKind.STATE:
            return 1 if self.enable_prefix_caching else group.fixed_blocks
        return -(-end // size) - group.skipped_tokens(computed) // size
