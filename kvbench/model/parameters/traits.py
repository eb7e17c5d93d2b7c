"""What families of decoders differ in beyond the numbers in their configs.

Read from the families' published implementations; ``tests/engine/model_files`` checks every
entry against the parameters of the classes in ``transformers``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Structure of one family.

    Attributes:
        norms: Norms of the residual stream in each layer.
        norm_bias: Norms have a bias beside their weight.
        qkv_bias: ``"yes"``, ``"no"``, or the config's key that decides.
        out_bias: The same for the output projection.
        mlp_bias: The same for the feed-forward layers.
        gated: The feed-forward layer has a gate beside up and down.
        qk_norm: ``"head"`` (one vector for all heads), ``"full"`` (all heads' elements), or empty.
        tied: The output projection is the embedding when the config does not say.
        positions: Rows added to the config's longest context for learned positions, ``None``
            when positions are not learned.
        embedding_norms: Norms right after the embedding.
        head_bias: The output projection has a bias.
        shared_gate: The shared expert has a gate of one output.
        correction: Each router has a correction bias.
    """

    norms: int = 2
    norm_bias: bool = False
    qkv_bias: str = "attention_bias"
    out_bias: str = "attention_bias"
    mlp_bias: str = "mlp_bias"
    gated: bool = True
    qk_norm: str = ""
    tied: bool = False
    positions: int | None = None
    embedding_norms: int = 0
    head_bias: bool = False
    shared_gate: bool = False
    correction: bool = False


_LLAMA = Traits()
_OLD = Traits(
    norm_bias=True, qkv_bias="yes", out_bias="yes", mlp_bias="yes", gated=False, tied=True
)
_PLAIN = Traits(qkv_bias="no", out_bias="no", mlp_bias="no")
_QWEN2 = Traits(qkv_bias="yes", out_bias="no", mlp_bias="no")
_QWEN3 = replace(_LLAMA, qk_norm="head", mlp_bias="no")
_QWEN_NEXT = replace(_QWEN3, shared_gate=True)
_GEMMA = Traits(tied=True, mlp_bias="no")
_GEMMA2 = replace(_GEMMA, norms=4)
_GEMMA3 = replace(_GEMMA2, qk_norm="head")
_COHERE = Traits(norms=1, tied=True, mlp_bias="no")
_DEEPSEEK = Traits(mlp_bias="no")
_DEEPSEEK3 = replace(_DEEPSEEK, correction=True)
_GRANITE = Traits(tied=False)
_MAMBA = Traits(norms=1, tied=False)

