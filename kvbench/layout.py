"""The layout interface: how one engine arranges a model spec in its block pool.

A layout is pure arithmetic. The same model spec has as many arrangements as there are engines;
``paged`` (in this module) is the plain one that no engine has to answer for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from kvbench.errors import ModelError
from kvbench.model.dtypes import KvDtype, kv_dtype
from kvbench.model.sizing import CacheCost, Costs, layer_costs, layer_runs, pipeline_stages
from kvbench.model.spec import LayerSpec, ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions:
    """What a user may choose about an arrangement.

    Attributes:
        block_size: Tokens per block; ``None`` lets the layout choose as its engine would.
        kv_dtype: Cache element type, ``auto`` for the model's own.
        tp: Tensor-parallel ranks.
        pp: Pipeline-parallel ranks.
        engine: The engine's own option names (``max_num_batched_tokens`` …) and values.
    """

    block_size: int | None = None
    kv_dtype: str = "auto"
    tp: int = 1
    pp: int = 1
    engine: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Layers that share block tables.

    Attributes:
        kind: Layer kind the group was made for.
        layers: Layers in the group (padding layers excluded).
        block_size: Tokens per block of this group.
        page_bytes: Bytes of one block of one layer on one rank, padding included.
        page_unpadded_bytes: The same without padding.
        window_tokens: Tokens a sliding or chunked layer can see, ``None`` for the others.
        fixed_blocks: Blocks a request takes whatever its length (state, cross), else ``None``.
        layer_page_bytes: Distinct page sizes of the group's layers, when they differ.
    """

    kind: str
    layers: int
    block_size: int
    page_bytes: int
    page_unpadded_bytes: int
    window_tokens: int | None = None
    fixed_blocks: int | None = None
    layer_page_bytes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRule:
    """Blocks of one group that a request is charged when the engine plans.

    ``fixed_blocks``, or ``ceil(min(tokens, most_tokens) / block_size) + extra_blocks``.

    Attributes:
        fixed_blocks: Blocks whatever the length, ``None`` where it counts.
        most_tokens: Tokens beyond which no more blocks are charged, ``None`` without such.
        extra_blocks: Blocks on top, for a window that starts inside a block.
    """

    fixed_blocks: int | None = None
    most_tokens: int | None = None
    extra_blocks: int = 0

    def blocks(self, tokens: int, block_size: int) -> int:
        """Blocks for a request of ``tokens`` tokens."""
        if self.fixed_blocks is not None:
            return self.fixed_blocks
        held = tokens if self.most_tokens is None else min(tokens, self.most_tokens)
        return _ceil_div(held, block_size) + self.extra_blocks


class Arrangement(Protocol):
    """A model spec arranged in a pool, on one rank. All figures are per rank."""

    @property
    def layout(self) -> str:
        """Name of the layout, with the engine version it mirrors (``vllm 0.32.0``)."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """Groups in the engine's order; block ids are shared by all groups."""

    @property
    def block_size(self) -> int:
        """Tokens per block as the engine would report it."""

    @property
    def bytes_per_block(self) -> int:
        """Pool bytes that one block id costs."""

    @property
    def null_blocks(self) -> int:
        """Blocks that the pool keeps for itself and never hands out."""

    @property
    def costs(self) -> Costs:
        """What each cache of one request costs without blocks: the logical bytes."""

    @property
    def kv_dtype(self) -> str:
        """Cache element type after resolving ``auto``."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What was assumed, one sentence each."""

    def num_blocks(self, budget_bytes: int) -> int:
        """Blocks that ``budget_bytes`` buys, null blocks included."""

    def resident_blocks(self, tokens: int) -> tuple[int, ...]:
        """Blocks per group that hold the cache of one request of ``tokens`` tokens."""

    def admission_blocks(self, tokens: int) -> int:
        """Blocks the engine insists on for one request of ``tokens`` tokens, all groups."""

    def max_concurrency(self, num_blocks: int, tokens: int) -> float:
        """Requests of ``tokens`` tokens that fit at once, as the engine itself computes it."""

    def paged_bytes(self, tokens: int) -> int:
        """Pool bytes behind ``resident_blocks(tokens)``."""

    def admission_bytes(self, tokens: int) -> int:
        """Pool bytes behind ``admission_blocks(tokens)``."""

    def capacity_tokens(self, num_blocks: int) -> int:
        """Tokens that ``num_blocks`` blocks hold, as the engine itself would report it."""


