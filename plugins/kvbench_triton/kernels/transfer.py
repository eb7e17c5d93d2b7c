"""Kernels that move bytes: cache writes, block copies, and the two bandwidth ceilings."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def write_tokens(
    pool,
    rows,
    slots,
    pool_stride_block,
    pool_stride_slot,
    pool_stride_head,
    WIDTH: tl.constexpr,
    BLOCK_D: tl.constexpr,
    HEADS: tl.constexpr,
    PAGE: tl.constexpr,
):
    """Append one row per (token, head) to the cache; one program each.

    Args:
        pool: [blocks, PAGE, HEADS, WIDTH], element type of ``rows``.
        rows: [tokens, HEADS, WIDTH], contiguous.
        slots: [tokens] int64: block id * PAGE + place in the block; negative ones are padding.
        pool_stride_block: Elements.
        pool_stride_slot: Elements.
        pool_stride_head: Elements.
        WIDTH: Elements of one head's row.
        BLOCK_D: WIDTH rounded up to a power of two.
        HEADS: Heads.
        PAGE: Tokens per block.
    """
    token = tl.program_id(0)
    head = tl.program_id(1)
    slot = tl.load(slots + token)
    if slot >= 0:
        column = tl.arange(0, BLOCK_D)
        ok = column < WIDTH
        row = tl.load(rows + (token.to(tl.int64) * HEADS + head) * WIDTH + column, mask=ok)
        target = (slot // PAGE) * pool_stride_block + (slot % PAGE) * pool_stride_slot
        tl.store(pool + target + head * pool_stride_head + column, row, mask=ok)


@triton.jit
def copy_blocks(
    pool,
    pairs,
    block_words,
    WORDS: tl.constexpr,
):
    """Copy whole blocks inside the pool (copy-on-write); one program per (pair, WORDS words).

    Args:
        pool: [blocks, block_words] int32 words. No block is both a source and a destination.
        pairs: [pairs, 2] int32: source and destination block.
        block_words: 4-byte words of one block.
        WORDS: Words that one program copies.
    """
    pair = tl.program_id(0)
    source = tl.load(pairs + 2 * pair).to(tl.int64)
    destination = tl.load(pairs + 2 * pair + 1).to(tl.int64)
    word = tl.program_id(1) * WORDS + tl.arange(0, WORDS)
    ok = word < block_words
    tl.store(
        pool + destination * block_words + word,
        tl.load(pool + source * block_words + word, mask=ok),
        mask=ok,
    )


@triton.jit
def stream_copy(destination, source, words, WORDS: tl.constexpr):
    """Copy ``words`` 4-byte words: the read-and-write ceiling."""
    word = tl.program_id(0).to(tl.int64) * WORDS + tl.arange(0, WORDS)
    tl.store(destination + word, tl.load(source + word, mask=word < words), mask=word < words)


@triton.jit
def stream_read(sums, source, words, WORDS: tl.constexpr, TILES: tl.constexpr):
    """Read ``words`` 4-byte words and keep one sum per program: the read-only ceiling."""
    total = tl.zeros([WORDS], tl.int32)
    base = tl.program_id(0).to(tl.int64) * WORDS * TILES
    for tile in range(TILES):
        word = base + tile * WORDS + tl.arange(0, WORDS)
        total += tl.load(source + word, mask=word < words, other=0)
    tl.store(sums + tl.program_id(0), tl.sum(total, 0))
