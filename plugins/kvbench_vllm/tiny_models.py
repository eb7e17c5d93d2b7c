"""Small models of every cache shape, written as ``config.json`` and run with random weights.

``python -m kvbench_vllm.tiny_models FOLDER`` writes them; the shipped suites use the copies in
``suites/data/models``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

_COMMON: Mapping[str, object] = {
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_size": 256,
    "intermediate_size": 256,
    "max_position_embeddings": 8192,
    "num_hidden_layers": 4,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 4096,
}
_LLAMA = {
    **_COMMON,
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "num_attention_heads": 8,
    "head_dim": 64,
}

#: Folder name -> ``config.json``.
TINY_MODELS: Mapping[str, Mapping[str, object]] = {
    "tiny-llama-mha": {**_LLAMA, "num_key_value_heads": 8},
    "tiny-llama-gqa": {**_LLAMA, "num_key_value_heads": 2},
    "tiny-llama-mqa": {**_LLAMA, "num_key_value_heads": 1},
    "tiny-qwen3": {
        **_LLAMA,
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "head_dim": 128,
        "num_key_value_heads": 2,
    },
    "tiny-mistral-window": {
        **_LLAMA,
        "architectures": ["MistralForCausalLM"],
        "model_type": "mistral",
        "num_key_value_heads": 2,
        "sliding_window": 256,
    },
    "tiny-gemma3": {
        **_COMMON,
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "head_dim": 64,
        "hidden_activation": "gelu_pytorch_tanh",
        "layer_types": [
            "sliding_attention",
            "full_attention",
            "sliding_attention",
            "full_attention",
        ],
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "query_pre_attn_scalar": 64,
        "rope_local_base_freq": 10000.0,
        "sliding_window": 256,
    },
    "tiny-deepseek-mla": {
        **_COMMON,
        "architectures": ["DeepseekV2ForCausalLM"],
        "model_type": "deepseek_v2",
        "first_k_dense_replace": 4,
        "hidden_act": "silu",
        "kv_lora_rank": 512,
        "moe_intermediate_size": 64,
        "n_group": 1,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "norm_topk_prob": False,
        "num_attention_heads": 4,
        "num_experts_per_tok": 2,
        "num_key_value_heads": 4,
        "q_lora_rank": None,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "routed_scaling_factor": 1.0,
        "topk_group": 1,
        "topk_method": "greedy",
        "v_head_dim": 128,
    },
    "tiny-granite-hybrid": {
        **_COMMON,
        "architectures": ["GraniteMoeHybridForCausalLM"],
        "model_type": "granitemoehybrid",
        "attention_bias": False,
        "attention_multiplier": 0.0078125,
        "embedding_multiplier": 12,
        "hidden_act": "silu",
        "layer_types": ["mamba", "attention", "mamba", "mamba"],
        "logits_scaling": 8,
        "mamba_chunk_size": 256,
        "mamba_conv_bias": True,
        "mamba_d_conv": 4,
        "mamba_d_head": 32,
        "mamba_d_state": 64,
        "mamba_expand": 2,
        "mamba_n_groups": 1,
        "mamba_n_heads": 16,
        "mamba_proj_bias": False,
        "num_attention_heads": 4,
        "num_experts_per_tok": 0,
        "num_key_value_heads": 2,
        "num_local_experts": 0,
        "position_embedding_type": "nope",
        "residual_multiplier": 0.22,
        "shared_intermediate_size": 256,
    },
    "tiny-qwen3-next": {
        **_COMMON,
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "decoder_sparse_step": 1,
        "full_attention_interval": 4,
        "head_dim": 64,
        "hidden_act": "silu",
        "layer_types": [
            "linear_attention",
            "linear_attention",
            "linear_attention",
            "full_attention",
        ],
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 64,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_value_head_dim": 64,
        "mlp_only_layers": [],
        "moe_intermediate_size": 64,
        "norm_topk_prob": True,
        "num_attention_heads": 4,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "num_key_value_heads": 2,
        "partial_rotary_factor": 0.25,
        "shared_expert_intermediate_size": 64,
    },
}
#: Those with a state per sequence: vLLM makes their blocks as large as the state demands.
STATE_MODELS = frozenset({"tiny-granite-hybrid", "tiny-qwen3-next"})


def write_tiny_models(folder: Path) -> list[Path]:
    """Write every tiny model below ``folder`` and return the files."""
    written = []
    for name, config in TINY_MODELS.items():
        path = folder / name / "config.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        written.append(path)
    return written


if __name__ == "__main__":
    for written_path in write_tiny_models(Path(sys.argv[1])):
        print(written_path)
