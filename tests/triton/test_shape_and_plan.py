"""Shapes, configurations, work items and predicted bytes: all without torch."""

from __future__ import annotations

import heapq
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvbench.errors import EngineUnavailable, ModelError
from kvbench.layout import LayoutOptions, PagedLayout
from kvbench.model.spec import FullLayer, MlaLayer, ModelSpec, SlidingLayer
from kvbench_triton.config import CPU, TABLE, Target, nvidia_family, pick_config
from kvbench_triton.plan import MIN_SPAN_TILES, choose_span, plan_work, programs_per_item
from kvbench_triton.predict import predict_traffic
from kvbench_triton.shape import DecodeShape, check, layer_shape

H100 = Target(family="sm_90", multiprocessors=132, native_fp8=True)
LLAMA = DecodeShape(
    query_heads=32, kv_heads=8, head_dim_k=128, head_dim_v=128, page_size=16, kv_dtype="bf16"
)
SETTINGS = {
    "kv_dtype": "auto",
    "block_size": 16,
    "layer": "auto",
    "softcap": 0.0,
    "sinks": False,
}


def test_bytes_of_a_token():
    # 8 heads x (128 + 128) x 2 bytes; one byte each for fp8; plus two float32 scales for int8.
    assert LLAMA.token_bytes == 4096
    assert replace(LLAMA, kv_dtype="fp8_e4m3").token_bytes == 2048
    assert replace(LLAMA, kv_dtype="int8").token_bytes == 2048 + 8 * 8
    assert LLAMA.block_bytes == 65536


@pytest.mark.parametrize("kv_dtype", ["bf16", "fp8_e4m3", "int8"])
def test_block_bytes_are_those_of_the_plain_layout(kv_dtype):
    layer = FullLayer(kv_heads=8, head_dim_k=128, head_dim_v=128)
    model = ModelSpec(name="one", layers=(layer,), query_heads=32)
    arranged = PagedLayout().arrange(model, LayoutOptions(block_size=16, kv_dtype=kv_dtype))
    assert replace(LLAMA, kv_dtype=kv_dtype).block_bytes == arranged.bytes_per_block


@pytest.mark.parametrize(
    ("change", "named", "remedy"),
    [
        ({"head_dim_k": 80}, "head dim 80", "64, 96, 128, 192, 256"),
        ({"page_size": 24}, "block_size 24", "16, 32, 64, 128, 256"),
        ({"kv_dtype": "int4"}, "kv_dtype 'int4'", "fp8_e4m3"),
        ({"query_heads": 30}, "30 query heads over 8 KV heads", "multiple"),
        ({"rope_dim": 48}, "MLA latent 128 + rope 48", "256, 512"),
    ],
)
def test_unsupported_shapes_say_what_would_be_right(change, named, remedy):
    with pytest.raises(EngineUnavailable) as refused:
        check(replace(LLAMA, **change))
    assert named in refused.value.reason
    assert remedy in refused.value.remedy


def test_layer_of_a_model():
    layers = (
        SlidingLayer(kv_heads=4, head_dim_k=64, head_dim_v=64, window=128),
        FullLayer(kv_heads=8, head_dim_k=128, head_dim_v=128),
        MlaLayer(latent_dim=512, rope_dim=64),
    )
    model = ModelSpec(name="mixed", layers=layers, query_heads=16)
    assert layer_shape(model, SETTINGS).window == 128
    assert layer_shape(model, SETTINGS | {"layer": "full"}).head_dim_k == 128
    latent = layer_shape(model, SETTINGS | {"layer": "mla"})
    assert (latent.head_dim_k, latent.head_dim_v, latent.token_bytes) == (576, 512, 1152)
    with pytest.raises(ModelError, match="query_heads"):
        layer_shape(replace(model, query_heads=0), SETTINGS)
    with pytest.raises(ModelError, match="no layer of kind 'mla'"):
        layer_shape(replace(model, layers=layers[:2]), SETTINGS | {"layer": "mla"})


def test_every_target_has_a_configuration_for_every_width():
    for family in ("sm_80", "sm_90", "sm_100", "gfx942"):
        for kv_dtype in ("bf16", "fp16", "fp8_e4m3", "int8"):
            for dim in (64, 96, 128, 192, 256):
                shape = replace(LLAMA, kv_dtype=kv_dtype, head_dim_k=dim, head_dim_v=dim)
                config = pick_config(shape, Target(family=family, multiprocessors=100))
                assert config in TABLE.values()