@runtime_checkable
class RuledArrangement(Arrangement, Protocol):
    """An arrangement whose arithmetic is plain enough to be repeated elsewhere.

    Beyond ``Arrangement``, all of it follows from these figures: a block id costs
    ``bytes_per_block`` in every group, ``num_blocks`` is the budget over it, the blocks for
    admission are the sum over the groups' rules, and
    ``capacity_tokens`` is ``int(max_concurrency(blocks, max_model_len) * max_model_len)``.
    """

    @property
    def admission_rules(self) -> tuple[AdmissionRule, ...]:
        """One rule for each group, in the order of ``groups``."""

    @property
    def max_model_len(self) -> int:
        """Longest request in tokens."""


class Layout(Protocol):
    """Arranges model specs the way one engine does."""

    @property
    def name(self) -> str:
        """Name on the command line and in suites (``paged``, ``vllm``)."""

    @property
    def mirrors(self) -> str:
        """Engine and version that the arithmetic mirrors, empty for ``paged``."""

    def arrange(self, model: ModelSpec, options: LayoutOptions) -> Arrangement:
        """Arrange ``model``.

        Raises:
            ModelError: The engine would refuse this model with these options.
        """


#: Tokens per block when nobody chooses: what most paged engines start with.
DEFAULT_BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedArrangement:
    """The plain arrangement: every kind of cache has its own block table, nothing is padded.

    A group of windowed layers keeps the blocks its window can touch; a state or cross layer
    keeps one block of its fixed size. A block id stands for ``block_size`` tokens in every
    per-token layer, windowed ones included, so that a pool is measured in such blocks and a
    request that needs less of them in some layers takes the equivalent of fewer.

    Attributes:
        groups: One per distinct kind of cache, in order of first appearance.
        block_size: Tokens per block.
        bytes_per_block: One block in every per-token layer, or all fixed blocks of a model
            that has no per-token layer.
        costs: What each cache costs without blocks.
        kv_dtype: Cache element type.
        assumptions: What was assumed.
    """

    groups: tuple[Group, ...]
    block_size: int
    bytes_per_block: int
    costs: Costs
    kv_dtype: str
    assumptions: tuple[str, ...] = ()

    @property
    def layout(self) -> str:
        """Always ``paged``."""
        return "paged"

    @property
    def null_blocks(self) -> int:
        """A plain pool keeps no block for itself."""
        return 0

    def num_blocks(self, budget_bytes: int) -> int:
        """Whole blocks in ``budget_bytes``."""
        return max(0, budget_bytes) // self.bytes_per_block if self.bytes_per_block else 0

    def resident_blocks(self, tokens: int) -> tuple[int, ...]:
        """Blocks per group, at the worst alignment of a window with block borders."""
        return tuple([group_blocks(group, tokens) for group in self.groups])

    def admission_blocks(self, tokens: int) -> int:
        """Blocks that the request's bytes are the equivalent of, rounded up."""
        return _ceil_div(self.paged_bytes(tokens), self.bytes_per_block or 1)

    def max_concurrency(self, num_blocks: int, tokens: int) -> float:
        """Pool bytes over the bytes of one request."""
        request = self.paged_bytes(tokens)
        return num_blocks * self.bytes_per_block / request if request else 0.0

    def paged_bytes(self, tokens: int) -> int:
        """Bytes of all resident blocks."""
        return sum(
            [group_blocks(group, tokens) * group.layers * group.page_bytes for group in self.groups]
        )

    def admission_bytes(self, tokens: int) -> int:
        """A plain pool admits what it can hold: the paged bytes."""
        return self.paged_bytes(tokens)

    def capacity_tokens(self, num_blocks: int) -> int:
        """Tokens of one single request that fills ``num_blocks`` blocks, in whole blocks."""
        budget = num_blocks * self.bytes_per_block
        if not self.groups or not any(_grows(group) for group in self.groups):
            return 0
        low, high = 0, budget + 1
        while high - low > 1:
            middle = (low + high) // 2
            fits = self.paged_bytes(middle * self.block_size) <= budget
            low, high = (middle, high) if fits else (low, middle)
        return low * self.block_size


