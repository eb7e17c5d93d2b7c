"""Broken, absurd and foreign configs: one clear line that names the field, exit code 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvbench.cli import main
from kvbench.errors import ModelError
from kvbench.model.hf import read_config_file, spec_from_config

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
QWEN_NEXT: dict[str, Any] = {
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
}
NEMOTRON: dict[str, Any] = {"model_type": "nemotron_h", "hybrid_override_pattern": "M*M-"}
UNKNOWN: dict[str, Any] = {**LLAMA, "model_type": "brand_new"}

#: (base config, changes, what the message must name)
CASES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    # not integers
    *[
        (LLAMA, {field: value}, field)
        for field in ("num_hidden_layers", "num_attention_heads", "num_key_value_heads")
        for value in ("32", 3.5, True, [32], {"a": 1}, -1, 0, 10**9, 1e300)
    ],
    (LLAMA, {"hidden_size": "4096"}, "hidden_size"),
    (LLAMA, {"hidden_size": -4096}, "hidden_size"),
    (LLAMA, {"hidden_size": 10**12}, "hidden_size"),
    (LLAMA, {"hidden_size": 4097}, "hidden_size"),
    (LLAMA, {"head_dim": 0}, "head_dim"),
    (LLAMA, {"head_dim": "128"}, "head_dim"),
    (LLAMA, {"head_dim": 10**8}, "head_dim"),
    (LLAMA, {"num_key_value_heads": 64}, "num_key_value_heads"),
    (LLAMA, {"num_attention_heads": 33}, "num_attention_heads"),
    (LLAMA, {"max_position_embeddings": "8k"}, "max_position_embeddings"),
    (LLAMA, {"max_position_embeddings": -1}, "max_position_embeddings"),
    (LLAMA, {"max_position_embeddings": 10**15}, "max_position_embeddings"),
    (LLAMA, {"torch_dtype": "int4"}, "int4"),
    (LLAMA, {"torch_dtype": 16}, "torch_dtype"),
    (LLAMA, {"torch_dtype": "os.system"}, "os.system"),
    (LLAMA, {"model_type": None}, "model_type"),
    (LLAMA, {"model_type": 7}, "model_type"),
    (LLAMA, {"model_type": ["llama"]}, "model_type"),
    (LLAMA, {"text_config": "llama"}, "text_config"),
    (LLAMA, {"text_config": [1]}, "text_config"),
    # cache structures that a known family does not have
    (LLAMA, {"sliding_window": 4096}, "sliding_window"),
    (LLAMA, {"kv_lora_rank": 512}, "kv_lora_rank"),
    (LLAMA, {"layer_types": ["sliding_attention"] * 32}, "layer_types"),
    (LLAMA, {"num_kv_shared_layers": 4}, "num_kv_shared_layers"),
    (LLAMA, {"compress_ratios": [4] * 32}, "compress_ratios"),
    (LLAMA, {"attention_chunk_size": 8192}, "attention_chunk_size"),
    (LLAMA, {"cross_attention_layers": [3]}, "cross_attention_layers"),
    (LLAMA, {"mamba_d_state": 16}, "mamba_d_state"),
    (LLAMA, {"index_topk": 2048}, "index_topk"),
    (LLAMA, {"hybrid_layer_pattern": [1] * 32}, "hybrid_layer_pattern"),
    # families nobody knows
    *[
        (UNKNOWN, {field: value}, field)
        for field, value in {
            "sliding_window": 4096,
            "window_size": 256,
            "kv_lora_rank": 512,
            "ssm_state_size": 128,
            "conv_kernel": 4,
            "num_kv_shared_layers": 2,
            "cross_layer_sharing": 2,
            "layer_types": ["linear_attention", "full_attention"],
            "sliding_window_pattern": 6,
            "compress_ratio": 4,
            "compression_rate": 4,
            "attention_chunk_size": 8192,
            "recurrent_block_type": "rglru",
            "block_types": ["recurrent"],
            "layers_block_type": ["mamba"],
            "index_head_dim": 128,
            "indexer_types": ["full"],
            "linear_attn_config": {"num_heads": 4},
            "attn_type_list": [0, 1],
            "retention_heads": 8,
            "rwkv_version": 7,
            "delta_rule": True,
            "lru_width": 2560,
            "cla_share_factor": 2,
            "kv_share_layers": [1],
            "hybrid_override_pattern": "M*",
            "sparse_attention_config": {"sparse_index_dim": 128},
            "global_attn_every_n_layers": 4,
            "attn_layer_period": 8,
            "memory_tokens": 16,
            "latent_dim": 512,
        }.items()
        if field != "memory_tokens"
    ],
    (UNKNOWN, {"num_key_value_heads": None}, "num_key_value_heads"),
    (UNKNOWN, {"num_hidden_layers": None}, "num_hidden_layers"),
    (UNKNOWN, {"num_attention_heads": None}, "num_attention_heads"),
    (UNKNOWN, {"hidden_size": None}, "head_dim"),
    (UNKNOWN, {"is_encoder_decoder": True}, "encoder-decoder"),
    (UNKNOWN, {"architectures": ["BrandNewForMaskedLM"]}, "BrandNewForMaskedLM"),
    (UNKNOWN, {"attn_config": {"kv": 1}}, "attn_config"),
    # known families, broken in their own ways
    (LLAMA, {"model_type": "mistral", "sliding_window": "4096"}, "sliding_window"),
    (LLAMA, {"model_type": "mistral", "sliding_window": -5}, "sliding_window"),
    (LLAMA, {"model_type": "mistral", "sliding_window": 10**12}, "sliding_window"),
    (LLAMA, {"model_type": "qwen2", "use_sliding_window": "yes"}, "use_sliding_window"),
    (LLAMA, {"model_type": "gemma2", "layer_types": ["full_attention"]}, "layer_types"),
    (LLAMA, {"model_type": "gemma2", "layer_types": ["sideways"] * 32}, "sideways"),
    (LLAMA, {"model_type": "gemma2", "layer_types": "full"}, "layer_types"),
    (LLAMA, {"model_type": "gemma3_text", "layer_types": [1] * 32}, "layer_types"),
    (LLAMA, {"model_type": "exaone4", "sliding_window_pattern": "LXG"}, "sliding_window_pattern"),
    (LLAMA, {"model_type": "gemma3n_text", "num_kv_shared_layers": 40}, "num_kv_shared_layers"),
    (LLAMA, {"model_type": "gemma3n_text", "num_kv_shared_layers": 32}, "num_kv_shared_layers"),
    (LLAMA, {"model_type": "llama4_text", "no_rope_layers": [1]}, "no_rope_layers"),
    (LLAMA, {"model_type": "gpt_neo", "attention_types": [["global", 3]]}, "attention_types"),
    (LLAMA, {"model_type": "gpt_neo", "attention_types": [[["global"], 10**6]]}, "attention_types"),
    (LLAMA, {"model_type": "gpt_neo", "attention_types": [[["odd"], 32]]}, "attention_types"),
    (LLAMA, {"model_type": "nemotron-nas"}, "block_configs"),
    (LLAMA, {"model_type": "nemotron-nas", "block_configs": [{}] * 32}, "block_configs"),
    (LLAMA, {"model_type": "nemotron-nas", "block_configs": [1] * 32}, "block_configs"),
    (LLAMA, {"model_type": "falcon", "new_decoder_architecture": 1}, "new_decoder_architecture"),
    (QWEN_NEXT, {"linear_num_key_heads": -1}, "linear_num_key_heads"),
    (QWEN_NEXT, {"linear_conv_kernel_dim": 1}, "linear_conv_kernel_dim"),
    (QWEN_NEXT, {"layer_types": ["linear_attention"] * 7}, "layer_types"),
    (QWEN_NEXT, {"layer_types": ["mamba"] * 8}, "mamba"),
    (DEEPSEEK, {"kv_lora_rank": "512"}, "kv_lora_rank"),
    (DEEPSEEK, {"qk_rope_head_dim": -64}, "qk_rope_head_dim"),
    (DEEPSEEK, {"index_head_dim": 128}, "index_head_dim"),
    (DEEPSEEK, {"model_type": "deepseek_v32", "indexer_types": ["none"] * 61}, "indexer_types"),
    (DEEPSEEK, {"model_type": "deepseek_v4", "compress_ratios": [4]}, "compress_ratios"),
    (DEEPSEEK, {"model_type": "deepseek_v4", "compress_ratios": ["4"] * 61}, "compress_ratios"),
    (NEMOTRON, {"hybrid_override_pattern": "MXM*"}, "hybrid_override_pattern"),
    (NEMOTRON, {"num_hidden_layers": 9}, "hybrid_override_pattern"),
    (NEMOTRON, {"hybrid_override_pattern": 7}, "hybrid_override_pattern"),
    (NEMOTRON, {"hybrid_override_pattern": None}, "hybrid_override_pattern"),
    (NEMOTRON, {"mamba_ssm_cache_dtype": 32}, "mamba_ssm_cache_dtype"),
    (LLAMA, {"model_type": "zamba2"}, "layers_block_type"),
    (LLAMA, {"model_type": "bamba", "attn_layer_indices": [99]}, "attn_layer_indices"),
    (LLAMA, {"model_type": "recurrent_gemma", "block_types": []}, "block_types"),
    (LLAMA, {"model_type": "kimi_linear", "linear_attn_config": 3}, "linear_attn_config"),
    (
        LLAMA,
        {
            "model_type": "kimi_linear",
            "linear_attn_config": {
                "num_heads": 4,
                "head_dim": 8,
                "short_conv_kernel_size": 4,
                "kda_layers": [1],
                "full_attn_layers": [1],
            },
        },
        "kda_layers",
    ),
]


def config_of(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {**base, **changes}


def case_id(case: tuple[dict[str, Any], dict[str, Any], str]) -> str:
    base, changes, _ = case
    return f"{base['model_type']}-{json.dumps(changes)[:60]}"


def test_there_are_more_than_a_hundred() -> None:
    assert len(CASES) > 100


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_refused_by_name(case: tuple[dict[str, Any], dict[str, Any], str]) -> None:
    base, changes, named = case
    with pytest.raises(ModelError) as caught:
        spec_from_config(config_of(base, changes), name="hostile")
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("case", CASES[::6], ids=case_id)
def test_exit_code_2_on_one_line(
    case: tuple[dict[str, Any], dict[str, Any], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config_of(case[0], case[1])), encoding="utf-8")
    with pytest.raises(SystemExit) as left:
        main(["size", str(path)])
    assert left.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("kvbench: ")
    assert output.err.count("\n") == 1
    assert case[2] in output.err


FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not JSON"),
    "truncated": (b'{"model_type": "llama"', "not JSON"),
    "binary": (b"\x89PNG\r\n\x1a\n\xff\xfe", "not JSON"),
    "list": (b"[1, 2]", "JSON object"),
    "string": (b'"llama"', "JSON object"),
    "null": (b"null", "JSON object"),
    "pickle": (b"\x80\x04\x95cposix\nsystem\n", "not JSON"),
    "python": (b"__import__('os').system('true')", "not JSON"),
    "huge integer": (b'{"model_type": "llama", "num_hidden_layers": ' + b"9" * 5000 + b"}", "5000"),
    "nested": (b'{"model_type": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested"),
    "infinity": (b'{"model_type": "llama", "num_hidden_layers": Infinity}', "num_hidden_layers"),
    "nan": (b'{"model_type": "llama", "hidden_size": NaN}', "hidden_size"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_configs(name: str, tmp_path: Path) -> None:
    content, named = FILES[name]
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"config\.json") as caught:
        read_config_file(path)
    assert named in str(caught.value)


def test_a_file_larger_than_any_config_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b" " * (9 << 20))
    with pytest.raises(ModelError, match="larger than 8 MiB"):
        read_config_file(path)


def test_nothing_in_a_config_is_imported(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    module = tmp_path / "modeling_evil.py"
    module.write_text(f"open({str(marker)!r}, 'w')", encoding="utf-8")
    config = {**LLAMA, "auto_map": {"AutoConfig": "modeling_evil.Evil"}, "trust_remote_code": True}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    read_config_file(tmp_path)
    assert not marker.exists()
