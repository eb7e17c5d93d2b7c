"""Parts of the ``vllm`` layout that the golden rows do not reach, worked out by hand."""

from __future__ import annotations

import pytest

from kvbench.errors import ModelError
from kvbench.layout import LayoutOptions
from kvbench.model.load import load_model
from kvbench.model.spec import FullLayer, MlaLayer, ModelSpec, SlidingLayer, StateLayer, StateTensor
from kvbench_vllm.layout import VllmLayout
from kvbench_vllm.layout.arrangement import VllmArrangement
from kvbench_vllm.layout.groups import make_groups
from kvbench_vllm.layout.spec import CacheSpec


def arrange(model: ModelSpec, **options: object) -> VllmArrangement:
    return VllmLayout().arrange(model, LayoutOptions(**options))  # type: ignore[arg-type]


def full(kv_heads: int = 8, head_dim: int = 128) -> FullLayer:
    return FullLayer(kv_heads=kv_heads, head_dim_k=head_dim, head_dim_v=head_dim)


def model_of(*layers: object, heads: int = 32) -> ModelSpec:
    return ModelSpec(name="m", layers=tuple(layers), query_heads=heads)  # type: ignore[arg-type]


def test_groups_of_nearly_equal_kinds_take_the_larger_size() -> None:
    """13 full beside 12 sliding layers: padded to 13, because 13 < 1.5 · 12."""
    sliding = SlidingLayer(kv_heads=8, head_dim_k=128, head_dim_v=128, window=128)
    pool = arrange(model_of(*[full()] * 13, *[sliding] * 12))
    assert [group.layers for group in pool.groups] == [13, 12]
    assert pool.bytes_per_block == 13 * 65536


def test_groups_of_unequal_kinds_take_the_smaller_size() -> None:
    sliding = SlidingLayer(kv_heads=8, head_dim_k=128, head_dim_v=128, window=128)
    pool = arrange(model_of(*[full()] * 10, *[sliding] * 15))
    assert [group.layers for group in pool.groups] == [10, 8, 7]


def test_pages_that_do_not_divide_are_padded() -> None:
    narrow = SlidingLayer(kv_heads=8, head_dim_k=96, head_dim_v=96, window=128)
    pool = arrange(model_of(full(), narrow))
    assert [(g.page_bytes, g.page_unpadded_bytes) for g in pool.groups] == [
        (65536, 65536),
        (65536, 49152),
    ]


def test_latent_pages_cannot_be_padded() -> None:
    state = StateLayer(
        tensors=(StateTensor(name="ssm", shape=(64, 128, 128), dtype="bf16", tp_dim=0),)
    )
    latent = MlaLayer(latent_dim=512, rope_dim=64)
    pool = arrange(model_of(state, latent))
    assert pool.block_size % 128 == 0
    caches = [
        (CacheSpec(kind="mla", block_size=16, entry_bytes=1152), 0),
        (CacheSpec(kind="sliding", block_size=16, entry_bytes=4096, window=64), 1),
    ]
    with pytest.raises(ModelError, match="pages of its layers equal"):
        make_groups(caches)


def test_full_layers_of_different_width_share_one_group() -> None:
    pool = arrange(model_of(full(8), full(4), full(8)))
    assert len(pool.groups) == 1
    assert pool.bytes_per_block == 2 * 65536 + 32768
    assert pool.groups[0].layer_page_bytes == (32768, 65536)


@pytest.mark.parametrize(
    ("pp", "bytes_per_block"), [(1, 32 * 65536), (2, 16 * 65536), (3, 11 * 65536)]
)
def test_pipeline_reports_the_fullest_stage(pp: int, bytes_per_block: int) -> None:
    assert arrange(load_model("Llama-3.1-8B"), pp=pp).bytes_per_block == bytes_per_block


def test_pipeline_keeps_the_groups_of_the_whole_model() -> None:
    pool = arrange(load_model("gemma-3-27b-it"), pp=2)
    assert len(pool.groups) == 7
    assert sum(group.layers for group in pool.groups) == 31
    assert pool.tokens_in_flight == 3 * 8192


