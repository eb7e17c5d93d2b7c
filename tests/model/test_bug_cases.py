"""Public bug reports reduced to input and right value (``truth/bug_cases.json``)."""

from __future__ import annotations

import json

import pytest

from kvbench.layout import LayoutOptions
from kvbench.model.hf import spec_from_config
from kvbench.model.load import load_model
from kvbench.model.sizing import logical_bytes, logical_size
from kvbench_vllm.layout import VllmLayout
from kvbench_vllm.layout.arrangement import VllmArrangement
from tests.conftest import shared_path

SIZING_CASES = {
    "swa-starcoder2",
    "gdn-qwen35-27b-block",
    "gdn-qwen35-27b-log",
    "gptoss-120b-hfmem60",
    "gemma4-31b-slope",
    "headdim-qwen3-4b",
    "mla-lmcache694",
    "gguf-gptoss",
    "mla-tp-kaito",
    "sglang-kv-235b",
    "dsr1-aisimulate263",
}
BUDGET_CASES = {"budget-vllm21489"}


def arrange(name: str, **engine: object) -> VllmArrangement:
    return VllmLayout().arrange(load_model(name), LayoutOptions(engine=engine))


def test_every_case_is_a_test() -> None:
    cases = json.loads(shared_path("truth/bug_cases.json").read_text(encoding="utf-8"))
    assert {case["id"] for case in cases} == SIZING_CASES | BUDGET_CASES


def test_swa_starcoder2() -> None:
    pool = arrange("starcoder2-3b", async_scheduling=False, max_model_len=16384)
    assert pool.admission_blocks(16384) == 769
    assert pool.max_concurrency(137_407, 16384) == pytest.approx(178.68, abs=0.005)


def test_gdn_qwen35_27b_block() -> None:
    assert arrange("Qwen3.5-27B").block_size == 784


def test_gdn_qwen35_27b_log() -> None:
    pool = arrange("Qwen3.5-27B", enable_prefix_caching=False, max_model_len=32768)
    assert len(pool.groups) == 4
    assert pool.admission_blocks(32768) == 42 + 3
    assert pool.max_concurrency(1487, 32768) == pytest.approx(33.04, abs=0.005)
    assert pool.capacity_tokens(1487) == 1_082_800


def gpt_oss_120b() -> dict[str, object]:
    return {
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "num_hidden_layers": 36,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "hidden_size": 2880,
        "sliding_window": 128,
        "max_position_embeddings": 131072,
        "quantization_config": {"quant_method": "mxfp4"},
    }


def test_gptoss_120b_hfmem60() -> None:
    model = spec_from_config(gpt_oss_120b(), name="gpt-oss-120b")
    options = LayoutOptions(engine={"async_scheduling": False})
    pool = VllmLayout().arrange(model, options)
    assert [group.layers for group in pool.groups] == [18, 18]
    assert pool.bytes_per_block == 589_824
    assert pool.admission_blocks(131_072) == 8192 + 521
    assert pool.max_concurrency(9798, 131_072) == pytest.approx(1.12, abs=0.005)
    assert logical_size(model, 100).slope_bytes_per_token == 73_728
    assert logical_size(model, 128).slope_bytes_per_token == 36_864


def test_gemma4_31b_slope() -> None:
    model = load_model("Gemma-4-31B-IT")
    long = logical_size(model, 50_000)
    assert (long.slope_bytes_per_token, long.intercept_bytes) == (81_920, 838_860_800)
    # 10 · 2 · 4 · 512 · 2 + 50 · 2 · 16 · 256 · 2, not the 983,040 that 60 equal layers would be.
    assert logical_size(model, 1000).slope_bytes_per_token == 81_920 + 819_200


def test_headdim_qwen3_4b() -> None:
    assert logical_size(load_model("Qwen3-4B"), 1).slope_bytes_per_token == 147_456


def test_mla_lmcache694() -> None:
    assert logical_size(load_model("DeepSeek-V3"), 1).slope_bytes_per_token == 70_272


def test_gguf_gptoss() -> None:
    size = logical_size(load_model("gpt-oss-20b"), 131_072)
    assert size.slope_bytes_per_token == 24_576
    assert size.slope_bytes_per_token * 131_072 == 3 << 30
    assert size.intercept_bytes == 12 * 128 * 2048


def test_mla_tp_kaito() -> None:
    config = {"model_type": "mistral4", "num_hidden_layers": 36, "num_attention_heads": 32}
    model = spec_from_config(config, name="Mistral-Small-4")
    for tp in (1, 2):
        assert logical_size(model, 1, tp=tp).slope_bytes_per_token == 23_040
    assert logical_bytes(model, 1_048_576, tp=2) == int(22.5 * (1 << 30))


def test_sglang_kv_235b() -> None:
    model = load_model("Qwen3-235B-A22B")
    per_side = logical_bytes(model, 367_404, tp=4) / 2
    assert per_side / (1 << 30) == pytest.approx(8.23, abs=0.005)


def test_dsr1_aisimulate263() -> None:
    size = logical_bytes(load_model("DeepSeek-V3"), 509_000, tp=8)
    assert size / (1 << 30) == pytest.approx(33.3, abs=0.05)
