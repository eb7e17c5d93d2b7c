"""Interpreted cache writes, block copies, ceilings, and offsets beyond 2**31 elements."""

from __future__ import annotations

import math

import pytest
import torch

from kvbench_triton.attention import copy_on_write, paged_decode, prepare_step, write_rows
from kvbench_triton.cache import TORCH_DTYPES, PagedCache
from kvbench_triton.ceilings import copy_launch, read_launch
from kvbench_triton.config import CPU, pick_config
from kvbench_triton.plan import plan_work
from kvbench_triton.reference import reference_decode
from kvbench_triton.shape import DecodeShape


@pytest.mark.parametrize("kv_dtype", TORCH_DTYPES)
def test_write_fills_exactly_its_slots(kv_dtype):
    pool = torch.zeros(4, 16, 2, 48, dtype=torch.float32).to(TORCH_DTYPES[kv_dtype])
    rows = torch.randn(3, 2, 48).to(TORCH_DTYPES[kv_dtype])
    write_rows(pool, rows, torch.tensor([37, -1, 5]))
    expected = torch.zeros(4, 16, 2, 48)
    expected[2, 5], expected[0, 5] = rows[0].float(), rows[2].float()
    assert torch.equal(pool.float(), expected)


def test_copy_on_write_moves_whole_blocks():
    pool = torch.randn(6, 16, 2, 80)
    before = pool.clone()
    copy_on_write(pool, [(0, 5), (0, 3), (2, 4)])
    assert torch.equal(pool, before[[0, 1, 2, 0, 2, 0]])


@pytest.mark.parametrize("pairs", [[(0, 1), (1, 2)], [(0, 2), (1, 2)]])
def test_copies_that_depend_on_their_order_are_refused(pairs):
    with pytest.raises(ValueError, match="depend on their order"):
        copy_on_write(torch.zeros(3, 16, 1, 4), pairs)


def test_ceiling_kernels_move_every_word():
    source = torch.arange(5000, dtype=torch.int32)
    destination = torch.full_like(source, -1)
    copy_launch(destination, source)()
    read_launch(source)()
    assert torch.equal(destination, source)


def test_block_offsets_beyond_int32():
    """A lazily mapped pool of 2.3e9 elements of which two blocks are touched."""
    shape = DecodeShape(
        query_heads=2,
        kv_heads=1,
        head_dim_k=64,
        head_dim_v=64,
        page_size=16,
        kv_dtype="fp16",
        query_dtype="fp32",
    )
    block_elements = 16 * 128
    blocks = math.ceil(2.3e9 / block_elements)
    pool = torch.empty(blocks, 16, 1, 128, dtype=torch.float16)
    cache = PagedCache(shape=shape, pool=pool, scales=torch.empty(0))
    tables = torch.zeros(1, 16, dtype=torch.int32)
    tables[0, :2] = torch.tensor([blocks - 1, blocks - 2])
    assert (blocks - 2) * block_elements > 2**31
    slots = torch.cat([(blocks - 1) * 16 + torch.arange(16), (blocks - 2) * 16 + torch.arange(4)])
    write_rows(pool, torch.randn(20, 1, 128).half(), slots)
    query = torch.randn(1, 2, 64)
    config = pick_config(shape, CPU)
    plan = plan_work([20], shape, config, CPU)
    out = torch.full((1, 2, 64), float("nan"))
    paged_decode(prepare_step(shape, config, CPU, plan, "cpu"), query, cache, tables, out)
    expected = reference_decode(query, cache, tables, [20])
    assert (out - expected).abs().max() <= 1e-6 * expected.abs().max()


def test_strides_that_cost_wide_loads_are_refused():
    shape = DecodeShape(
        query_heads=2, kv_heads=1, head_dim_k=64, head_dim_v=64, page_size=16, kv_dtype="fp16"
    )
    pool = torch.zeros(2, 16, 1, 136, dtype=torch.float16)[..., :128]
    config = pick_config(shape, CPU)
    step = prepare_step(shape, config, CPU, plan_work([20], shape, config, CPU), "cpu")
    cache = PagedCache(shape=shape, pool=pool, scales=torch.empty(0))
    tables = torch.zeros(1, 16, dtype=torch.int32)
    with pytest.raises(ValueError, match="multiples of 16"):
        paged_decode(step, torch.zeros(1, 2, 64), cache, tables, torch.zeros(1, 2, 64))
