"""Families whose layers share caches, skip attention, or attend to an encoder."""

from __future__ import annotations

from collections.abc import Mapping

from kvbench.model import check
from kvbench.model.hf.attention import (
    HIDDEN,
    NONE,
    Heads,
    by_types,
    every,
    full_or_sliding,
    head_dim,
    heads,
    query_heads,
)
from kvbench.model.hf.fields import Fields
from kvbench.model.hf.registry import Decoder, adapter, one_each
from kvbench.model.spec import CrossLayer, FullLayer, LayerSpec, SharedLayer, SlidingLayer


@adapter("gemma3n_text", "gemma3n")
def gemma3n(fields: Fields) -> Decoder:
    """Four sliding layers, then a full one; the last ``num_kv_shared_layers`` own no cache."""
    fields.get("activation_sparsity_pattern")
    kinds = full_or_sliding(fields, heads(fields), fields.window())
    return Decoder(layers=one_each(_with_sharing(fields, by_types(fields, kinds, every(5)))))


@adapter("gemma4_text", "gemma4", "gemma4_unified_text")
def gemma4(fields: Fields) -> Decoder:
    """Full layers have their own head width and, with ``attention_k_eq_v``, KV head count."""
    geometry = heads(fields)
    wide = Heads(**geometry)
    stated = fields.optional("global_head_dim")
    wide["head_dim_k"] = wide["head_dim_v"] = stated or _global_width(fields)
    global_heads = fields.optional("num_global_key_value_heads", maximum=check.MAX_HEADS)
    if fields.flag("attention_k_eq_v"):
        wide["kv_heads"] = global_heads or geometry["kv_heads"]
    window = fields.integer("sliding_window", maximum=check.MAX_TOKENS)
    kinds: dict[str, LayerSpec] = {
        "full_attention": FullLayer(**wide),
        "sliding_attention": SlidingLayer(**geometry, window=window),
    }
    layers = list(by_types(fields, kinds, every(6)))
    if not fields.states("layer_types"):
        # The config class makes the last layer full whatever the period.
        layers[-1] = kinds["full_attention"]
    return Decoder(layers=one_each(_with_sharing(fields, tuple(layers))))


def _global_width(fields: Fields) -> int:
    # global_head_dim of the family's published checkpoints and earlier config class.
    fields.defaulted["global_head_dim"] = 512
    return 512


def _with_sharing(fields: Fields, layers: tuple[LayerSpec, ...]) -> list[LayerSpec]:
    count = fields.optional("num_kv_shared_layers", minimum=0, maximum=len(layers)) or 0
    own = list(layers[: len(layers) - count])
    for index, layer in enumerate(layers[len(own) :], start=len(own)):
        sources = [i for i, other in enumerate(own) if other.kind == layer.kind]
        if not sources:
            fields.fail(f"num_kv_shared_layers: layer {index} ({layer.kind}) has none to share")
        last = sources[-1]
        own = [*own, SharedLayer(source=last)]
    return own


@adapter("nemotron-nas", "nemotron_nas")
def nemotron_nas(fields: Fields) -> Decoder:
    """``block_configs`` states query heads per KV head for every layer, or no attention."""
    queries = query_heads(fields)
    dim = head_dim(fields, queries)
    fields.get("num_key_value_heads")
    blocks = fields.sequence("block_configs", fields.layer_count())
    if blocks is None:
        fields.fail("the config has no block_configs")
    made: dict[int, LayerSpec] = {0: NONE}
    for heads_ in {_nas_heads(fields, block, queries) for block in blocks} - {0}:
        made[heads_] = FullLayer(kv_heads=heads_, head_dim_k=dim, head_dim_v=dim)
    return Decoder(layers=one_each([made[_nas_heads(fields, b, queries)] for b in blocks]))


def _nas_heads(fields: Fields, block: object, queries: int) -> int:
    attention = block.get("attention") if isinstance(block, Mapping) else None
    if not isinstance(attention, Mapping):
        fields.fail("block_configs entries must have an attention object")
    for smell in ("window_length", "sparsify", "num_sink_tokens"):
        if attention.get(smell):
            fields.fail(f"block_configs: {smell} is not supported")
    if attention.get("no_op") or attention.get("replace_with_linear"):
        return 0
    per_head = check.integer(attention.get("n_heads_in_group"), "n_heads_in_group", maximum=queries)
    return queries // per_head


@adapter("whisper", "speech_to_text")
def whisper(fields: Fields) -> Decoder:
    """Self attention and cross attention over ``max_source_positions`` encoder frames."""
    queries = fields.integer("decoder_attention_heads", maximum=check.MAX_HEADS)
    width = fields.integer(*HIDDEN)
    frames = fields.integer("max_source_positions", maximum=check.MAX_TOKENS)
    fields.get("encoder_layers", "encoder_attention_heads", "num_hidden_layers")
    count = fields.layer_count("decoder_layers")
    return Decoder(
        layers=_self_and_cross(fields, queries, width, frames, count),
        traits=frozenset({"encoder_decoder"}),
    )


@adapter("bart", "mbart", "t5", "mt5", "pegasus", "m2m_100", "blenderbot", "marian")
def encoder_decoder(fields: Fields) -> Decoder:
    """Self attention and cross attention; the encoder is taken at its longest input."""
    queries = fields.integer("decoder_attention_heads", "num_heads", maximum=check.MAX_HEADS)
    width = fields.integer(*HIDDEN)
    dim = fields.optional("d_kv")
    longest = fields.optional("max_position_embeddings", "n_positions", maximum=check.MAX_TOKENS)
    count = fields.layer_count("num_decoder_layers", "decoder_layers", "num_layers")
    fields.get("encoder_layers", "encoder_attention_heads", "num_layers", "num_hidden_layers")
    tokens = longest or 512
    return Decoder(
        layers=_self_and_cross(fields, queries, (dim or width // queries) * queries, tokens, count),
        traits=frozenset({"encoder_decoder"}),
        assumptions=(f"the encoder input is {tokens} tokens long",),
    )


def _self_and_cross(
    fields: Fields, queries: int, width: int, encoder_tokens: int, count: int
) -> tuple[tuple[LayerSpec, ...], ...]:
    if width % queries:
        fields.fail(f"the hidden size ({width}) is not a multiple of the heads ({queries})")
    geometry = Heads(kv_heads=queries, head_dim_k=width // queries, head_dim_v=width // queries)
    both = (FullLayer(**geometry), CrossLayer(**geometry, encoder_tokens=encoder_tokens))
    return (both,) * count


@adapter("mllama_text_model", "mllama")
def mllama(fields: Fields) -> Decoder:
    """Layers of ``cross_attention_layers`` attend to image tokens only."""
    count = fields.layer_count()
    geometry = heads(fields)
    full = FullLayer(**geometry)
    cross = CrossLayer(**geometry, encoder_tokens=_MLLAMA_IMAGE_TOKENS)
    crossing = set(
        fields.indices("cross_attention_layers", count) or (3, 8, 13, 18, 23, 28, 33, 38)
    )
    return Decoder(
        layers=one_each([cross if i in crossing else full for i in range(count)]),
        traits=frozenset({"encoder_decoder"}),
        assumptions=(f"one image of {_MLLAMA_IMAGE_TOKENS} tokens per request",),
    )


#: Four tiles of 1,601 patch tokens: the family's largest image.
_MLLAMA_IMAGE_TOKENS = 6404