def test_block_of_heads_follows_the_group():
    assert pick_config(LLAMA, H100).block_h == 16
    assert pick_config(replace(LLAMA, query_heads=8 * 20), H100).block_h == 32
    assert programs_per_item(replace(LLAMA, query_heads=8 * 40), pick_config(LLAMA, H100)) == 24


def test_unknown_targets_and_old_devices_are_refused():
    with pytest.raises(EngineUnavailable, match="no kernel configuration for gfx90a"):
        pick_config(LLAMA, Target(family="gfx90a", multiprocessors=104))
    with pytest.raises(EngineUnavailable, match=r"7\.5 is too old .* fp8"):
        nvidia_family(7, 5)
    assert [nvidia_family(*c) for c in ((8, 0), (8, 9), (9, 0), (10, 0), (12, 0))] == [
        "sm_80",
        "sm_80",
        "sm_90",
        "sm_100",
        "sm_100",
    ]


@given(
    lengths=st.lists(st.integers(0, 3000), min_size=1, max_size=8),
    window=st.sampled_from([0, 1, 16, 100, 1000]),
    span=st.none() | st.integers(1, 40),
)
def test_items_cover_every_visible_token_once(lengths, window, span):
    shape = replace(LLAMA, window=window)
    plan = plan_work(lengths, shape, pick_config(shape, H100), H100, span_tiles=span)
    for sequence, length in enumerate(lengths):
        mine = sorted((i.first, i.end) for i in plan.items if i.sequence == sequence)
        tokens = [token for first, end in mine for token in range(first, end)]
        assert tokens == list(range(length - shape.visible(length), length))
        rows = sorted(i.row for i in plan.items if i.sequence == sequence)
        assert rows == list(range(plan.row_offsets[sequence], plan.row_offsets[sequence + 1]))
    assert plan.split or all(plan.row_offsets[i + 1] == i + 1 for i in range(len(lengths)))


def test_one_long_sequence_fills_the_device_and_many_are_left_whole():
    config = pick_config(LLAMA, H100)
    one = plan_work([65536], LLAMA, config, H100)
    assert len(one.items) * LLAMA.kv_heads >= H100.multiprocessors
    assert one.span_tiles >= MIN_SPAN_TILES
    many = plan_work([512] * 256, LLAMA, config, H100)
    assert not many.split


def test_chosen_span_ends_earliest_of_all_whole_numbers_of_parts():
    config = pick_config(LLAMA, H100)

    def end(span: int) -> int:
        ends = [0] * (H100.multiprocessors * config.programs_per_unit)
        costs = [min(span, 128 - done) + 1 for done in range(0, 128, span) for _ in range(8 * 4)]
        for cost in sorted(costs, reverse=True):
            heapq.heapreplace(ends, ends[0] + cost)
        return max(ends) + (span < 128)

    chosen = choose_span([128] * 4, 8, config, H100)
    assert end(chosen) == min(end(-(-128 // parts)) for parts in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32))


def test_traffic_of_a_step():
    config = pick_config(LLAMA, CPU)
    whole = plan_work([100, 50], LLAMA, config, CPU, span_tiles=1000)
    traffic = predict_traffic(LLAMA, [100, 50], whole)
    assert traffic.kv_bytes == 150 * 4096
    assert traffic.query_bytes == traffic.output_bytes == 2 * 32 * 128 * 2
    assert traffic.table_bytes == 4 * (7 + 4)
    assert traffic.partial_bytes == 0
    assert traffic.flops == 2 * 150 * 32 * 256
    assert traffic.floor_s(1e9) == traffic.moved_bytes / 1e9
    assert traffic.floor_s(1e30, 1e6) == traffic.flops / 1e6


def test_partials_are_counted_written_and_read():
    config = pick_config(LLAMA, CPU)
    split = plan_work([64, 32], LLAMA, config, CPU, span_tiles=1)
    assert len(split.items) == 3
    assert predict_traffic(LLAMA, [64, 32], split).partial_bytes == 2 * 3 * 32 * 129 * 4


def test_window_limits_what_is_read():
    shape = replace(LLAMA, window=40)
    plan = plan_work([100], shape, pick_config(shape, CPU), CPU)
    traffic = predict_traffic(shape, [100], plan)
    assert traffic.kv_bytes == 40 * 4096
    assert traffic.table_bytes == 4 * 4  # tokens 60 to 99 lie in pages 3 to 6
