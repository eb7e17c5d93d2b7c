"""Parameters of decoder layers: which layer has which mixer and which feed-forward layer."""

from __future__ import annotations

from collections import Counter

from kvbench.errors import ModelError
from kvbench.model.parameters import state
from kvbench.model.parameters.attention import (
    gated_delta,
    kimi_delta,
    latent_attention,
    plain_attention,
)
from kvbench.model.parameters.compressed import deepseek_v4
from kvbench.model.parameters.encoder_decoder import whisper
from kvbench.model.parameters.feedforward import dense, dense_width, experts, has_experts
from kvbench.model.parameters.traits import Traits
from kvbench.model.parameters.values import Values


def all_layers(values: Values, traits: Traits) -> Counter[str]:
    """Sum over the decoder layers."""
    special = {
        "nemotron_h": _nemotron_h,
        "nemotron-nas": _nemotron_nas,
        "zamba2": _zamba2,
        "gemma4_text": _gemma4,
        "deepseek_v4": deepseek_v4,
        "whisper": whisper,
    }.get(values.family)
    if special is not None:
        return special(values, traits)
    found: Counter[str] = Counter()
    for layer in range(values.layers):
        found.update(_mixer(values, traits, layer))
        found["small"] += _norms(values, traits)
        if values.family not in {"mamba", "mamba2", "falcon_mamba"}:
            found.update(_feed_forward(values, traits, layer))
    return found


def _norms(values: Values, traits: Traits) -> int:
    norms = traits.norms
    if values.family == "falcon" and not values.flag("new_decoder_architecture"):
        norms = 1 if values.flag("parallel_attn", default=True) else 2
    return norms * values.hidden * (2 if traits.norm_bias else 1)


def _feed_forward(values: Values, traits: Traits, layer: int) -> Counter[str]:
    if has_experts(values, layer):
        return experts(values, traits)
    if values.family == "granitemoehybrid":
        return dense(values, traits, values.number("shared_intermediate_size"))
    return dense(values, traits, dense_width(values))


def _mixer(values: Values, traits: Traits, layer: int) -> Counter[str]:
    recurrent = _recurrent(values, layer)
    if recurrent is not None:
        return recurrent
    match values.family:
        case "falcon_h1":
            return _attention(values, traits, layer) + state.mamba2(values)
        case "kimi_linear":
            return _kimi(values, layer)
        case _ if values.get("linear_num_value_heads") is not None and _is_linear(values, layer):
            return gated_delta(values)
        case _ if values.get("kv_lora_rank") is not None:
            return latent_attention(values)
    return _attention(values, traits, layer)


def _recurrent(values: Values, layer: int) -> Counter[str] | None:
    """The state-space or convolution mixer of a layer, ``None`` for a layer of attention."""
    kinds = values.sequence("layer_types", "layers_block_type")
    kind = kinds[layer] if layer < len(kinds) else ""
    match values.family:
        case "mamba2":
            return state.mamba2(values)
        case "mamba" | "falcon_mamba":
            return state.mamba1(values)
        case "granitemoehybrid" if kind != "attention":
            return state.mamba2(values)
        case "bamba" if layer not in values.sequence("attn_layer_indices"):
            return state.mamba2(values)
        case "jamba" if not _is_jamba_attention(values, layer):
            return state.mamba1(values)
        case "lfm2" if kind == "conv":
            return _short_conv(values)
    return None


def _attention(values: Values, traits: Traits, layer: int) -> Counter[str]:
    if values.family == "mimo_v2_flash":
        return _mimo(values, traits, layer)
    found = plain_attention(
        values,
        traits,
        heads=values.heads,
        kv_heads=values.kv_heads,
        dim=values.head_dim,
        value_dim=values.number("v_head_dim", default=0) or None,
        gate=values.get("linear_num_value_heads") is not None,
    )
    if values.family == "gpt_oss":
        found["small"] += values.heads
    if values.family in {"glm4_moe", "cohere", "stablelm"} and values.flag(
        "use_qk_norm", "qk_layernorm"
    ):
        found["small"] += _stated_qk_norm(values)
    return found


def _stated_qk_norm(values: Values) -> int:
    if values.family == "glm4_moe":
        return 2 * values.head_dim
    return (values.heads + values.kv_heads) * values.head_dim


def _kimi(values: Values, layer: int) -> Counter[str]:
    config = values.table("linear_attn_config")
    for key in ("mla_use_output_gate", "use_full_rank_gate"):
        if values.flag(key) or config.flag(key):
            raise ModelError(f"no parameter formula for {key}")
    is_full = layer + 1 in config.sequence("full_attn_layers")
    return latent_attention(values) if is_full else kimi_delta(values)


def _is_linear(values: Values, layer: int) -> bool:
    kinds = values.sequence("layer_types")
    if layer < len(kinds):
        return bool(kinds[layer] == "linear_attention")
    return (layer + 1) % max(1, values.number("full_attention_interval", default=4)) != 0


def _is_jamba_attention(values: Values, layer: int) -> bool:
    period = max(1, values.number("attn_layer_period", default=8))
    return layer % period == values.number("attn_layer_offset", default=4)


def _short_conv(values: Values) -> Counter[str]:
    hidden = values.hidden
    kernel = values.number("conv_L_cache", default=3)
    return Counter(linear=4 * hidden * hidden, small=hidden * kernel)


