"""The arithmetic of an arrangement in words, numbers put in: what ``--why`` shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kvbench.layout import Group
from kvbench_vllm.layout.spec import CacheSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRule:
    """Why the block of a hybrid has its size.

    Attributes:
        align: Tokens that the block is a multiple of.
        state_bytes: Bytes of one layer's state.
        token_bytes: Bytes of one token in one attention layer.
        size: The block, in tokens.
    """

    align: int
    state_bytes: int
    token_bytes: int
    size: int

    def __str__(self) -> str:
        return (
            f"block: an attention page covers a state page: {self.align} · "
            f"⌈{self.state_bytes} B / ({self.align} · {self.token_bytes} B)⌉ = {self.size} tokens, "
            f"page {self.size * self.token_bytes:,} B"
        )


def cache_lines(caches: Mapping[CacheSpec, int], tp: int) -> Iterator[str]:
    """One line per distinct cache: bytes of an entry and of a page."""
    share = f" on each of {tp} ranks" if tp > 1 else ""
    for spec, count in caches.items():
        yield f"{count} × {spec.kind}: {_entry(spec)}{share}; {_page(spec)}"


def _entry(spec: CacheSpec) -> str:
    if spec.kind == "state":
        return f"{spec.entry_bytes:,} B of state per sequence"
    per = "token" if spec.compress == 1 else f"{spec.compress} tokens"
    if spec.head_dims != (0, 0):
        key, value = spec.head_dims
        return f"{spec.heads} KV heads · (d_k {key} + d_v {value}) = {spec.entry_bytes:,} B/{per}"
    return f"one entry of {spec.entry_bytes:,} B/{per}, replicated"


def _page(spec: CacheSpec) -> str:
    padding = spec.page_bytes - spec.unpadded_bytes
    padded = f", {padding:,} B of it padding" if padding else ""
    return f"page of {spec.block_size} tokens {spec.page_bytes:,} B{padded}"


def group_lines(
    groups: tuple[Group, ...], tokens: int, in_flight: int, encoder_tokens: int
) -> Iterator[str]:
    """One line per group: the blocks that admission charges for ``tokens`` tokens."""
    for index, group in enumerate(groups):
        yield (
            f"group {index}: {group.layers} × {group.kind}, admission "
            f"{_charge(group, tokens, in_flight, encoder_tokens)}"
        )


def _charge(group: Group, tokens: int, in_flight: int, encoder_tokens: int) -> str:
    size, window = group.block_size, group.window_tokens
    match group.kind:
        case "state":
            return f"{group.fixed_blocks} state blocks"
        case "cross":
            return f"⌈{encoder_tokens} / {size}⌉ = {-(-encoder_tokens // size)} blocks"
        case "sliding" | "sliding_mla":
            held = min((window or 1) - 1 + in_flight, tokens)
            shown = f"min(W {window} − 1 + {in_flight} in flight, {tokens})"
            return f"⌈{shown} / {size}⌉ + 1 = {-(-held // size) + 1} blocks"
        case "chunked":
            held = min((window or 0) + in_flight, tokens)
            shown = f"min(chunk {window} + {in_flight} in flight, {tokens})"
            return f"⌈{shown} / {size}⌉ = {-(-held // size)} blocks"
    return f"⌈{tokens} / {size}⌉ = {-(-tokens // size)} blocks"
