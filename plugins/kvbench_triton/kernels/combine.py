"""Combine the partial results of one sequence's work items."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def combine_partials(
    out,
    partial,
    partial_lse,
    item_offsets,
    sinks,
    HEADS: tl.constexpr,
    DIM_V: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_S: tl.constexpr,
    SINKS: tl.constexpr,
):
    """Weigh each partial by its share of the softmax; one program per (sequence, query head).

    A sequence without items (no tokens) gets zeros.

    Args:
        out: [sequences, HEADS, DIM_V].
        partial: [items, HEADS, DIM_V] float32.
        partial_lse: [items, HEADS] float32, base 2.
        item_offsets: [sequences + 1] int32: items of sequence i are offsets[i] … offsets[i+1].
        sinks: [HEADS] float32 logits that join the softmax without a value (SINKS).
        HEADS: Query heads.
        DIM_V: Elements of a value.
        BLOCK_V: DIM_V rounded up to a power of two.
        BLOCK_S: Partials read at once.
        SINKS: ``sinks`` is given.
    """
    sequence = tl.program_id(0)
    head = tl.program_id(1)
    first = tl.load(item_offsets + sequence)
    end = tl.load(item_offsets + sequence + 1)
    column = tl.arange(0, BLOCK_V)
    column_ok = column < DIM_V

    peak = float("-inf")
    if SINKS:
        peak = tl.load(sinks + head) * 1.4426950408889634
    for start in range(first, end, BLOCK_S):
        items = start + tl.arange(0, BLOCK_S)
        lse = tl.load(partial_lse + items * HEADS + head, mask=items < end, other=float("-inf"))
        peak = tl.maximum(peak, tl.max(lse, 0))

    total = 0.0
    if SINKS:
        total += tl.exp2(tl.load(sinks + head) * 1.4426950408889634 - peak)
    summed = tl.zeros([BLOCK_V], tl.float32)
    for start in range(first, end, BLOCK_S):
        items = start + tl.arange(0, BLOCK_S)
        item_ok = items < end
        lse = tl.load(partial_lse + items * HEADS + head, mask=item_ok, other=float("-inf"))
        weights = tl.exp2(lse - peak)
        rows = (items.to(tl.int64) * HEADS + head)[:, None] * DIM_V + column[None, :]
        values = tl.load(partial + rows, mask=item_ok[:, None] & column_ok[None, :], other=0.0)
        summed += tl.sum(values * weights[:, None], 0)
        total += tl.sum(weights, 0)

    result = summed / tl.where(first < end, total, 1.0)
    target = out + (sequence.to(tl.int64) * HEADS + head) * DIM_V + column
    tl.store(target, result.to(out.dtype.element_ty), mask=column_ok)