#: Families by ``model_type`` of the language model.
TRAITS: dict[str, Traits] = {
    "llama": _LLAMA,
    "mistral": _PLAIN,
    "ministral": _PLAIN,
    "ministral3": _PLAIN,
    "mixtral": _PLAIN,
    "phimoe": Traits(norm_bias=True, mlp_bias="no"),
    "aquila": _LLAMA,
    "yi": _LLAMA,
    "xverse": _LLAMA,
    "skywork": _LLAMA,
    "minicpm": _LLAMA,
    "mimo": _QWEN2,
    "helium": _LLAMA,
    "cwm": _LLAMA,
    "qwen2_5_omni_text": _QWEN2,
    "qwen3_omni_moe_text": _QWEN3,
    "glm4v_text": Traits(norms=4, qkv_bias="yes", out_bias="no", mlp_bias="no"),
    "glm4v_moe_text": Traits(qkv_bias="attention_bias", out_bias="no", mlp_bias="no"),
    "dots1": replace(_DEEPSEEK3, qk_norm="head"),
    "hunyuan_v1_moe": replace(_LLAMA, qk_norm="head", mlp_bias="no"),
    "vaultgemma": replace(_GEMMA, norms=2),
    "baichuan": _PLAIN,
    "internlm": Traits(qkv_bias="bias", out_bias="bias", mlp_bias="no"),
    "internlm2": Traits(qkv_bias="bias", out_bias="bias", mlp_bias="no"),
    "internlm3": Traits(qkv_bias="qkv_bias", out_bias="bias", mlp_bias="bias"),
    "smollm3": _LLAMA,
    "seed_oss": Traits(out_bias="attention_out_bias"),
    "exaone": _PLAIN,
    "exaone4": replace(_PLAIN, qk_norm="head"),
    "hunyuan_v1_dense": replace(_LLAMA, qk_norm="head"),
    "arcee": replace(_LLAMA, gated=False),
    "nemotron": Traits(norm_bias=True, gated=False),
    "nemotron-nas": _LLAMA,
    "stablelm": Traits(norm_bias=True, qkv_bias="use_qkv_bias", out_bias="no", mlp_bias="no"),
    "solar": _LLAMA,
    "qwen2": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_moe": replace(_QWEN2, shared_gate=True),
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_text": replace(_QWEN3, tied=True),
    "qwen3_vl_moe_text": _QWEN3,
    "qwen3_next": _QWEN_NEXT,
    "qwen3_5_text": replace(_QWEN3, tied=False),
    "qwen3_5_moe_text": _QWEN_NEXT,
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3_text": _GEMMA3,
    "gemma4_text": _GEMMA3,
    "phi3": _PLAIN,
    "phi": replace(_OLD, norms=1, tied=False, head_bias=True),
    "phi-msft": replace(_OLD, norms=1, tied=False, head_bias=True),
    "gpt2": replace(_OLD, positions=0),
    "gpt_bigcode": replace(_OLD, positions=0),
    "gptj": replace(_OLD, norms=1, qkv_bias="no", out_bias="no", tied=False, head_bias=True),
    "gpt_neox": replace(_OLD, qkv_bias="attention_bias_or_yes", tied=False),
    "opt": replace(_OLD, positions=2),
    "bloom": replace(_OLD, embedding_norms=1),
    "falcon": Traits(
        norm_bias=True, qkv_bias="bias", out_bias="bias", mlp_bias="bias", gated=False, tied=True
    ),
    "starcoder2": replace(_OLD, qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias"),
    "cohere": _COHERE,
    "cohere2": _COHERE,
    "olmo": replace(_LLAMA, norms=0, mlp_bias="no"),
    "olmo2": replace(_LLAMA, qk_norm="full", mlp_bias="no"),
    "olmo3": replace(_LLAMA, qk_norm="full", mlp_bias="no"),
    "olmoe": replace(_LLAMA, qk_norm="full", mlp_bias="no"),
    "granite": _GRANITE,
    "granitemoe": _GRANITE,
    "granitemoeshared": _GRANITE,
    "granitemoehybrid": _GRANITE,
    "glm": Traits(qkv_bias="attention_bias", out_bias="no", mlp_bias="no"),
    "glm4": Traits(norms=4, qkv_bias="attention_bias", out_bias="no", mlp_bias="no"),
    "chatglm": Traits(qkv_bias="add_qkv_bias", out_bias="add_bias_linear", mlp_bias="no"),
    "glm4_moe": Traits(qkv_bias="attention_bias", out_bias="no", mlp_bias="no", correction=True),
    "ernie4_5": Traits(qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias", tied=True),
    "ernie4_5_moe": Traits(
        qkv_bias="use_bias", out_bias="use_bias", mlp_bias="use_bias", tied=True, correction=True
    ),
    "gpt_oss": Traits(qkv_bias="yes", out_bias="yes", mlp_bias="no"),
    "llama4_text": replace(_LLAMA, mlp_bias="no"),
    "deepseek": _DEEPSEEK,
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": _DEEPSEEK3,
    "deepseek_v32": _DEEPSEEK3,
    "deepseek_v4": _DEEPSEEK3,
    "kimi_k2": _DEEPSEEK3,
    "glm4_moe_lite": _DEEPSEEK3,
    "glm_moe_dsa": _DEEPSEEK3,
    "mimo_v2_flash": replace(_DEEPSEEK3, qkv_bias="no", out_bias="no"),
    "minimax_m2": replace(_PLAIN, qk_norm="full", correction=True),
    "kimi_linear": replace(_DEEPSEEK3, qkv_bias="no", out_bias="no"),
    "nemotron_h": replace(_MAMBA, gated=False, correction=True),
    "falcon_h1": replace(_LLAMA, norms=2),
    "zamba2": replace(_MAMBA, tied=True),
    "mamba": replace(_MAMBA, tied=True),
    "falcon_mamba": replace(_MAMBA, tied=True),
    "mamba2": _MAMBA,
    "bamba": _LLAMA,
    "jamba": replace(_PLAIN, tied=False),
    "whisper": replace(_OLD, norms=0),
    "lfm2": replace(_PLAIN, qk_norm="head", tied=True),
}