def _mimo(values: Values, traits: Traits, layer: int) -> Counter[str]:
    pattern = values.sequence("hybrid_layer_pattern")
    windowed = layer < len(pattern) and pattern[layer] == 1
    prefix = "swa_" if windowed else ""
    heads = values.number(f"{prefix}num_attention_heads")
    found = plain_attention(
        values,
        traits,
        heads=heads,
        kv_heads=values.number(f"{prefix}num_key_value_heads"),
        dim=values.number(f"{prefix}head_dim"),
        value_dim=values.number(f"{prefix}v_head_dim"),
    )
    key = "add_swa_attention_sink_bias" if windowed else "add_full_attention_sink_bias"
    found["small"] += heads if values.flag(key) else 0
    return found


def _nemotron_h(values: Values, traits: Traits) -> Counter[str]:
    found: Counter[str] = Counter()
    pattern = values.get("hybrid_override_pattern") or ""
    kinds = list(pattern) or values.sequence("layers_block_type")
    for kind in kinds:
        found["small"] += values.hidden
        match kind:
            case "M" | "mamba":
                found.update(state.mamba2(values))
            case "*" | "attention":
                found.update(_attention(values, traits, 0))
            case "E" | "moe":
                found.update(experts(values, traits))
            case "-" | "mlp":
                found.update(dense(values, traits, values.inner))
            case _:
                raise ModelError(f"hybrid_override_pattern has an unknown layer {kind!r}")
    return found


def _nemotron_nas(values: Values, traits: Traits) -> Counter[str]:
    found: Counter[str] = Counter()
    for block in values.sequence("block_configs"):
        parts = Values(block if isinstance(block, dict) else {}, values.family)
        attention, inner = parts.table("attention"), parts.table("ffn")
        for part in (attention, inner):
            found["small"] += 0 if part.flag("no_op") else values.hidden
        if attention.flag("replace_with_linear"):
            found["linear"] += values.hidden * values.hidden
        elif not attention.flag("no_op"):
            kv_heads = values.heads // max(1, attention.number("n_heads_in_group"))
            found.update(
                plain_attention(
                    values, traits, heads=values.heads, kv_heads=kv_heads, dim=values.head_dim
                )
            )
        if inner.flag("replace_with_linear"):
            found["linear"] += values.hidden * values.hidden
        elif not inner.flag("no_op"):
            found.update(dense(values, traits, _nas_width(values, inner)))
    return found


def _nas_width(values: Values, inner: Values) -> int:
    multiple = inner.get("ffn_mult")
    if not isinstance(multiple, int | float) or not 0 < multiple < 100:
        raise ModelError(f"ffn_mult must be a number from 0 to 100, got {multiple!r}")
    width = int(2 * multiple * values.hidden / 3)
    return -(-width // 256) * 256


def _zamba2(values: Values, traits: Traits) -> Counter[str]:
    kinds = values.sequence("layers_block_type")
    hidden = values.hidden
    found: Counter[str] = Counter()
    for kind in kinds:
        found.update(state.mamba2(values))
        found["small"] += hidden
        if kind == "hybrid":
            found["linear"] += hidden * hidden
            rank = values.number("adapter_rank", "lora_rank", default=128)
            found["linear"] += hidden * rank + rank * 2 * values.inner
    heads = values.heads
    width = 2 * hidden
    shared = 3 * width * width + heads * (width // heads) * hidden
    shared += hidden * 2 * values.inner + values.inner * hidden
    blocks = values.number("num_mem_blocks", default=1)
    found["linear"] += blocks * shared
    found["small"] += blocks * (width + hidden)
    return found


def _gemma4(values: Values, traits: Traits) -> Counter[str]:
    kinds = values.sequence("layer_types")
    layers = values.layers
    reused = values.number("num_kv_shared_layers", default=0)
    extra = values.number("hidden_size_per_layer_input", default=0)
    double = values.flag("use_double_wide_mlp")
    found: Counter[str] = Counter()
    for layer in range(layers):
        full = layer < len(kinds) and kinds[layer] == "full_attention"
        shared = layer >= layers - reused
        keys_only = full and values.flag("attention_k_eq_v")
        names = ("num_global_key_value_heads",) if keys_only else ()
        found.update(
            plain_attention(
                values,
                traits,
                heads=values.heads,
                kv_heads=values.number(*names, "num_key_value_heads"),
                dim=values.number(*(("global_head_dim",) if full else ()), "head_dim"),
                shared_kv=shared,
                keys_only=keys_only,
            )
        )
        found["small"] += _norms(values, traits)
        found.update(dense(values, traits, values.inner * (2 if shared and double else 1)))
        if values.flag("enable_moe_block"):
            found.update(experts(values, traits))
            found["small"] += 3 * values.hidden + values.hidden + expert_scales(values)
        if extra:
            found["linear"] += 2 * values.hidden * extra
            found["small"] += values.hidden
    return found


def expert_scales(values: Values) -> int:
    """One scale per routed expert."""
    return values.number("num_experts", default=0)


def per_layer_embeddings(values: Values) -> Counter[str]:
    """Embeddings that every layer adds to its input (Gemma 3n and 4)."""
    extra = values.number("hidden_size_per_layer_input", default=0)
    if not extra or values.family != "gemma4_text":
        return Counter()
    width = values.layers * extra
    rows = values.number("vocab_size_per_layer_input", default=values.vocabulary)
    return Counter(embedding=rows * width, linear=values.hidden * width, small=extra)
