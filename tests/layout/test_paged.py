"""The plain ``paged`` layout by hand, and what must hold for any layout."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvbench.errors import ModelError
from kvbench.layout import LayoutOptions, PagedLayout
from kvbench.model.catalog import catalog_names
from kvbench.model.load import load_model
from kvbench.model.sizing import size_at
from kvbench.model.spec import FullLayer, ModelSpec, SlidingLayer
from kvbench_vllm.layout import VllmLayout

MIB = 1 << 20


def gqa8() -> ModelSpec:
    layer = FullLayer(kv_heads=8, head_dim_k=128, head_dim_v=128)
    return ModelSpec(name="gqa8", layers=(layer,) * 32, query_heads=32)


def test_4100_tokens_in_blocks_of_16() -> None:
    pool = PagedLayout().arrange(gqa8(), LayoutOptions(block_size=16))
    assert pool.resident_blocks(4100) == (257,)
    assert pool.paged_bytes(4100) == 514 * MIB
    logical = size_at(pool.costs, 4100).logical_bytes
    assert logical == int(512.5 * MIB)
    assert 1 - logical / pool.paged_bytes(4100) == pytest.approx(12 / 4112)


def test_8_gib_hold_16_requests_and_15_with_128_new_tokens() -> None:
    pool = PagedLayout().arrange(gqa8(), LayoutOptions())
    blocks = pool.num_blocks(8 << 30)
    assert int(pool.max_concurrency(blocks, 4096)) == 16
    assert int(pool.max_concurrency(blocks, 4096 + 128)) == 15
    assert pool.paged_bytes(4096 + 128) == 528 * MIB


def test_capacity_fills_whole_blocks() -> None:
    pool = PagedLayout().arrange(gqa8(), LayoutOptions())
    assert pool.capacity_tokens(257) == 257 * 16
    assert pool.capacity_tokens(0) == 0


def test_a_window_may_touch_one_block_more() -> None:
    layer = SlidingLayer(kv_heads=1, head_dim_k=64, head_dim_v=64, window=16)
    pool = PagedLayout().arrange(ModelSpec(name="w", layers=(layer,)), LayoutOptions(block_size=16))
    assert [pool.resident_blocks(t)[0] for t in (1, 16, 17, 1000)] == [1, 1, 2, 2]


def test_groups_by_kind_of_cache() -> None:
    pool = PagedLayout().arrange(load_model("gemma-3-27b-it"), LayoutOptions())
    assert [(g.kind, g.layers, g.window_tokens) for g in pool.groups] == [
        ("sliding", 52, 1024),
        ("full", 10, None),
    ]
    assert pool.bytes_per_block == 62 * 16 * 8192


def test_no_budget_is_no_crash() -> None:
    pool = PagedLayout().arrange(gqa8(), LayoutOptions())
    assert pool.num_blocks(0) == 0
    assert pool.num_blocks(-1) == 0
    assert pool.max_concurrency(0, 4096) == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (LayoutOptions(block_size=0), "block size is at least 1 token"),
        (LayoutOptions(tp=0), "tp and pp are at least 1"),
        (LayoutOptions(kv_dtype="fp5"), "no KV cache dtype 'fp5'"),
        (LayoutOptions(engine={"max_model_len": 5}), "no engine option 'max_model_len'"),
    ],
)
def test_refusals(options: LayoutOptions, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        PagedLayout().arrange(gqa8(), options)


NAMES = catalog_names()
tokens_of = st.integers(min_value=0, max_value=1 << 20)


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(NAMES), tokens=tokens_of, more=st.integers(0, 5000))
def test_plain_layout_is_monotone_and_covers_the_logical_bytes(
    name: str, tokens: int, more: int
) -> None:
    pool = PagedLayout().arrange(load_model(name), LayoutOptions())
    size, larger = size_at(pool.costs, tokens), size_at(pool.costs, tokens + more)
    assert size.logical_bytes <= larger.logical_bytes
    assert pool.paged_bytes(tokens) <= pool.paged_bytes(tokens + more)
    assert size.logical_bytes <= pool.paged_bytes(tokens) <= pool.admission_bytes(tokens)
    line = size.slope_bytes_per_token * tokens + size.intercept_bytes
    assert line == size.logical_bytes


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    tokens=st.integers(min_value=1, max_value=1 << 20),
    more=st.integers(0, 5000),
    dtype=st.sampled_from(["auto", "fp8"]),
)
def test_engine_layout_is_monotone_and_admits_what_it_holds(
    name: str, tokens: int, more: int, dtype: str
) -> None:
    try:
        pool = VllmLayout().arrange(load_model(name), LayoutOptions(kv_dtype=dtype))
    except ModelError:
        assert name == "bloom-7b1"
        return
    logical = size_at(pool.costs, tokens).logical_bytes
    assert logical <= pool.paged_bytes(tokens) <= pool.admission_bytes(tokens)
    assert pool.paged_bytes(tokens) <= pool.paged_bytes(tokens + more)
    assert pool.admission_blocks(tokens) <= pool.admission_blocks(tokens + more)
    assert pool.max_concurrency(1000, tokens) >= pool.max_concurrency(1000, tokens + more)


@settings(max_examples=60, deadline=None)
@given(
    heads=st.integers(1, 64),
    dim=st.integers(1, 512),
    layers=st.integers(1, 100),
    block=st.integers(1, 512),
    tokens=st.integers(0, 100_000),
)
def test_uniform_blocks_are_ceilings(
    heads: int, dim: int, layers: int, block: int, tokens: int
) -> None:
    layer = FullLayer(kv_heads=heads, head_dim_k=dim, head_dim_v=dim)
    model = ModelSpec(name="u", layers=(layer,) * layers)
    pool = PagedLayout().arrange(model, LayoutOptions(block_size=block))
    blocks = -(-tokens // block)
    assert pool.resident_blocks(tokens) == (blocks,)
    assert pool.paged_bytes(tokens) == blocks * block * layers * heads * dim * 4
