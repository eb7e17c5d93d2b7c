"""Families with multi-head latent attention, with and without a sparse indexer."""

from __future__ import annotations

from kvbench.model import check
from kvbench.model.hf.attention import heads, query_heads
from kvbench.model.hf.fields import Fields
from kvbench.model.hf.registry import Decoder, adapter, one_each
from kvbench.model.spec import (
    FullLayer,
    IndexerLayer,
    LayerSpec,
    MlaLayer,
    StateLayer,
    StateTensor,
)

#: Elements that share one fp32 scale in an fp8 indexer key.
_INDEXER_QUANT_BLOCK = 128


def latent_layer(fields: Fields) -> MlaLayer:
    """One latent vector of ``kv_lora_rank`` and a rotary key of ``qk_rope_head_dim``."""
    fields.get("head_dim", "qk_head_dim", "v_head_dim", "q_lora_rank")
    fields.get("mla_scale_q_lora", "mla_scale_kv_lora", "mla_use_nope", "mla_use_output_gate")
    rope = fields.integer("qk_rope_head_dim", minimum=0)
    return MlaLayer(
        latent_dim=fields.integer("kv_lora_rank"),
        rope_dim=rope,
        expanded_heads=query_heads(fields),
        expanded_dim=rope + (fields.optional("qk_nope_head_dim", minimum=0) or 0),
    )


def indexer_bytes(fields: Fields) -> int:
    """Bytes of one fp8 indexer key: an element a byte, and an fp32 scale per 128 elements."""
    dim = fields.integer("index_head_dim")
    return dim + dim // _INDEXER_QUANT_BLOCK * 4


@adapter(
    "deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite", "minicpm3", "mistral4", "youtu",
    "axk1", "pangu_ultra_moe", "deepseek_vl_v2",
)  # fmt: skip
def latent(fields: Fields) -> Decoder:
    """MLA in every layer; ``deepseek_v2`` without a latent rank is plain attention."""
    if fields.get("kv_lora_rank") is None and "kv_lora_rank" in fields.values:
        layer = FullLayer(**heads(fields))
        return Decoder(layers=one_each([layer] * fields.layer_count()))
    return Decoder(layers=one_each([latent_layer(fields)] * fields.layer_count()))


@adapter("longcat_flash")
def longcat(fields: Fields) -> Decoder:
    """Two MLA attentions in every layer."""
    layer = latent_layer(fields)
    return Decoder(layers=((layer, layer),) * fields.layer_count("num_layers", "num_hidden_layers"))


@adapter("deepseek_v32", "glm_moe_dsa", "hy_v4")
def sparse_latent(fields: Fields) -> Decoder:
    """MLA with an indexer; a layer whose ``indexer_types`` entry is ``shared`` has none."""
    count = fields.layer_count()
    layer = latent_layer(fields)
    indexer = IndexerLayer(bytes_per_token=indexer_bytes(fields))
    both: tuple[LayerSpec, ...] = (layer, indexer)
    fields.get("index_topk", "index_n_heads", "indexer_rope_interleave")
    _only(fields, "layer_types", {"indexed_attention"})
    types = fields.names_of("indexer_types", count) or ("full",) * count
    if set(types) - {"full", "shared"}:
        fields.fail("indexer_types may hold full and shared only")
    return Decoder(layers=tuple([both if kind == "full" else (layer,) for kind in types]))


def _only(fields: Fields, name: str, allowed: set[str]) -> None:
    stated = fields.names_of(name)
    if stated is not None and set(stated) - allowed:
        fields.fail(f"{name}: no layer type {min(set(stated) - allowed)!r} in {fields.model_type}")


