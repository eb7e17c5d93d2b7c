"""Logical bytes against arithmetic worked out by hand."""

from __future__ import annotations

import pytest

from kvbench.errors import ModelError
from kvbench.model.dtypes import KV_DTYPES, kv_dtype
from kvbench.model.load import load_model
from kvbench.model.sizing import heads_on_rank, logical_bytes, logical_size, pipeline_owners
from kvbench.model.spec import (
    ChunkedLayer,
    CrossLayer,
    FullLayer,
    IndexerLayer,
    MlaLayer,
    ModelSpec,
    NoneLayer,
    SharedLayer,
    SlidingLayer,
    StateLayer,
    StateTensor,
)

MIB = 1 << 20


def uniform(kv_heads: int, *, layers: int = 32, head_dim: int = 128) -> ModelSpec:
    layer = FullLayer(kv_heads=kv_heads, head_dim_k=head_dim, head_dim_v=head_dim)
    return ModelSpec(name="uniform", layers=(layer,) * layers, query_heads=32)


@pytest.mark.parametrize(
    ("kv_heads", "request_mib", "token_kib"), [(32, 2048, 512), (8, 512, 128), (1, 64, 16)]
)
def test_heads_decide(kv_heads: int, request_mib: int, token_kib: int) -> None:
    size = logical_size(uniform(kv_heads), 4096)
    assert size.logical_bytes == request_mib * MIB
    assert size.slope_bytes_per_token == token_kib * 1024
    assert size.intercept_bytes == 0


def test_eight_requests_and_twice_the_length() -> None:
    assert 8 * logical_bytes(uniform(8), 4096) == 4 << 30
    assert logical_bytes(uniform(8), 8192) == 1_073_741_824


#: One sequence of 8,192 tokens in bf16: what must be resident.
RIGHT_AT_8192 = {
    "Meta-Llama-3-8B": 1_073_741_824,
    "Qwen3-32B": 2_147_483_648,
    "gemma-3-27b-it": 1_107_296_256,
    "gemma-3-1b-it": 45_088_768,
    "DeepSeek-V3": 575_668_224,
    "gpt-oss-20b": 204_472_320,
    "Qwen3-Next-80B-A3B": 278_593_536,
    "Mistral-7B-v0.1": 536_870_912,
}


@pytest.mark.parametrize("name", RIGHT_AT_8192)
def test_published_models(name: str) -> None:
    assert logical_bytes(load_model(name), 8192) == RIGHT_AT_8192[name]


def test_gemma_4_26b_a4b() -> None:
    """5 global layers of 2 heads × 512, 25 local ones of 8 × 256 within 1,024 tokens."""
    wide = FullLayer(kv_heads=2, head_dim_k=512, head_dim_v=512)
    local = SlidingLayer(kv_heads=8, head_dim_k=256, head_dim_v=256, window=1024)
    model = ModelSpec(name="gemma-4", layers=(local,) * 25 + (wide,) * 5)
    assert logical_bytes(model, 8192) == 377_487_360


@pytest.mark.parametrize(("tp", "gib"), [(1, 1.0), (2, 0.5), (4, 0.25), (8, 0.125), (16, 0.125)])
def test_tensor_parallel_keeps_one_head_per_rank(tp: int, gib: float) -> None:
    assert logical_bytes(load_model("Llama-3.1-8B"), 8192, tp=tp) == int(gib * (1 << 30))


@pytest.mark.parametrize("tp", [1, 2, 4, 8, 16])
def test_latent_caches_are_replicated(tp: int) -> None:
    assert logical_size(load_model("DeepSeek-V3"), 1, tp=tp).slope_bytes_per_token == 70_272


def test_indexer_adds_132_bytes_per_layer() -> None:
    size = logical_size(load_model("DeepSeek-V3.2"), 100, tp=8)
    assert size.slope_bytes_per_token == 61 * (2 * (512 + 64) + 132) == 78_324
    packed = logical_size(load_model("DeepSeek-V3.2"), 100, kv_dtype="fp8_ds_mla")
    assert packed.slope_bytes_per_token == 61 * (656 + 132) == 48_068


def test_window_turns_slope_into_intercept() -> None:
    layer = SlidingLayer(kv_heads=1, head_dim_k=64, head_dim_v=64, window=100)
    model = ModelSpec(name="w", layers=(layer,))
    assert logical_size(model, 99).slope_bytes_per_token == 256
    at_window = logical_size(model, 100)
    assert (at_window.slope_bytes_per_token, at_window.intercept_bytes) == (0, 25_600)
    assert logical_bytes(model, 10_000) == 25_600


