"""The formulas behind a size, with their numbers put in, in the field's notation."""

from __future__ import annotations

from kvbench.model.dtypes import KvDtype, kv_dtype
from kvbench.model.sizing import (
    CacheCost,
    cache_cost,
    heads_on_rank,
    layer_runs,
    state_bytes,
)
from kvbench.model.spec import (
    ChunkedLayer,
    CrossLayer,
    FullLayer,
    IndexerLayer,
    LayerSpec,
    MlaLayer,
    ModelSpec,
    SharedLayer,
    SlidingLayer,
    StateLayer,
)


def formulas(
    model: ModelSpec, tokens: int, *, kv_dtype_name: str = "auto", tp: int = 1
) -> tuple[str, ...]:
    """One line per kind of cache: its formula for a request of ``tokens`` tokens on one rank.

    Args:
        model: The model.
        tokens: Tokens the request holds (T).
        kv_dtype_name: Cache element type.
        tp: Tensor-parallel ranks.
    """
    element = kv_dtype(kv_dtype_name, model.dtype)
    return tuple(
        f"{count} × {layer.kind}: {_formula(layer, model, element, tokens, tp)}"
        for layer, count in layer_runs(model.layers)
    )


def _formula(layer: LayerSpec, model: ModelSpec, element: KvDtype, tokens: int, tp: int) -> str:
    cost = cache_cost(layer, model, element, tp)
    match layer:
        case FullLayer() | SlidingLayer() | ChunkedLayer():
            return f"{_pair(layer, element, tp)} · {_visible(layer, tokens)} {_total(cost, tokens)}"
        case CrossLayer():
            return (
                f"{_pair(layer, element, tp)} · {layer.encoder_tokens} encoder tokens "
                f"{_total(cost, tokens)}"
            )
        case MlaLayer():
            return f"{_latent(layer, element)} {_total(cost, tokens)}"
        case IndexerLayer():
            entries = "T" if layer.compress == 1 else f"⌊T / {layer.compress}⌋"
            return f"{layer.bytes_per_token} B · {entries} {_total(cost, tokens)}"
        case StateLayer():
            parts = " + ".join(
                f"{t.name} {'×'.join(map(str, t.shape))} {kv_dtype(t.dtype, model.dtype).name}"
                for t in layer.tensors
            )
            share = f" / TP {tp}" if tp > 1 else ""
            return f"({parts}){share} = {state_bytes(layer, model, tp):,} B per sequence"
        case SharedLayer():
            return f"reuses the cache of layer {layer.source}: 0 B"
    return "no cache: 0 B"


def _pair(
    layer: FullLayer | SlidingLayer | ChunkedLayer | CrossLayer, element: KvDtype, tp: int
) -> str:
    heads = heads_on_rank(layer.kv_heads, tp)
    shown = f"H_kv {heads}" if tp == 1 else f"max(1, {layer.kv_heads} / TP {tp}) = {heads} heads"
    if layer.head_dim_k == layer.head_dim_v:
        return f"2 · {shown} · d {layer.head_dim_k} · {_width(element)}"
    return f"{shown} · (d_k {layer.head_dim_k} + d_v {layer.head_dim_v}) · {_width(element)}"


def _latent(layer: MlaLayer, element: KvDtype) -> str:
    per_entry = element.latent_bytes(layer.latent_dim, layer.rope_dim)
    tokens = "T" if layer.window is None else f"min(T, window {layer.window})"
    if layer.compress > 1:
        tokens = f"⌊{tokens} / {layer.compress}⌋"
    shown = f"(d_c {layer.latent_dim} + d_rope {layer.rope_dim}) · {_width(element)}"
    return f"{shown} = {per_entry} B, replicated on every rank, · {tokens}"


def _visible(layer: FullLayer | SlidingLayer | ChunkedLayer, tokens: int) -> str:
    match layer:
        case SlidingLayer():
            return f"min(T {tokens}, window {layer.window})"
        case ChunkedLayer():
            return f"min(T {tokens}, chunk {layer.chunk})"
    return f"T {tokens}"


def _width(element: KvDtype) -> str:
    shown = f"{element.bits / 8:g} B"
    return f"{shown} ({element.name}, {element.scale})" if element.scale else shown


def _total(cost: CacheCost, tokens: int) -> str:
    return f"= {cost.bytes_at(tokens):,} B per layer"
