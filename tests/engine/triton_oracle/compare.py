"""vLLM's own unified attention kernel in the interpreter, beside ours, in fp16: prints errors.

Run by a Python that has vLLM. vLLM replaces Triton by placeholders where its platform has none, so
``vllm.triton_utils`` is replaced by Triton itself before the kernel's module is imported.
"""

# ruff: noqa: E402 - Triton and vLLM have to be told before they are imported
from __future__ import annotations

import json
import os
import sys
import types

os.environ["TRITON_INTERPRET"] = "1"

import torch
import triton
import triton.language as tl

_utils = types.ModuleType("vllm.triton_utils")
_utils.__path__ = []  # type: ignore[attr-defined]
_utils.triton, _utils.tl, _utils.HAS_TRITON = triton, tl, True  # type: ignore[attr-defined]
sys.modules["vllm.triton_utils"] = _utils

from vllm.v1.attention.ops.triton_unified_attention import unified_attention

from kvbench_triton.attention import paged_decode, prepare_step
from kvbench_triton.cache import allocate_cache, shuffled_tables, slots_of
from kvbench_triton.config import CPU, pick_config
from kvbench_triton.plan import plan_work
from kvbench_triton.reference import reference_decode
from kvbench_triton.shape import DecodeShape


def compare(lengths: list[int], window: int, softcap: float) -> dict[str, float]:
    """Relative errors of both kernels against float64, over the same paged cache."""
    shape = DecodeShape(
        query_heads=4,
        kv_heads=2,
        head_dim_k=64,
        head_dim_v=64,
        page_size=16,
        kv_dtype="fp16",
        query_dtype="fp32",
        window=window,
        softcap=softcap,
    )
    blocks = sum(-(-length // 16) for length in lengths) + 2
    tables = shuffled_tables(lengths, 16, blocks, seed=3)
    cache = allocate_cache(shape, blocks, "cpu")
    cache.pool.zero_()
    slots = slots_of(tables, lengths, 16)
    cache.pool[slots // 16, slots % 16] = torch.randn(len(slots), 2, 128).half()
    query = torch.randn(len(lengths), 4, 64).half()
    expected = reference_decode(query, cache, tables, lengths)
    tables = tables.clamp_min(0)
    config = pick_config(shape, CPU)
    plan = plan_work(lengths, shape, config, CPU, span_tiles=1)
    ours = torch.empty(len(lengths), 4, 64)
    paged_decode(prepare_step(shape, config, CPU, plan, "cpu"), query.float(), cache, tables, ours)
    theirs = torch.empty(len(lengths), 4, 64, dtype=torch.float16)
    unified_attention(
        q=query,
        k=cache.keys,
        v=cache.values,
        out=theirs,
        cu_seqlens_q=torch.arange(len(lengths) + 1, dtype=torch.int32),
        max_seqlen_q=1,
        seqused_k=torch.tensor(lengths, dtype=torch.int32),
        max_seqlen_k=max(lengths),
        softmax_scale=shape.softmax_scale,
        causal=True,
        window_size=(window - 1, 0) if window else (-1, -1),
        block_table=tables,
        softcap=softcap,
        q_descale=None,
        k_descale=torch.ones(len(lengths), 2),
        v_descale=torch.ones(len(lengths), 2),
    )
    largest = expected.abs().max()
    return {
        "ours": float((ours.double() - expected).abs().max() / largest),
        "theirs": float((theirs.double() - expected).abs().max() / largest),
        "between": float((theirs.double() - ours.double()).abs().max() / largest),
    }


if __name__ == "__main__":
    torch.manual_seed(7)
    cases = [([33, 1, 70], 0, 0.0), ([90, 17], 40, 0.0), ([50], 0, 20.0)]
    print(json.dumps([compare(*case) for case in cases]))
