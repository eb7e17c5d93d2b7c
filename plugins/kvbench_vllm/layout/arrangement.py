"""A model arranged in vLLM's block pool: blocks, bytes and concurrency on one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvbench.layout import AdmissionRule, Group, group_blocks
from kvbench.model.sizing import CacheCost, Costs
from kvbench_vllm.layout.derivation import BlockRule, cache_lines, group_lines
from kvbench_vllm.layout.groups import CacheGroup
from kvbench_vllm.layout.spec import CacheSpec
from kvbench_vllm.layout.worker import Worker, state_blocks

VERSION = "vllm 0.32.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmArrangement:
    """The pool of one rank; block ids are shared by all groups.

    Attributes:
        groups: Groups in the engine's order.
        block_size: ``cache_config.block_size`` after the engine's choice.
        bytes_per_block: Bytes of one block id: those of the widest group.
        caches: Every distinct cache with its number, before pages were made equal.
        block_rule: Why the block of a hybrid has its size.
        tp: Tensor-parallel ranks.
        kv_dtype: Cache element type.
        assumptions: What was assumed.
        tokens_in_flight: Tokens scheduled but not settled, held beyond a window.
        encoder_tokens: Encoder tokens that are reserved for a request.
        max_model_len: Longest request.
        blocks_override: Blocks whatever the budget says, or ``None``.
    """

    groups: tuple[Group, ...]
    block_size: int
    bytes_per_block: int
    caches: Mapping[CacheSpec, int]
    block_rule: BlockRule | None
    tp: int
    kv_dtype: str
    assumptions: tuple[str, ...]
    tokens_in_flight: int
    encoder_tokens: int
    max_model_len: int
    blocks_override: int | None = None

    @property
    def layout(self) -> str:
        """The engine version that is mirrored."""
        return VERSION

    @property
    def costs(self) -> Costs:
        """What each cache costs without blocks."""
        return tuple([(_cost(spec), count) for spec, count in self.caches.items()])

    @property
    def null_blocks(self) -> int:
        """Block 0 stands for "nothing" in every table and is never handed out."""
        return 1

    def num_blocks(self, budget_bytes: int) -> int:
        """Whole blocks in ``budget_bytes``, the null block included."""
        if self.blocks_override is not None:
            return self.blocks_override
        return max(0, budget_bytes) // self.bytes_per_block if self.bytes_per_block else 0

    def resident_blocks(self, tokens: int) -> tuple[int, ...]:
        """Blocks per group that hold the cache of ``tokens`` tokens once they are settled."""
        return tuple([group_blocks(group, tokens) for group in self.groups])

    def admission_blocks(self, tokens: int) -> int:
        """Blocks that a request of ``tokens`` tokens is charged when the engine plans."""
        pairs = zip(self.groups, self.admission_rules, strict=True)
        return sum([rule.blocks(tokens, group.block_size) for group, rule in pairs])

    def max_concurrency(self, num_blocks: int, tokens: int) -> float:
        """The engine's "Maximum concurrency for ``tokens`` tokens per request"."""
        needed = self.admission_blocks(tokens)
        return num_blocks / needed if needed else 0.0

    def paged_bytes(self, tokens: int) -> int:
        """Pool bytes of the resident blocks: an id costs the same in every group."""
        return sum(self.resident_blocks(tokens)) * self.bytes_per_block

    def admission_bytes(self, tokens: int) -> int:
        """Pool bytes of the admission blocks."""
        return self.admission_blocks(tokens) * self.bytes_per_block

    def capacity_tokens(self, num_blocks: int) -> int:
        """The engine's "GPU KV cache size: N tokens", at its longest request."""
        return int(self.max_concurrency(num_blocks, self.max_model_len) * self.max_model_len)

    def derivation(self, tokens: int) -> tuple[str, ...]:
        """The arithmetic for a request of ``tokens`` tokens, a line per step."""
        rule = () if self.block_rule is None else (str(self.block_rule),)
        groups = group_lines(self.groups, tokens, self.tokens_in_flight, self.encoder_tokens)
        total = f"one block id costs its widest group: {self.bytes_per_block:,} B"
        return (*cache_lines(self.caches, self.tp), *rule, *groups, total)

    @property
    def admission_rules(self) -> tuple[AdmissionRule, ...]:
        """What each group is charged for, window and tokens in flight included."""
        return tuple([self._admission_rule(group) for group in self.groups])

    def _admission_rule(self, group: Group) -> AdmissionRule:
        match group.kind:
            case "state":
                return AdmissionRule(fixed_blocks=group.fixed_blocks or 0)
            case "cross":
                return AdmissionRule(fixed_blocks=-(-self.encoder_tokens // group.block_size))
            case "sliding" | "sliding_mla":
                held = (group.window_tokens or 1) - 1 + self.tokens_in_flight
                return AdmissionRule(most_tokens=held, extra_blocks=1)
            case "chunked":
                held = (group.window_tokens or 0) + self.tokens_in_flight
                return AdmissionRule(most_tokens=held)
        return AdmissionRule()


def public_group(group: CacheGroup, worker: Worker) -> Group:
    """The group as the layout interface shows it; a mixed group shows the sum of its pages."""
    first = group.first
    pages = [spec.page_bytes for spec, _ in group.caches]
    bare = [spec.unpadded_bytes for spec, _ in group.caches]
    return Group(
        kind=first.kind,
        layers=len(group.caches),
        block_size=first.block_size,
        page_bytes=sum(pages) if group.mixed else pages[0],
        page_unpadded_bytes=sum(bare) if group.mixed else bare[0],
        window_tokens=first.window,
        fixed_blocks=_fixed_blocks(first, worker),
        layer_page_bytes=tuple(sorted(set(pages))),
    )


def _fixed_blocks(spec: CacheSpec, worker: Worker) -> int | None:
    if spec.kind == "state":
        return state_blocks(worker)
    if spec.kind == "cross":
        return -(-spec.encoder_tokens // spec.block_size)
    return None


def _cost(spec: CacheSpec) -> CacheCost:
    if spec.kind == "state":
        return CacheCost(fixed_bytes=spec.entry_bytes)
    if spec.kind == "cross":
        return CacheCost(fixed_bytes=spec.entry_bytes * spec.encoder_tokens)
    return CacheCost(
        entry_bytes=spec.entry_bytes,
        compress=spec.compress,
        visible_tokens=spec.logical_tokens,
    )