def test_chunk_bounds_like_a_window() -> None:
    layer = ChunkedLayer(kv_heads=2, head_dim_k=128, head_dim_v=128, chunk=8192)
    assert logical_bytes(ModelSpec(name="c", layers=(layer,)), 100_000) == 8192 * 1024


def test_values_may_be_narrower_than_keys() -> None:
    layer = FullLayer(kv_heads=4, head_dim_k=192, head_dim_v=128)
    assert logical_bytes(ModelSpec(name="kv", layers=(layer,)), 10) == 10 * 4 * (192 + 128) * 2


def test_compressed_latent_counts_whole_entries() -> None:
    layer = MlaLayer(latent_dim=448, rope_dim=64, compress=4)
    model = ModelSpec(name="v4", layers=(layer,))
    assert [logical_bytes(model, t) for t in (3, 4, 7, 8)] == [0, 1024, 1024, 2048]
    assert logical_size(model, 8).slope_bytes_per_token == 256


def test_state_cross_shared_and_none() -> None:
    conv = StateTensor(name="conv", shape=(3, 8192), dtype="auto", tp_dim=1)
    ssm = StateTensor(name="ssm", shape=(32, 128, 128), dtype="fp32", tp_dim=0)
    layers = (
        StateLayer(tensors=(conv, ssm)),
        CrossLayer(kv_heads=20, head_dim_k=64, head_dim_v=64, encoder_tokens=1500),
        SharedLayer(source=0),
        NoneLayer(),
    )
    model = ModelSpec(name="mixed", layers=layers)
    fixed = 3 * 8192 * 2 + 32 * 128 * 128 * 4 + 1500 * 2 * 20 * 64 * 2
    for tokens in (1, 5000):
        size = logical_size(model, tokens)
        assert (size.slope_bytes_per_token, size.intercept_bytes) == (0, fixed)


def test_state_groups_stay_whole_under_tensor_parallelism() -> None:
    shared = StateTensor(name="conv", shape=(3, 2 * 1 * 128), dtype="bf16", tp_dim=1, tp_units=1)
    model = ModelSpec(name="one group", layers=(StateLayer(tensors=(shared,)),))
    assert logical_bytes(model, 1, tp=8) == 3 * 256 * 2


def test_indexer_layer_ignores_the_cache_dtype() -> None:
    model = ModelSpec(name="i", layers=(IndexerLayer(bytes_per_token=132),))
    assert logical_bytes(model, 10, kv_dtype="fp8", tp=4) == 1320


def test_pipeline_stages_take_the_fullest() -> None:
    assert logical_bytes(uniform(8), 4096, pp=2) == 256 * MIB
    assert [len(stage) for stage in pipeline_owners(uniform(8), 3)] == [11, 11, 10]
    assert logical_bytes(uniform(8), 4096, pp=3) == 176 * MIB


def test_pipeline_splits_like_the_engine() -> None:
    """30 layers over 4 stages: the remainder goes to the stages before the last."""
    sizes = [len(stage) for stage in pipeline_owners(uniform(8, layers=30), 4)]
    assert sizes == [7, 8, 8, 7]


def test_too_many_stages_are_refused() -> None:
    with pytest.raises(ModelError, match="33 pipeline stages for 32 decoder layers"):
        logical_bytes(uniform(8), 1, pp=33)


@pytest.mark.parametrize(
    ("name", "elements", "expected"),
    [
        ("fp32", 128, 512),
        ("bf16", 128, 256),
        ("fp8", 128, 128),
        ("fp8_per_token_head", 128, 132),
        ("int8", 128, 132),
        ("int4", 128, 72),
        ("nvfp4", 128, 72),
        ("q8_0", 64, 68),
        ("q4_0", 64, 36),
        ("q5_1", 64, 48),
        ("q4_1", 64, 40),
    ],
)
def test_bytes_of_a_head_vector(name: str, elements: int, expected: int) -> None:
    assert kv_dtype(name).bytes_for(elements) == expected
    assert kv_dtype(name).bytes_for(elements, vectors=3) == 3 * expected


def test_every_dtype_says_how_it_scales() -> None:
    for dtype in KV_DTYPES.values():
        assert dtype.scale or dtype.bits in (16, 32)


def test_unknown_dtype_is_named() -> None:
    with pytest.raises(ModelError, match="no KV cache dtype 'fp9'; did you mean 'fp8'"):
        logical_bytes(uniform(8), 1, kv_dtype="fp9")


def test_heads_on_rank() -> None:
    assert [heads_on_rank(8, tp) for tp in (1, 2, 8, 16)] == [8, 4, 1, 1]


def test_weight_quantization_never_reaches_the_cache() -> None:
    from kvbench.model.hf import spec_from_config

    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "gptq", "bits": 4},
    }
    assert logical_size(spec_from_config(config, name="q"), 1).slope_bytes_per_token == 131_072