def test_options_by_the_engines_names() -> None:
    model = load_model("gpt-oss-20b")
    small = arrange(model, engine={"max_num_batched_tokens": 2048, "async_scheduling": False})
    assert small.admission_blocks(32768) == 2048 + -(-(127 + 2048) // 16) + 1
    fixed = arrange(model, engine={"num_gpu_blocks_override": 500})
    assert fixed.num_blocks(1 << 40) == 500
    whole = arrange(model, engine={"disable_hybrid_kv_cache_manager": True})
    assert [group.layers for group in whole.groups] == [24]
    assert whole.admission_blocks(32768) == 2048


def test_state_dtype_by_option_and_by_config() -> None:
    plain = arrange(load_model("Qwen3-Next-80B-A3B"))
    wide = arrange(load_model("Qwen3-Next-80B-A3B"), engine={"mamba_ssm_cache_dtype": "float32"})
    assert plain.groups[0].page_unpadded_bytes == 3 * 8192 * 2 + 32 * 128 * 128 * 2
    assert wide.groups[0].page_unpadded_bytes == 3 * 8192 * 2 + 32 * 128 * 128 * 4


def test_jamba_block_covers_its_state() -> None:
    """Mamba-1 state 49,152 + 262,144 B over 4,096 B a token: 76 tokens, 80 in steps of 16."""
    from kvbench.model.hf import spec_from_config

    config = {
        "model_type": "jamba",
        "architectures": ["JambaForCausalLM"],
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    }
    pool = arrange(spec_from_config(config, name="jamba"))
    assert pool.block_size == 80
    assert [group.layers for group in pool.groups] == [4] * 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_size": 8}, "block size of 16"),
        ({"block_size": 24}, "block size of 16"),
        ({"tp": 0}, "at least 1"),
        ({"tp": 3}, "not divisible"),
        ({"kv_dtype": "q8_0"}, "no KV cache dtype 'q8_0'"),
        ({"kv_dtype": "fp8_ds_mla"}, "sparse indexer"),
        ({"engine": {"max_model_length": 5}}, "did you mean 'max_model_len'"),
        ({"engine": {"max_model_len": 0}}, "between 1 and"),
        ({"engine": {"max_model_len": "8k"}}, "must be an integer"),
        ({"engine": {"async_scheduling": 1}}, "must be true or false"),
    ],
)
def test_refusals(options: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        arrange(load_model("Llama-3.1-8B"), **options)


def test_derivation_puts_the_numbers_in() -> None:
    lines = "\n".join(arrange(load_model("Qwen3-Next-80B-A3B")).derivation(8192))
    assert "⌈1097728 B / (16 · 2048 B)⌉ = 544 tokens" in lines
    assert "⌈8192 / 544⌉ = 16 blocks" in lines


def test_windows_in_some_layers_of_a_qwen2_are_refused() -> None:
    from kvbench.model.hf import spec_from_config

    config = {
        "model_type": "qwen2",
        "num_hidden_layers": 8,
        "use_sliding_window": True,
        "sliding_window": 4096,
        "max_window_layers": 4,
    }
    with pytest.raises(ModelError, match="some but not all layers"):
        arrange(spec_from_config(config, name="q"))
    assert arrange(spec_from_config({**config, "max_window_layers": 0}, name="q")).groups


def test_architectures_that_vllm_runs_through_transformers() -> None:
    from kvbench.model.hf import spec_from_config

    config = {"model_type": "solar_open", "architectures": ["SolarOpenForCausalLM"]}
    pool = arrange(spec_from_config(config, name="solar"))
    assert any("Transformers backend" in note for note in pool.assumptions)
    latent = {"model_type": "youtu", "architectures": ["YoutuForCausalLM"]}
    with pytest.raises(ModelError, match="Transformers backend, whose cache for mla layers"):
        arrange(spec_from_config(latent, name="youtu"))