@adapter("deepseek_v4")
def deepseek_v4(fields: Fields) -> Decoder:
    """A sliding latent in every layer, and a compressed one where ``compress_ratios`` is not 0.

    A layer that compresses 4 tokens into one overlaps its windows and adds an indexer over the
    compressed entries; 128 tokens do neither. A compressor keeps the raw key and gate of the
    open group in fp32.
    """
    dim = fields.integer("head_dim")
    rope = fields.integer("qk_rope_head_dim", minimum=0, maximum=dim)
    index_dim = fields.integer("index_head_dim")
    window = fields.integer("sliding_window", maximum=check.MAX_TOKENS)
    fields.get("index_topk", "index_n_heads", "q_lora_rank", "o_lora_rank", "num_key_value_heads")
    fields.get("compress_rope_theta", "o_groups", "num_hash_layers", "compress_rates")
    local = MlaLayer(latent_dim=dim - rope, rope_dim=rope, window=window)
    decoder: list[tuple[LayerSpec, ...]] = []
    made: dict[int, tuple[LayerSpec, ...]] = {}
    for ratio in _ratios(fields):
        if ratio not in made:
            extra = _compressed(dim, rope, ratio, index_dim, indexer_bytes(fields))
            made[ratio] = (local, *extra)
        decoder.append(made[ratio])
    return Decoder(layers=tuple(decoder))


#: Tokens per compressed entry by layer type, unless ``compress_rates`` says otherwise.
_RATES = {
    "sliding_attention": 0,
    "compressed_sparse_attention": 4,
    "heavily_compressed_attention": 128,
}


def _ratios(fields: Fields) -> list[int]:
    count = fields.layer_count()
    ratios = fields.sequence("compress_ratios")
    types = fields.names_of("layer_types", count)
    if ratios is None:
        ratios = [_rate(fields, kind) for kind in types or ()]
    if len(ratios) < count:
        fields.fail(f"compress_ratios must state one ratio for each of {count} layers")
    # Entries beyond the decoder belong to the prediction layers after it.
    return [
        check.integer(ratio, f"compress_ratios[{index}]", minimum=0, maximum=4096)
        for index, ratio in enumerate(ratios[:count])
    ]


def _rate(fields: Fields, kind: str) -> object:
    stated = fields.get("compress_rates")
    rates = {**_RATES, **stated} if isinstance(stated, dict) else _RATES
    if kind not in rates:
        fields.fail(f"layer_types: no layer type {kind!r} in {fields.model_type}")
    return rates[kind]


def _compressed(
    dim: int, rope: int, ratio: int, index_dim: int, index_bytes: int
) -> tuple[LayerSpec, ...]:
    if ratio <= 1:
        return ()
    latent = MlaLayer(latent_dim=dim - rope, rope_dim=rope, compress=ratio)
    if ratio != 4:
        return (latent, _ring(ratio, 2 * dim))
    index = IndexerLayer(bytes_per_token=index_bytes, compress=ratio)
    return (index, _ring(2 * ratio, 4 * index_dim), latent, _ring(2 * ratio, 4 * dim))


def _ring(tokens: int, elements: int) -> StateLayer:
    tensor = StateTensor(name="ring", shape=(tokens, elements), dtype="fp32", stated_dtype="fp32")
    return StateLayer(tensors=(tensor,), mechanism="compressor")


@adapter("minimax_m3", "minimax_m3_vl_text")
def minimax_m3(fields: Fields) -> Decoder:
    """Full attention everywhere, with an indexer key of the model's dtype in sparse layers."""
    count = fields.layer_count()
    full = FullLayer(**heads(fields))
    config = fields.nested("sparse_attention_config")
    if config is None:
        return Decoder(layers=_m3_by_types(fields, full))
    sparse = config.sequence("sparse_attention_freq", count) or ()
    if not config.flag("use_sparse_attention"):
        return Decoder(layers=one_each([full] * count))
    if len(sparse) != count:
        fields.fail(f"sparse_attention_freq must have {count} entries")
    both = (full, IndexerLayer(bytes_per_token=2 * config.integer("sparse_index_dim")))
    return Decoder(layers=tuple([both if flag else (full,) for flag in sparse]))


def _m3_by_types(fields: Fields, full: FullLayer) -> tuple[tuple[LayerSpec, ...], ...]:
    count = fields.layer_count()
    both = (full, IndexerLayer(bytes_per_token=2 * fields.integer("index_head_dim")))
    fields.get("index_n_heads", "index_block_size", "index_topk_blocks", "index_local_blocks")
    types = fields.names_of("layer_types", count)
    if types is None:
        fields.fail("minimax_m3 must state sparse_attention_config or layer_types")
    return tuple([(full,) if kind == "full_attention" else both for kind in types])
