"""Families whose every layer holds K and V of all tokens."""

from __future__ import annotations

from kvbench.model import check
from kvbench.model.hf.attention import QUERY_HEADS, Heads, head_dim, heads, query_heads
from kvbench.model.hf.fields import Fields
from kvbench.model.hf.registry import Decoder, adapter, one_each
from kvbench.model.spec import FullLayer

_PLAIN = (
    "llama", "gemma", "phi", "phi-msft", "stablelm", "gpt2", "gpt_neox", "gptj", "opt", "codegen",
    "cohere", "olmo", "olmo2", "olmoe", "flex_olmo", "granite", "granitemoe", "granitemoeshared",
    "internlm2", "internlm3", "internlm", "glm", "glm4", "glm4_moe", "glm4v_text",
    "glm4v_moe_text", "glm_ocr_text", "deepseek", "ernie4_5", "ernie4_5_moe",
    "ernie4_5_vl_moe_text", "ernie4_5_moe_vl", "hy_v3",
    "exaone", "nemotron", "arcee", "seed_oss", "helium", "bitnet", "persimmon", "xverse", "orion",
    "minicpm", "apertus", "minimax_m2", "solar_open", "qwen3_vl_text", "qwen3_vl_moe_text",
    "nanochat", "hyperclovax", "biogpt", "xglm", "ctrl", "jais2", "aquila", "ministral3",
    "paddleocr_vl_text", "csm", "decilm", "yi", "skywork", "bailing_moe", "grok-1",
)  # fmt: skip


@adapter(*_PLAIN)
def plain(fields: Fields) -> Decoder:
    """Full attention in every layer."""
    layer = FullLayer(**heads(fields))
    return Decoder(layers=one_each([layer] * fields.layer_count()))


@adapter("hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl_text", "hunyuan")
def hunyuan(fields: Fields) -> Decoder:
    """Full attention; layers that share K and V (``use_cla``) are refused."""
    fields.get("cla_share_factor")
    if fields.flag("use_cla"):
        fields.fail("use_cla: cross-layer attention is not supported")
    return plain(fields)


@adapter("step3_text", "step3")
def step3(fields: Fields) -> Decoder:
    """Multi-matrix factorization attention: ``num_attention_groups`` KV heads."""
    queries = query_heads(fields)
    groups = fields.integer("num_attention_groups", maximum=queries)
    dim = fields.integer("head_dim")
    layer = FullLayer(kv_heads=groups, head_dim_k=dim, head_dim_v=dim)
    return Decoder(layers=one_each([layer] * fields.layer_count()))


@adapter("bloom", "mpt")
def alibi(fields: Fields) -> Decoder:
    """Full attention with ALiBi biases and one KV head per query head."""
    config = fields.nested("attn_config") if fields.model_type == "mpt" else None
    geometry = heads(fields)
    if config is not None:
        kv_heads = config.optional("kv_n_heads", maximum=check.MAX_HEADS)
        geometry["kv_heads"] = kv_heads or geometry["kv_heads"]
    layer = FullLayer(**geometry)
    uses = config is None or config.get("alibi") is not False
    traits = frozenset({"alibi"}) if uses else frozenset[str]()
    return Decoder(layers=one_each([layer] * fields.layer_count()), traits=traits)


@adapter("baichuan")
def baichuan(fields: Fields) -> Decoder:
    """Full attention; the 13B model (hidden size 5120) uses ALiBi, the 7B model rotary."""
    decoder = plain(fields)
    is_alibi = fields.integer("hidden_size") != 4096
    return Decoder(layers=decoder.layers, traits=frozenset({"alibi"} if is_alibi else ()))


@adapter("falcon", "RefinedWeb", "RefinedWebModel")
def falcon(fields: Fields) -> Decoder:
    """One KV head with ``multi_query``, ``num_kv_heads`` in the new decoder architecture."""
    queries = query_heads(fields)
    if fields.flag("new_decoder_architecture"):
        kv_heads = fields.optional("num_kv_heads", "n_head_kv", maximum=queries) or queries
    else:
        fields.get("num_kv_heads", "n_head_kv")
        kv_heads = 1 if fields.flag("multi_query") else queries
    dim = head_dim(fields, queries)
    layer = FullLayer(kv_heads=kv_heads, head_dim_k=dim, head_dim_v=dim)
    traits = frozenset({"alibi"} if fields.flag("alibi") else ())
    return Decoder(layers=one_each([layer] * fields.layer_count()), traits=traits)


@adapter("gpt_bigcode")
def gpt_bigcode(fields: Fields) -> Decoder:
    """One KV head with ``multi_query`` (the class default), else one per query head."""
    queries = query_heads(fields)
    dim = head_dim(fields, queries)
    kv_heads = 1 if fields.flag("multi_query") else queries
    fields.get("num_key_value_heads")
    layer = FullLayer(kv_heads=kv_heads, head_dim_k=dim, head_dim_v=dim)
    return Decoder(layers=one_each([layer] * fields.layer_count()))


@adapter("chatglm")
def chatglm(fields: Fields) -> Decoder:
    """``multi_query_group_num`` KV heads when ``multi_query_attention`` is on."""
    queries = query_heads(fields)
    kv_heads = queries
    if fields.flag("multi_query_attention"):
        kv_heads = fields.integer("multi_query_group_num", maximum=queries)
    dim = head_dim(fields, queries)
    layer = FullLayer(kv_heads=kv_heads, head_dim_k=dim, head_dim_v=dim)
    return Decoder(layers=one_each([layer] * fields.layer_count()))


@adapter("dbrx")
def dbrx(fields: Fields) -> Decoder:
    """KV heads stand in ``attn_config``."""
    queries = query_heads(fields)
    config = fields.nested("attn_config")
    kv_heads = config.optional("kv_n_heads", maximum=queries) if config is not None else None
    fields.get("num_key_value_heads")
    dim = head_dim(fields, queries)
    layer = FullLayer(kv_heads=kv_heads or 1, head_dim_k=dim, head_dim_v=dim)
    return Decoder(layers=one_each([layer] * fields.layer_count()))


@adapter("qwen")
def qwen(fields: Fields) -> Decoder:
    """First Qwen generation: multi-head attention, width in ``kv_channels``."""
    queries = fields.integer(*QUERY_HEADS, maximum=check.MAX_HEADS)
    dim = head_dim(fields, queries)
    geometry = Heads(kv_heads=queries, head_dim_k=dim, head_dim_v=dim)
    return Decoder(layers=one_each([FullLayer(**geometry)] * fields.layer_count()))


@adapter("diffllama")
def diffllama(fields: Fields) -> Decoder:
    """Differential attention: K and V have the usual shape."""
    return plain(fields)
