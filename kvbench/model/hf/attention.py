"""Head geometry and layer patterns that most families share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

from kvbench.model import check
from kvbench.model.hf.fields import Fields
from kvbench.model.spec import FullLayer, LayerSpec, NoneLayer, SlidingLayer
from kvbench.names import did_you_mean

QUERY_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads")
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "d_kv")
HIDDEN = ("hidden_size", "n_embd", "d_model")


class Heads(TypedDict):
    """Keyword arguments that every K/V layer spec takes."""

    kv_heads: int
    head_dim_k: int
    head_dim_v: int


def query_heads(fields: Fields) -> int:
    """Query heads of an attention layer."""
    return fields.integer(*QUERY_HEADS, maximum=check.MAX_HEADS)


def heads(fields: Fields, *, value_dim: str | None = None) -> Heads:
    """K and V geometry: a null or missing KV head count means one per query head.

    Args:
        fields: The config.
        value_dim: Field that gives value heads another width.
    """
    queries = query_heads(fields)
    kv_heads = fields.optional(*KV_HEADS, maximum=check.MAX_HEADS) or queries
    if kv_heads > queries:
        fields.fail(f"num_key_value_heads ({kv_heads}) exceeds num_attention_heads ({queries})")
    dim = head_dim(fields, queries)
    values = fields.optional(value_dim) if value_dim else None
    return Heads(kv_heads=kv_heads, head_dim_k=dim, head_dim_v=values or dim)


def head_dim(fields: Fields, queries: int) -> int:
    """Elements of one head: as stated, else the hidden size divided by the query heads."""
    stated = fields.optional(*HEAD_DIM)
    if stated is not None:
        return stated
    hidden = fields.integer(*HIDDEN)
    if hidden % queries:
        fields.fail(
            f"head_dim is not stated and hidden_size ({hidden}) is not a multiple of "
            f"num_attention_heads ({queries})"
        )
    return hidden // queries


def full_or_sliding(fields: Fields, geometry: Heads, window: int | None) -> dict[str, LayerSpec]:
    """The two kinds that ``layer_types`` alternates; without a window both are full."""
    full: LayerSpec = FullLayer(**geometry)
    sliding = full if window is None else SlidingLayer(**geometry, window=window)
    return {"full_attention": full, "sliding_attention": sliding, "attention": full}


def by_types(
    fields: Fields,
    kinds: Mapping[str, LayerSpec],
    default: Callable[[int], str] | None = None,
    *,
    count: int | None = None,
    name: str = "layer_types",
) -> tuple[LayerSpec, ...]:
    """One cache per layer by the config's list of layer types.

    Args:
        fields: The config.
        kinds: Cache of each type.
        default: Type of layer ``i`` when the config has no list.
        count: Number of layers, the config's own when ``None``.
        name: Field that holds the list.

    Raises:
        ModelError: No list and no default, a list of the wrong length, an unknown type.
    """
    total = fields.layer_count() if count is None else count
    types: Sequence[str] | None = fields.names_of(name, total)
    if types is None:
        if default is None:
            fields.fail(f"the config has no {name}")
        types = [default(index) for index in range(total)]
    for kind in dict.fromkeys(types):
        if kind not in kinds:
            fields.fail(
                f"{name}: no layer type {kind!r} in {fields.model_type}{did_you_mean(kind, kinds)}"
            )
    return tuple([kinds[kind] for kind in types])


def every(period: int, *, offset: int = 0) -> Callable[[int], str]:
    """Type of layer ``i`` when each ``period``-th layer is full and the rest slides."""

    def kind(index: int) -> str:
        last = period > 0 and (index + 1 + offset) % period == 0
        return "full_attention" if last else "sliding_attention"

    return kind


NONE = NoneLayer()
