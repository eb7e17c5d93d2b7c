"""Parameter counts that their publishers state, and bytes under quantization."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvbench.model.parameters import count_parameters
from kvbench.model.weights import weight_bytes

from ..conftest import shared_path

#: Counts on the models' public pages (safetensors metadata), by configuration file.
PUBLISHED = {
    "Meta-Llama-3.1-8B": 8_030_261_248,
    "Meta-Llama-3.1-70B": 70_553_706_496,
    "Meta-Llama-3.1-405B": 405_853_388_800,
    "Llama-2-7b": 6_738_415_616,
    "Llama-2-70b": 68_976_648_192,
    "Llama-3.2-1B": 1_235_814_400,
    "Llama-3_3-Nemotron-Super-49B-v1": 49_867_145_216,
    "Mistral-7B-v0.1": 7_241_732_096,
    "Mixtral-8x7B-v0.1": 46_702_792_704,
    "Qwen3-32B": 32_762_123_264,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Qwen3-235B-A22B": 235_093_634_560,
    "Qwen2.5-VL-7B": 8_292_166_656,
    "DeepSeek-V2-Lite": 15_706_484_224,
    "DeepSeek-V3": 671_026_419_200,
    "deepseek-moe-16b": 16_375_728_128,
    "gpt-oss-20b": 20_914_757_184,
    "gemma-2-27b": 27_227_128_320,
    "gemma-2-2b": 2_614_341_888,
    "gemma-3-27b-it": 27_432_062_576,
    "gemma-3-1b-it": 999_885_952,
    "phi-2": 2_779_683_840,
    "phi-4": 14_659_507_200,
    "chatglm3-6b": 6_243_584_000,
    "gpt2": 124_439_808,
    "gpt-neox-20b": 20_554_567_680,
    "bloom-7b1": 7_069_016_064,
    "opt-66b": 65_719_701_504,
    "starcoder2-3b": 3_030_371_328,
    "OLMo-2-1124-7B": 7_298_617_344,
    "granite-4.0-h-small": 32_207_337_984,
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 31_577_940_288,
    "Falcon-H1-0.5B": 521_411_104,
    "Mamba-Codestral-7B": 7_285_403_648,
    "whisper-large-v3": 1_543_490_560,
}


def config_of(name: str) -> dict[str, Any]:
    text = shared_path(f"truth/vllm_kv/configs/{name}.json").read_text(encoding="utf-8")
    config: dict[str, Any] = json.loads(text)
    return config


def tiny(**changes: Any) -> dict[str, Any]:
    """A llama of 2 layers: every number small enough to add up by hand."""
    return {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 128,
        "vocab_size": 1000,
        **changes,
    }


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_published_counts(name: str, count: int) -> None:
    assert count_parameters(config_of(name)).total == count


def test_every_part_of_a_small_llama() -> None:
    counts = count_parameters(tiny())
    assert (counts.embedding, counts.head) == (64_000, 64_000)
    # q and o: 64 x 64, k and v: 64 x 32; gate, up and down: 64 x 128.
    assert counts.linear == 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128)
    assert counts.small == 5 * 64
    assert counts.total == 202_048
    assert weight_bytes(tiny()).bytes == 2 * counts.total


def test_tied_embeddings_are_counted_once() -> None:
    assert count_parameters(tiny(tie_word_embeddings=True)).head == 0


def test_experts_and_their_router() -> None:
    counts = count_parameters(tiny(model_type="mixtral", num_local_experts=8))
    assert counts.experts == 2 * 8 * 3 * 64 * 128
    assert counts.router == 2 * 64 * 8


def test_latent_projections_are_on_every_rank() -> None:
    counts = count_parameters(config_of("DeepSeek-V3"))
    # Down projections of 61 layers: 7168 x (512 + 64) for keys, 7168 x 1536 for queries.
    assert counts.latent == 61 * 7168 * (576 + 1536)


@pytest.mark.parametrize(
    ("quantization", "per_linear"),
    [
        ({"quant_method": "fp8"}, 1.0),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1 + 4 / 128**2),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, 0.5 + 2.5 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, 1.0),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 0.5625),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 0.5625),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}},
            },
            1.0,
        ),
    ],
)
def test_quantization_leaves_embeddings_and_norms(
    quantization: dict[str, Any], per_linear: float
) -> None:
    counts = count_parameters(tiny())
    plain = 2 * (counts.total - counts.linear)
    weights = weight_bytes(tiny(quantization_config=quantization))
    assert weights.bytes == round(plain + counts.linear * per_linear)
    assert weights.parameters == counts.total


def test_mxfp4_of_gpt_oss_is_experts_only() -> None:
    # 19,110,297,600 expert elements at 4.25 bits, 1,804,459,584 other parameters at 16 bits.
    assert weight_bytes(config_of("gpt-oss-20b")).bytes == 13_761_264_768


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (tiny(model_type="never_heard_of_it"), "no parameter formula for model_type"),
        (tiny(quantization_config={"quant_method": "homemade"}), "'homemade'"),
        ({"model_type": "chatglm"}, "the config has no"),
        (tiny(hidden_size="wide"), "hidden_size must be an integer"),
        (tiny(num_hidden_layers=10**7), "num_hidden_layers must be at most"),
        (tiny(vocab_size=-1), "vocab_size must be an integer"),
    ],
)
def test_unknown_stays_unknown_with_its_reason(config: dict[str, Any], reason: str) -> None:
    weights = weight_bytes(config)
    assert weights.bytes is None
    assert weights.source.startswith("not known: ")
    assert reason in weights.source


@given(st.integers(1, 64), st.integers(1, 64))
def test_ranks_hold_all_of_the_replicated_and_a_share_of_the_rest(tp: int, layers: int) -> None:
    weights = weight_bytes(tiny(num_hidden_layers=layers))
    rank = weights.rank_bytes(tp)
    assert weights.bytes is not None
    assert rank is not None
    assert rank * tp >= weights.bytes
    assert rank >= weights.replicated_bytes
    assert weights.rank_bytes(1) == weights.bytes


def test_what_a_published_config_leaves_out_is_its_class_default() -> None:
    """Gemma 3's own files state neither vocabulary nor heads."""
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "sliding_window": 1024,
    }
    counts = count_parameters({"model_type": "gemma3", "text_config": text})
    assert counts.embedding == 262_208 * 2560
    assert counts.head == 0
    assert counts.total == 3_880_263_168


def test_routed_experts() -> None:
    """Mixtral: 32 layers of 8 experts of 3 matrices of 4096 x 14336, 2 experts per token."""
    experts = weight_bytes(config_of("Mixtral-8x7B-v0.1")).experts
    assert experts is not None
    assert (experts.count, experts.per_token) == (8, 2)
    assert experts.parameters == 32 * 8 * 3 * 4096 * 14336
    assert experts.weight_bytes == 2 * experts.parameters
    assert weight_bytes(config_of("Meta-Llama-3.1-8B")).experts is None


def test_quantized_experts_alone() -> None:
    """gpt-oss: experts in MXFP4, 4.25 bits per parameter; the rest in 16 bits."""
    weights = weight_bytes(config_of("gpt-oss-20b"))
    assert weights.experts is not None
    assert weights.experts.weight_bytes == weights.experts.parameters * 17 // 32
