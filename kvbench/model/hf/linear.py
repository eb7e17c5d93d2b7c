"""Families with linear-attention, gated-delta or short-convolution layers between full ones."""

from __future__ import annotations

from kvbench.model import check
from kvbench.model.hf.attention import HIDDEN, Heads, by_types, heads, query_heads
from kvbench.model.hf.fields import Fields
from kvbench.model.hf.registry import Decoder, adapter, one_each
from kvbench.model.spec import (
    FullLayer,
    LayerSpec,
    MlaLayer,
    SlidingLayer,
    StateLayer,
    StateTensor,
)


def delta_state(
    *, key_heads: int, value_heads: int, key_dim: int, value_dim: int, kernel: int, stated: str = ""
) -> StateLayer:
    """State of a gated delta net layer.

    Convolution ``(kernel - 1, 2 * key_heads * key_dim + value_heads * value_dim)``, recurrent
    state ``(value_heads, value_dim, key_dim)`` in fp32.
    """
    channels = 2 * key_heads * key_dim + value_heads * value_dim
    conv = StateTensor(name="conv", shape=(kernel - 1, channels), dtype="auto", tp_dim=1)
    recurrent = StateTensor(
        name="ssm",
        shape=(value_heads, value_dim, key_dim),
        dtype="fp32",
        tp_dim=0,
        stated_dtype=stated,
    )
    return StateLayer(tensors=(conv, recurrent), mechanism="gated_delta_net")


@adapter(
    "qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "olmo_hybrid"
)  # fmt: skip
def gated_delta(fields: Fields) -> Decoder:
    """Gated delta nets, with full attention every ``full_attention_interval`` layers."""
    stated = fields.get("mamba_ssm_dtype")
    state = delta_state(
        key_heads=fields.integer("linear_num_key_heads", maximum=check.MAX_HEADS),
        value_heads=fields.integer("linear_num_value_heads", maximum=check.MAX_HEADS),
        key_dim=fields.integer("linear_key_head_dim"),
        value_dim=fields.integer("linear_value_head_dim"),
        kernel=fields.integer("linear_conv_kernel_dim", minimum=2),
        stated="" if stated is None else check.text(stated, "mamba_ssm_dtype"),
    )
    full = FullLayer(**heads(fields))
    interval = fields.optional("full_attention_interval") or 4
    kinds: dict[str, LayerSpec] = {"linear_attention": state, "full_attention": full}
    fields.get(*[name for name in fields.values if name.startswith("linear_")] or ["linear_"])

    def default(index: int) -> str:
        return "linear_attention" if (index + 1) % interval else "full_attention"

    return Decoder(layers=one_each(by_types(fields, kinds, default)))


def kda_state(*, num_heads: int, head_dim: int, kernel: int) -> StateLayer:
    """State of a Kimi delta attention layer: gated delta net with equal heads, fp32 state."""
    layer = delta_state(
        key_heads=num_heads,
        value_heads=num_heads,
        key_dim=head_dim,
        value_dim=head_dim,
        kernel=kernel,
        stated="fp32",
    )
    return StateLayer(tensors=layer.tensors, mechanism="kimi_delta_attention")


@adapter("kimi_linear", "kimi_k3")
def kimi_linear(fields: Fields) -> Decoder:
    """KDA layers and MLA layers, listed from 1 in ``linear_attn_config``."""
    mla = MlaLayer(
        latent_dim=fields.integer("kv_lora_rank"),
        rope_dim=fields.integer("qk_rope_head_dim", minimum=0),
    )
    count = fields.layer_count()
    config = fields.nested("linear_attn_config")
    if config is None:
        return _kimi_by_types(fields, mla)
    state = kda_state(
        num_heads=config.integer("num_heads", maximum=check.MAX_HEADS),
        head_dim=config.integer("head_dim"),
        kernel=config.integer("short_conv_kernel_size", minimum=2),
    )
    kda = set(config.indices("kda_layers", count + 1) or ())
    full = set(config.indices("full_attn_layers", count + 1) or ())
    if kda & full or kda | full != set(range(1, count + 1)):
        fields.fail(f"kda_layers and full_attn_layers must name each of {count} layers once")
    return Decoder(layers=one_each([state if i + 1 in kda else mla for i in range(count)]))


