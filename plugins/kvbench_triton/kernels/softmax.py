"""The online softmax shared by the decode kernels, in base 2."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tanh(x):
    """Hyperbolic tangent to float32 accuracy: a Taylor series near 0, exponentials elsewhere."""
    square = x * x
    series = x * (1.0 + square * (-1.0 / 3 + square * (2.0 / 15 + square * (-17.0 / 315))))
    decay = tl.exp2(tl.abs(x) * -2.8853900817779268)
    ratio = (1.0 - decay) / (1.0 + decay)
    return tl.where(square < 0.04, series, tl.where(x < 0, -ratio, ratio))


@triton.jit
def online_softmax(scores, peak, total):
    """Fold a tile of base-2 ``scores`` [H, N] into the running ``peak`` [H] and ``total`` [H].

    Returns the tile's weights relative to the new peak [H, N], the factor [H] by which anything
    summed under the old peak shrinks, the new peak and the new total.
    """
    new_peak = tl.maximum(peak, tl.max(scores, 1))
    shrink = tl.exp2(peak - new_peak)
    weights = tl.exp2(scores - new_peak[:, None])
    return weights, shrink, new_peak, total * shrink + tl.sum(weights, 1)


@triton.jit
def page_ids(table, start, end, PAGE: tl.constexpr, BLOCK_N: tl.constexpr):
    """Page ids of tokens ``start … start + BLOCK_N``, as int64: one id, or one for each token.

    Nothing is read at or beyond token ``end``. A tile never crosses a page when BLOCK_N divides
    PAGE, since tiles start at multiples of BLOCK_N.
    """
    if PAGE % BLOCK_N == 0:
        ids = tl.load(table + start // PAGE, mask=start < end, other=0)
    else:
        tokens = start + tl.arange(0, BLOCK_N)
        ids = tl.load(table + tokens.to(tl.uint32) // PAGE, mask=tokens < end, other=0)
    return ids.to(tl.int64)
