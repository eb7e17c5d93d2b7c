"""One cache as vLLM's worker describes it: the unit that pages, groups and blocks are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: Kinds that hold all tokens; vLLM lets them share one group whatever their width.
FULL_KINDS = frozenset({"full", "mla", "indexer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """One cache on one rank.

    Attributes:
        kind: ``full``, ``mla``, ``indexer``, ``sliding``, ``sliding_mla``, ``chunked``, ``state``
            or ``cross``.
        block_size: Tokens per block.
        entry_bytes: Bytes of one entry of all heads; of the whole state for ``state``.
        heads: KV heads on the rank, 1 for latent caches, 0 for state.
        head_dims: Widths of key and value heads.
        compress: Tokens per entry.
        window: Tokens a ``sliding``, ``sliding_mla`` or ``chunked`` cache sees.
        alignment: Bytes that a page is padded to a multiple of.
        padded_bytes: Page size after padding, ``None`` without padding.
        encoder_tokens: Tokens of the encoder, for ``cross``.
        logical_tokens: Tokens a request keeps in the cache at most, ``None`` for all.
    """

    kind: str
    block_size: int
    entry_bytes: int
    heads: int = 1
    head_dims: tuple[int, int] = (0, 0)
    compress: int = 1
    window: int | None = None
    alignment: int = 1
    padded_bytes: int | None = None
    encoder_tokens: int = 0
    logical_tokens: int | None = None

    @property
    def unpadded_bytes(self) -> int:
        """Bytes of a page that hold cache."""
        if self.kind == "state":
            return self.entry_bytes
        return self.block_size // self.compress * self.entry_bytes

    @property
    def page_bytes(self) -> int:
        """Bytes of a page, padding included."""
        if self.padded_bytes is not None:
            return self.padded_bytes
        return -(-self.unpadded_bytes // self.alignment) * self.alignment

    def with_block(self, block_size: int) -> CacheSpec:
        """The same cache with another block size."""
        return replace(self, block_size=block_size)

    def padded_to(self, page_bytes: int) -> CacheSpec:
        """The same cache with its page padded to ``page_bytes``."""
        return replace(self, padded_bytes=page_bytes)


def is_uniform_type(specs: list[CacheSpec]) -> bool:
    """Whether all caches always need the same number of token slots.

    Block sizes are equal; full kinds mix freely; windowed caches need one window, state caches
    one page size.
    """
    first = specs[0]
    if len({spec.block_size for spec in specs}) > 1:
        return False
    if first.kind in FULL_KINDS:
        return all(spec.kind in FULL_KINDS for spec in specs)
    if first.kind == "state":
        return all(s.kind == "state" and s.page_bytes == first.page_bytes for s in specs)
    return all(spec.kind == first.kind and spec.window == first.window for spec in specs)