class PagedLayout:
    """Arranges any model spec in plain blocks; no engine stands behind it."""

    name = "paged"
    mirrors = ""

    def arrange(self, model: ModelSpec, options: LayoutOptions) -> PagedArrangement:
        """Arrange ``model`` on the fullest rank.

        Raises:
            ModelError: An unknown dtype, a block size below one token, or engine options.
        """
        size = _checked_block_size(options)
        element = kv_dtype(options.kv_dtype, model.dtype)
        stages = pipeline_stages(model, options.pp)
        arranged = [_arrange(model, stage, element, size, options.tp) for stage in stages]
        return max(arranged, key=lambda stage: stage.bytes_per_block)


def group_blocks(group: Group, tokens: int) -> int:
    """Blocks of a group that hold one request of ``tokens`` tokens.

    A window of W consecutive tokens touches ``(W + B - 2) // B + 1`` blocks of B tokens when
    its start is aligned worst.
    """
    if group.fixed_blocks is not None:
        return group.fixed_blocks
    blocks = _ceil_div(tokens, group.block_size)
    if group.window_tokens is not None:
        blocks = min(blocks, (group.window_tokens + group.block_size - 2) // group.block_size + 1)
    return blocks


def _checked_block_size(options: LayoutOptions) -> int:
    size = DEFAULT_BLOCK_SIZE if options.block_size is None else options.block_size
    if size < 1:
        raise ModelError(f"block size is at least 1 token, got {size}")
    if options.tp < 1 or options.pp < 1:
        raise ModelError(f"tp and pp are at least 1, got tp={options.tp}, pp={options.pp}")
    if options.engine:
        raise ModelError(f"the paged layout has no engine option {min(options.engine)!r}")
    return size


def _arrange(
    model: ModelSpec, layers: tuple[LayerSpec, ...], element: KvDtype, size: int, tp: int
) -> PagedArrangement:
    costs = layer_costs(layers, model, element, tp)
    groups = [
        _group(layer.kind, count, cost, size)
        for (layer, count), (cost, _) in zip(layer_runs(layers), costs, strict=True)
        if cost.entry_bytes or cost.fixed_bytes
    ]
    growing = [group for group in groups if group.fixed_blocks is None]
    return PagedArrangement(
        groups=tuple(groups),
        block_size=size,
        bytes_per_block=sum([group.layers * group.page_bytes for group in growing or groups]),
        costs=costs,
        kv_dtype=element.name,
        assumptions=model.assumptions,
    )


def _group(kind: str, count: int, cost: CacheCost, size: int) -> Group:
    fixed = cost.entry_bytes == 0
    page = cost.fixed_bytes if fixed else cost.entry_bytes * _ceil_div(size, cost.compress)
    return Group(
        kind=kind,
        layers=count,
        block_size=size,
        page_bytes=page,
        page_unpadded_bytes=page,
        window_tokens=cost.visible_tokens,
        fixed_blocks=1 if fixed else None,
    )


def _grows(group: Group) -> bool:
    return group.fixed_blocks is None and group.window_tokens is None


def _ceil_div(value: int, divisor: int) -> int:
    return -(-value // divisor)
