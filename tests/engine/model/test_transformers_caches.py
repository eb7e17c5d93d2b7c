"""What transformers' own cache objects hold after a forward pass of tiny random models.

transformers keeps ``window - 1`` tokens of a windowed layer (the next token needs no more) and
``kernel`` columns of a convolution, one more than has to be resident. Everything else is equal
to the byte, element types of states included.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvbench.model.dtypes import kv_dtype
from kvbench.model.hf import spec_from_config
from kvbench.model.sizing import cache_cost, state_bytes
from kvbench.model.spec import LayerSpec, ModelSpec, StateLayer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TOKENS = 40
WINDOW = 16
BASE: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
MOE = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
DELTA = {
    **MOE,
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "shared_expert_intermediate_size": 16,
}
MAMBA2 = {
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_state": 16,
    "mamba_n_groups": 2,
    "mamba_expand": 2,
}

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": BASE,
    "mistral": {**BASE, "sliding_window": WINDOW},
    "mixtral": {**BASE, "num_local_experts": 2, "num_experts_per_tok": 1},
    "qwen2": BASE,
    "qwen3": {**BASE, "head_dim": 32},
    "qwen3_moe": {**BASE, **MOE, "head_dim": 32},
    "gemma": {**BASE, "head_dim": 32},
    "gemma2": {**BASE, "head_dim": 32, "sliding_window": WINDOW},
    "gemma3_text": {
        **BASE,
        "num_hidden_layers": 7,
        "head_dim": 32,
        "sliding_window": WINDOW,
    },
    "phi": BASE,
    "phi3": {**BASE, "sliding_window": WINDOW},
    "stablelm": BASE,
    "gpt_neox": {k: v for k, v in BASE.items() if k != "num_key_value_heads"},
    "gpt2": {"vocab_size": 64, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128},
    "falcon": {**BASE, "num_key_value_heads": 4, "multi_query": True},
    "starcoder2": {**BASE, "sliding_window": WINDOW},
    "olmo2": BASE,
    "olmo3": {**BASE, "sliding_window": WINDOW},
    "cohere2": {**BASE, "head_dim": 16, "sliding_window": WINDOW},
    "granite": BASE,
    "glm4": {**BASE, "head_dim": 16},
    "smollm3": BASE,
    "gpt_oss": {
        **BASE,
        "head_dim": 16,
        "sliding_window": WINDOW,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
    },
    "mamba": {"vocab_size": 64, "hidden_size": 64, "state_size": 8, "num_hidden_layers": 2},
    "mamba2": {
        "vocab_size": 64,
        "hidden_size": 64,
        "num_heads": 8,
        "head_dim": 16,
        "state_size": 16,
        "n_groups": 2,
        "num_hidden_layers": 2,
    },
    "jamba": {
        **BASE,
        "num_experts": 2,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "use_mamba_kernels": False,
    },
    "bamba": {**BASE, **MAMBA2, "attn_layer_indices": [1]},
    "granitemoehybrid": {
        **BASE,
        **MAMBA2,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "shared_intermediate_size": 32,
        "layer_types": ["linear_attention", "full_attention", "linear_attention", "full_attention"],
    },
    "qwen3_next": {**BASE, **DELTA},
    "qwen3_5_text": {**BASE, **DELTA},
    "lfm2": {**BASE, "full_attn_idxs": [1, 3], "conv_L_cache": 3},
    "minimax": {
        **BASE,
        "head_dim": 16,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "block_size": 8,
        "layer_types": ["linear_attention", "full_attention"] * 2,
    },
    "nemotron_h": {
        **BASE,
        "head_dim": 16,
        "mamba_num_heads": 8,
        "mamba_head_dim": 16,
        "ssm_state_size": 16,
        "n_groups": 2,
        "layers_block_type": ["linear_attention", "full_attention", "mlp", "linear_attention"],
    },
    "olmo_hybrid": {**BASE, **DELTA},
    "gemma3n_text": {
        **BASE,
        "head_dim": 16,
        "num_hidden_layers": 10,
        "num_kv_shared_layers": 5,
        "sliding_window": WINDOW,
        "vocab_size_per_layer_input": 64,
        "hidden_size_per_layer_input": 8,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 2,
        "activation_sparsity_pattern": [0.0] * 10,
    },
    "llama4_text": {
        **BASE,
        "head_dim": 16,
        "num_local_experts": 2,
        "attention_chunk_size": WINDOW,
        "intermediate_size_mlp": 64,
    },
    "falcon_h1": {**BASE, **MAMBA2, "mamba_d_ssm": 128, "head_dim": 16},
}


def config_values(config: Any) -> dict[str, Any]:
    values: dict[str, Any] = config.to_dict()
    return {**values, "dtype": "bfloat16"}


def run_forward(family: str) -> tuple[Any, Any]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = transformers.CONFIG_MAPPING[family](**FAMILIES[family])
    model = transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16).eval()
    with torch.no_grad():
        output = model(torch.randint(3, 60, (1, TOKENS)), use_cache=True)
    cache = getattr(output, "past_key_values", None)
    return config, cache if cache is not None else output.cache_params


def tensor_bytes(tensor: Any) -> int:
    return int(tensor.numel() * tensor.element_size())


def held(cache: Any) -> dict[str, int]:
    """Bytes by purpose over all layers of a transformers cache."""
    total = {"kv": 0, "conv": 0, "ssm": 0}
    for layer in cache.layers:
        for name in ("keys", "values"):
            if torch.is_tensor(getattr(layer, name, None)):
                total["kv"] += tensor_bytes(getattr(layer, name))
        total["conv"] += sum(map(tensor_bytes, tensors(getattr(layer, "conv_states", None))))
        total["ssm"] += sum(map(tensor_bytes, tensors(getattr(layer, "recurrent_states", None))))
    # MiniMax keeps its lightning states beside the layers.
    total["ssm"] += sum(map(tensor_bytes, tensors(getattr(cache, "linear_cache", None))))
    return total


def tensors(value: Any) -> list[Any]:
    if torch.is_tensor(value):
        return [value]
    items = value.values() if isinstance(value, dict) else value or ()
    return [item for item in items if torch.is_tensor(item)]


def predicted(model: ModelSpec) -> dict[str, int]:
    total = {"kv": 0, "conv": 0, "ssm": 0}
    for layer in model.layers:
        if isinstance(layer, StateLayer):
            for name in ("conv", "ssm"):
                total[name] += state_part(layer, model, name)
        else:
            total["kv"] += attention_bytes(layer, model)
    return total


def attention_bytes(layer: LayerSpec, model: ModelSpec) -> int:
    cost = cache_cost(layer, model, kv_dtype("bf16"))
    seen = TOKENS if cost.visible_tokens is None else min(TOKENS, cost.visible_tokens - 1)
    return cost.entry_bytes * seen


def state_part(layer: StateLayer, model: ModelSpec, name: str) -> int:
    parts = tuple(tensor for tensor in layer.tensors if tensor.name == name)
    size = state_bytes(StateLayer(tensors=parts, mechanism=layer.mechanism), model)
    if name == "conv" and parts:
        tail = parts[0].shape[0]
        return size // tail * (tail + 1)
    return size


@pytest.mark.parametrize("family", FAMILIES)
def test_bytes_that_transformers_holds(family: str) -> None:
    config, cache = run_forward(family)
    model = spec_from_config(config_values(config), name=family)
    assert predicted(model) == held(cache)