def _kimi_by_types(fields: Fields, mla: MlaLayer) -> Decoder:
    state = kda_state(
        num_heads=fields.integer("linear_num_heads", maximum=check.MAX_HEADS),
        head_dim=fields.integer("linear_head_dim"),
        kernel=fields.integer("linear_conv_kernel_dim", minimum=2),
    )
    kinds: dict[str, LayerSpec] = {"linear_attention": state, "full_attention": mla}
    return Decoder(layers=one_each(by_types(fields, kinds)))


def lightning_state(*, num_heads: int, head_dim: int) -> StateLayer:
    """State of a lightning-attention layer: ``(heads, head_dim, head_dim)``."""
    state = StateTensor(name="ssm", shape=(num_heads, head_dim, head_dim), dtype="auto", tp_dim=0)
    return StateLayer(tensors=(state,), mechanism="linear_attention")


@adapter("minimax", "minimax_m1", "minimax_text_01", "minimax_text01")
def minimax(fields: Fields) -> Decoder:
    """Lightning attention, with full attention where ``attn_type_list`` or ``layer_types`` say."""
    geometry = heads(fields)
    state = lightning_state(num_heads=query_heads(fields), head_dim=geometry["head_dim_k"])
    full: LayerSpec = FullLayer(**geometry)
    window = fields.window()
    if window is not None:
        full = SlidingLayer(**geometry, window=window)
    marks = fields.sequence("attn_type_list", fields.layer_count())
    if marks is not None:
        return Decoder(layers=one_each([full if mark else state for mark in marks]))
    kinds: dict[str, LayerSpec] = {"linear_attention": state, "full_attention": full}

    def default(index: int) -> str:
        return "linear_attention" if (index + 1) % 2 == 0 else "full_attention"

    chosen = default if fields.model_type == "minimax" else None
    return Decoder(layers=one_each(by_types(fields, kinds, chosen)))


@adapter("lfm2", "lfm2_moe")
def lfm2(fields: Fields) -> Decoder:
    """Short convolutions with a tail of ``conv_L_cache - 1`` columns, and full attention."""
    width = fields.optional("conv_dim") or fields.integer(*HIDDEN)
    tail = fields.integer("conv_L_cache", minimum=2) - 1
    conv = StateTensor(name="conv", shape=(tail, width), dtype="auto", tp_dim=1)
    state = StateLayer(tensors=(conv,), mechanism="short_conv")
    full = FullLayer(**heads(fields))
    count = fields.layer_count()
    attention = fields.indices("full_attn_idxs", count)
    kinds: dict[str, LayerSpec] = {"conv": state, "full_attention": full}
    fields.get("conv_dim_out", "conv_use_xavier_init")

    def default(index: int) -> str:
        return "full_attention" if attention is None or index in attention else "conv"

    if fields.model_type == "lfm2_moe":
        return Decoder(layers=one_each(by_types(fields, kinds)))
    return Decoder(layers=one_each(by_types(fields, kinds, default)))


@adapter("recurrent_gemma")
def recurrent_gemma(fields: Fields) -> Decoder:
    """RG-LRU blocks (convolution tail and fp32 state of ``lru_width``) and local attention."""
    queries = query_heads(fields)
    width = fields.optional("lru_width") or fields.integer(*HIDDEN)
    conv = StateTensor(
        name="conv", shape=(fields.integer("conv1d_width", minimum=2) - 1, width), dtype="auto"
    )
    lru = StateTensor(name="ssm", shape=(width,), dtype="fp32")
    geometry = (
        heads(fields) if fields.get("num_key_value_heads") else _hidden_heads(fields, queries)
    )
    kinds: dict[str, LayerSpec] = {
        "recurrent": StateLayer(tensors=(conv, lru), mechanism="rg_lru"),
        "attention": SlidingLayer(**geometry, window=fields.integer("attention_window_size")),
    }
    blocks = fields.names_of("block_types")
    fields.get("_block_types", "layers_block_type")
    if not blocks or set(blocks) - set(kinds):
        fields.fail("block_types must be a list of recurrent and attention")
    count = fields.layer_count()
    return Decoder(layers=one_each([kinds[blocks[i % len(blocks)]] for i in range(count)]))


def _hidden_heads(fields: Fields, queries: int) -> Heads:
    dim = fields.integer(*HIDDEN) // queries
    return Heads(kv_heads=queries, head_dim_k=dim, head_dim_v=dim)
