"""Split-KV paged decode for multi-head latent attention, weights absorbed.

The cache holds one row for each token: the latent, which is key *and* value, and the rotary part,
which is key only. A tile of latents is read once, used for the scores, and used again as values.
All query heads share the row, so as many of them as registers allow form one matrix (BLOCK_H);
programs of the other heads find the row in L2.
"""

from __future__ import annotations

import triton
import triton.language as tl

from kvbench_triton.kernels.softmax import online_softmax, page_ids


@triton.jit
def mla_split(
    out,
    partial,
    partial_lse,
    query,
    cache,
    tables,
    work,
    score_scale,
    query_stride_seq,
    query_stride_head,
    table_stride,
    kv_stride_block,
    kv_stride_slot,
    HEADS: tl.constexpr,
    BLOCK_H: tl.constexpr,
    LATENT: tl.constexpr,
    ROPE: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    DOT: tl.constexpr,
    ALIGNED: tl.constexpr,
    SPLIT: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Attend one query token of each work item's sequence to the item's tokens.

    Args:
        out: [sequences, HEADS, LATENT], written when not SPLIT.
        partial: [items, HEADS, LATENT] float32, written when SPLIT.
        partial_lse: [items, HEADS] float32, base-2 log-sum-exp of each partial.
        query: [sequences, HEADS, LATENT + ROPE]; innermost stride 1.
        cache: [blocks, PAGE, LATENT + ROPE]; innermost stride 1.
        tables: [sequences, table_stride] int32 block ids.
        work: [items, 4] int32: sequence, first token, end token, partial row.
        score_scale: Softmax scale times log2(e).
        query_stride_seq: Elements.
        query_stride_head: Elements.
        table_stride: Elements.
        kv_stride_block: Elements.
        kv_stride_slot: Elements.
        HEADS: Query heads.
        BLOCK_H: Query heads of one program.
        LATENT: Elements of the latent, a power of two.
        ROPE: Elements of the rotary part, a power of two.
        PAGE: Tokens per block.
        BLOCK_N: Tokens per tile.
        DOT: Element type of the matrix operands.
        ALIGNED: First tokens are multiples of BLOCK_N.
        SPLIT: Some sequence has more than one item, so partials are combined afterwards.
        STAGES: Pipeline depth of the loop.
    """
    item = tl.program_id(0)
    sequence = tl.load(work + 4 * item).to(tl.int64)
    first = tl.load(work + 4 * item + 1)
    end = tl.load(work + 4 * item + 2)
    partial_row = tl.load(work + 4 * item + 3).to(tl.int64)

    heads = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    head_ok = heads < HEADS
    column = tl.arange(0, LATENT)
    column_rope = LATENT + tl.arange(0, ROPE)
    query += sequence * query_stride_seq + heads[:, None] * query_stride_head
    latent_query = tl.load(query + column[None, :], mask=head_ok[:, None], other=0.0).to(DOT)
    rope_query = tl.load(query + column_rope[None, :], mask=head_ok[:, None], other=0.0).to(DOT)

    table = tables + sequence * table_stride
    peak = tl.full([BLOCK_H], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_H], tl.float32)
    summed = tl.zeros([BLOCK_H, LATENT], tl.float32)

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
        rows = cache + (pages * kv_stride_block + slots * kv_stride_slot)[:, None]
        latent = tl.load(rows + column[None, :], mask=valid[:, None], other=0.0).to(DOT)
        rope = tl.load(rows + column_rope[None, :], mask=valid[:, None], other=0.0).to(DOT)
        pages = page_ids(table, start + BLOCK_N, end, PAGE, BLOCK_N)

        scores = tl.dot(latent_query, tl.trans(latent), input_precision="ieee")
        scores = tl.dot(rope_query, tl.trans(rope), scores, input_precision="ieee")
        scores = tl.where(valid[None, :], scores * score_scale, float("-inf"))
        weights, shrink, peak, total = online_softmax(scores, peak, total)
        summed = tl.dot(weights.to(DOT), latent, summed * shrink[:, None], input_precision="ieee")

    row = tl.where(SPLIT, partial_row, sequence) * HEADS + heads
    target = row[:, None] * LATENT + column[None, :]
    result = summed / total[:, None]
    if SPLIT:
        tl.store(partial_lse + row, peak + tl.log2(total), mask=head_ok)
        tl.store(partial + target, result, mask=head_ok[:, None])
    else:
        tl.store(out + target, result.to(out.dtype.element_ty), mask=head_ok[:, None])
