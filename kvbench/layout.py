"""The layout interface: how one engine arranges a model spec in its block pool.

A layout is pure arithmetic. The same model spec has as many arrangements as there are engines;
``paged`` (in this module) is the plain one that no engine has to answer for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kvbench.model.spec import ModelSpec


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
    """

    kind: str
    layers: int
    block_size: int
    page_bytes: int
    page_unpadded_bytes: int
    window_tokens: int | None = None
    fixed_blocks: int | None = None


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
