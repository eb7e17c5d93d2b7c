"""Split-KV paged decode for MHA, GQA and MQA.

One program takes one *work item*, a span of one sequence's tokens, and one KV head. The query
heads that share the KV head are the rows of one matrix (padded to BLOCK_H), so K and V are read
once for all of them. The span is walked in tiles of BLOCK_N tokens with an online softmax; page
ids of the next tile are fetched while this tile is computed, so that the loads of K and V never
wait for the block table. Where the span ends is the plan's business (``plan.py``): a sliding
window is nothing but a first token greater than 0.

Offsets of pages are 64-bit; K and V share one offset, since their views have equal strides.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kvbench_triton.kernels.softmax import online_softmax, page_ids, tanh
from kvbench_triton.kernels.unpack import unpack_pairs


@triton.jit
def decode_split(
    out,
    partial,
    partial_lse,
    query,
    keys,
    values,
    scales,
    tables,
    work,
    sinks,
    score_scale,
    cap_scale,
    query_stride_seq,
    query_stride_head,
    table_stride,
    kv_stride_block,
    kv_stride_slot,
    kv_stride_head,
    scale_stride_block,
    scale_stride_slot,
    GROUP: tl.constexpr,
    BLOCK_H: tl.constexpr,
    DIM_K: tl.constexpr,
    DIM_V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    KIND: tl.constexpr,
    UNPACK: tl.constexpr,
    FP8_GAIN: tl.constexpr,
    DOT: tl.constexpr,
    SOFTCAP: tl.constexpr,
    SINKS: tl.constexpr,
    ALIGNED: tl.constexpr,
    SPLIT: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Attend one query token of each work item's sequence to the item's tokens.

    Args:
        out: [sequences, query heads, DIM_V], written when not SPLIT.
        partial: [items, query heads, DIM_V] float32, written when SPLIT.
        partial_lse: [items, query heads] float32, base-2 log-sum-exp of each partial.
        query: [sequences, query heads, DIM_K]; innermost stride 1.
        keys: [blocks, PAGE, kv heads, DIM_K] (KIND 0), or the same as uint16 pairs.
        values: As ``keys`` with DIM_V and equal strides.
        scales: KIND 1: [kv heads, 2] float32. KIND 2: [blocks, PAGE, kv heads, 2] float32.
        tables: [sequences, table_stride] int32 block ids.
        work: [items, 4] int32: sequence, first token, end token, partial row.
        sinks: [query heads] float32 logits that join the softmax without a value (SINKS).
        score_scale: Softmax scale times log2(e), or divided by the cap (SOFTCAP).
        cap_scale: Cap times log2(e) (SOFTCAP).
        query_stride_seq: Elements.
        query_stride_head: Elements.
        table_stride: Elements.
        kv_stride_block: Elements as stored (pairs for KIND 1 and 2), as the next two.
        kv_stride_slot: See above.
        kv_stride_head: See above.
        scale_stride_block: Elements (KIND 2).
        scale_stride_slot: Elements (KIND 2).
        GROUP: Query heads of one KV head.
        BLOCK_H: Rows of the query matrix, a power of two, at least 16 on a GPU.
        DIM_K: Elements of a key.
        DIM_V: Elements of a value.
        BLOCK_K: DIM_K rounded up to a power of two.
        BLOCK_V: DIM_V rounded up to a power of two.
        PAGE: Tokens per block.
        BLOCK_N: Tokens per tile.
        KIND: 0 floating point, 1 fp8 e4m3, 2 int8 with a scale per token and head.
        UNPACK: How 8-bit pairs are widened (``unpack.py``).
        FP8_GAIN: Factor owed by the widening of fp8.
        DOT: Element type of the matrix operands.
        SOFTCAP: Scores become cap * tanh(score / cap).
        SINKS: ``sinks`` is given (read here only when not SPLIT).
        ALIGNED: First tokens are multiples of BLOCK_N.
        SPLIT: Some sequence has more than one item, so partials are combined afterwards.
        STAGES: Pipeline depth of the loop.
    """
    item = tl.program_id(0)
    head_blocks: tl.constexpr = (GROUP + BLOCK_H - 1) // BLOCK_H
    kv_head = tl.program_id(1) // head_blocks
    width: tl.constexpr = 1 if KIND == 0 else 2

    sequence = tl.load(work + 4 * item).to(tl.int64)
    first = tl.load(work + 4 * item + 1)
    end = tl.load(work + 4 * item + 2)
    partial_row = tl.load(work + 4 * item + 3).to(tl.int64)

    in_group = (tl.program_id(1) % head_blocks) * BLOCK_H + tl.arange(0, BLOCK_H)
    heads = kv_head * GROUP + in_group
    head_ok = in_group < GROUP
    column_k = tl.arange(0, BLOCK_K // width)
    column_v = tl.arange(0, BLOCK_V // width)
    k_ok = column_k < DIM_K // width
    v_ok = column_v < DIM_V // width

    query += sequence * query_stride_seq + heads[:, None] * query_stride_head
    query += width * column_k[None, :]
    query_mask = head_ok[:, None] & k_ok[None, :]
    query_even = tl.load(query, mask=query_mask, other=0.0).to(DOT)
    if KIND != 0:
        query_odd = tl.load(query + 1, mask=query_mask, other=0.0).to(DOT)
    if KIND == 1:
        score_scale *= FP8_GAIN * tl.load(scales + 2 * kv_head)

    table = tables + sequence * table_stride
    keys += kv_head * kv_stride_head + column_k[None, :]
    values += kv_head * kv_stride_head + column_v[None, :]
    peak = tl.full([BLOCK_H], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    even = tl.zeros([BLOCK_H, BLOCK_V // width], tl.float32)
    odd = tl.zeros([BLOCK_H, BLOCK_V // width], tl.float32)

    begin = first
    if not ALIGNED:
        begin = first - first % BLOCK_N
    pages = page_ids(table, begin, end, PAGE, BLOCK_N)
    for start in tl.range(begin, end, BLOCK_N, num_stages=STAGES):
        tokens = start + tl.arange(0, BLOCK_N)
        valid = tokens < end
        if not ALIGNED:
            valid = valid & (tokens >= first)
        slots = (tokens.to(tl.uint32) % PAGE).to(tl.int32)
        rows = (pages * kv_stride_block + slots * kv_stride_slot)[:, None]
        k = tl.load(keys + rows, mask=valid[:, None] & k_ok[None, :], other=0)
        v = tl.load(values + rows, mask=valid[:, None] & v_ok[None, :], other=0)
        k_scale = tl.full([BLOCK_N], 1.0, tl.float32)
        if KIND == 2:
            scale_at = scales + pages * scale_stride_block + slots * scale_stride_slot + 2 * kv_head
            k_scale = tl.load(scale_at, mask=valid, other=0.0)
            v_scale = tl.load(scale_at + 1, mask=valid, other=0.0)
        pages = page_ids(table, start + BLOCK_N, end, PAGE, BLOCK_N)

        if KIND == 0:
            scores = tl.dot(query_even, tl.trans(k.to(DOT)), input_precision="ieee")
        else:
            k_even, k_odd = unpack_pairs(k, KIND, UNPACK)
            scores = tl.dot(query_even, tl.trans(k_even.to(DOT)), input_precision="ieee")
            scores = tl.dot(query_odd, tl.trans(k_odd.to(DOT)), scores, input_precision="ieee")
        # Masked keys are loaded as zeros, so adding -inf masks them, in the scale's own FMA.
        bias = tl.where(valid, 0.0, float("-inf"))[None, :]
        if SOFTCAP:
            scores = tanh(scores * (k_scale * score_scale)[None, :]) * cap_scale + bias
        else:
            scores = scores * (k_scale * score_scale)[None, :] + bias
        weights, shrink, peak, total = online_softmax(scores, peak, total)
        if KIND == 2:
            weights *= v_scale[None, :]
        weights = weights.to(DOT)
        if KIND == 0:
            even = tl.dot(weights, v.to(DOT), even * shrink[:, None], input_precision="ieee")
        else:
            v_even, v_odd = unpack_pairs(v, KIND, UNPACK)
            even = tl.dot(weights, v_even.to(DOT), even * shrink[:, None], input_precision="ieee")
            odd = tl.dot(weights, v_odd.to(DOT), odd * shrink[:, None], input_precision="ieee")

    gain = 1.0
    if KIND == 1:
        gain = FP8_GAIN * tl.load(scales + 2 * kv_head + 1)
    lse = peak + tl.log2(total)
    if SINKS and not SPLIT:
        sink = tl.load(sinks + heads, mask=head_ok, other=0.0) * 1.4426950408889634
        total += tl.exp2(sink - peak)
    share = gain / total
    query_heads = tl.num_programs(1) // head_blocks * GROUP
    row = tl.where(SPLIT, partial_row, sequence) * query_heads + heads
    target = row[:, None] * DIM_V + width * column_v[None, :]
    mask = head_ok[:, None] & v_ok[None, :]
    if SPLIT:
        tl.store(partial_lse + row, lse, mask=head_ok)
        tl.store(partial + target, even * share[:, None], mask=mask)
        if KIND != 0:
            tl.store(partial + target + 1, odd * share[:, None], mask=mask)
    else:
        tl.store(out + target, (even * share[:, None]).to(out.dtype.element_ty), mask=mask)
        if KIND != 0:
            tl.store(out + target + 1, (odd * share[:, None]).to(out.dtype.element_ty), mask=mask)
