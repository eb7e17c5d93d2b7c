"""Parameters of attention: plain, latent (MLA), with an indexer, and linear."""

from __future__ import annotations

from collections import Counter

from kvbench.model.parameters.traits import Traits
from kvbench.model.parameters.values import Values


def biased(values: Values, key: str) -> bool:
    """Whether a projection has a bias: ``yes``, ``no``, or what the config says under ``key``."""
    if key == "attention_bias_or_yes":
        return values.flag("attention_bias", default=True)
    if key == "use_bias" and values.family == "starcoder2":
        return values.flag("use_bias", default=True)
    return key == "yes" or (key != "no" and values.flag(key))


def plain_attention(
    values: Values,
    traits: Traits,
    *,
    heads: int,
    kv_heads: int,
    dim: int,
    value_dim: int | None = None,
    gate: bool = False,
    shared_kv: bool = False,
    keys_only: bool = False,
) -> Counter[str]:
    """Query, key, value and output projections of one layer.

    Args:
        values: The config.
        traits: The family's structure.
        heads: Query heads.
        kv_heads: KV heads.
        dim: Elements of a query or key head.
        value_dim: Elements of a value head, ``dim`` when not given.
        gate: The query projection also yields a gate of the same size.
        shared_kv: The layer reuses another layer's keys and values.
        keys_only: Values are the keys.
    """
    hidden, out = values.hidden, value_dim or dim
    query = heads * dim * (2 if gate else 1)
    keys = 0 if shared_kv else kv_heads * dim
    kept = 0 if shared_kv or keys_only else kv_heads * out
    small = (query + keys + kept) if biased(values, traits.qkv_bias) else 0
    small += hidden if biased(values, traits.out_bias) else 0
    small += _qk_norm(traits, heads, kv_heads, dim, shared_kv)
    return Counter(linear=hidden * (query + keys + kept) + heads * out * hidden, small=small)


def _qk_norm(traits: Traits, heads: int, kv_heads: int, dim: int, shared_kv: bool) -> int:
    if traits.qk_norm == "head":
        return dim if shared_kv else 2 * dim
    return (heads + kv_heads) * dim if traits.qk_norm == "full" else 0


def latent_attention(values: Values) -> Counter[str]:
    """Multi-head latent attention of one layer, its indexer included when the config has one."""
    hidden, heads = values.hidden, values.heads
    nope, rope = values.number("qk_nope_head_dim"), values.number("qk_rope_head_dim")
    latent, value = values.number("kv_lora_rank"), values.number("v_head_dim")
    rank = values.number("q_lora_rank", default=0)
    query = heads * (nope + rope)
    found = Counter(
        latent=hidden * (latent + rope) + hidden * rank,
        linear=(rank or hidden) * query + latent * heads * (nope + value) + heads * value * hidden,
        small=latent + rank,
    )
    if values.get("index_n_heads") is not None:
        found.update(_indexer(values, rank or hidden))
    return found


def _indexer(values: Values, rank: int) -> Counter[str]:
    heads, dim = values.number("index_n_heads"), values.number("index_head_dim")
    hidden = values.hidden
    return Counter(latent=rank * heads * dim + hidden * dim + hidden * heads, small=2 * dim)


def gated_delta(values: Values) -> Counter[str]:
    """Gated delta net (Qwen3-Next, Qwen3.5) of one layer."""
    hidden = values.hidden
    key_heads, value_heads = (
        values.number("linear_num_key_heads"),
        values.number("linear_num_value_heads"),
    )
    key_dim = values.number("linear_key_head_dim")
    value_dim = values.number("linear_value_head_dim")
    keys, vals = key_heads * key_dim, value_heads * value_dim
    conv = (2 * keys + vals) * values.number("linear_conv_kernel_dim", default=4)
    return Counter(
        linear=hidden * (2 * keys + 2 * vals) + hidden * 2 * value_heads + vals * hidden,
        small=conv + 2 * value_heads + value_dim,
    )


def kimi_delta(values: Values) -> Counter[str]:
    """Kimi delta attention of one layer: gates of low rank beside q, k and v."""
    config = values.table("linear_attn_config")
    hidden = values.hidden
    heads, dim = config.number("num_heads"), config.number("head_dim")
    width = heads * dim
    conv = 3 * width * config.number("short_conv_kernel_size", default=4)
    gates = 2 * (hidden * dim + dim * width) + hidden * heads
    return Counter(
        linear=hidden * 3 * width + gates + width * hidden, small=conv + width + heads + dim
    )
