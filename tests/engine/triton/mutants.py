"""Deliberate bugs: file, text, replacement. Each must be noticed by a sentinel case."""

from __future__ import annotations

MUTANTS = {
    "rescale dropped": ("kernels/softmax.py", "total * shrink +", "total +"),
    "sum not rescaled": (
        "kernels/decode.py",
        "v.to(DOT), even * shrink[:, None]",
        "v.to(DOT), even",
    ),
    "odd elements not rescaled": ("kernels/decode.py", "odd * shrink[:, None]", "odd"),
    "mask one too long": ("kernels/decode.py", "valid = tokens < end", "valid = tokens <= end"),
    "mask one too short": ("kernels/decode.py", "valid = tokens < end", "valid = tokens < end - 1"),
    "window start ignored": ("kernels/decode.py", "tokens >= first)", "tokens >= begin)"),
    "window one off": ("kernels/decode.py", "tokens >= first)", "tokens > first)"),
    "head stride dropped": (
        "kernels/decode.py",
        "values += kv_head * kv_stride_head +",
        "values +=",
    ),
    "slot not wrapped": (
        "kernels/decode.py",
        "tokens.to(tl.uint32) % PAGE",
        "tokens.to(tl.uint32) % BLOCK_N",
    ),
    "pages of the wrong tile": (
        "kernels/decode.py",
        "start + BLOCK_N, end, PAGE",
        "start, end, PAGE",
    ),
    "wrong group": (
        "kernels/decode.py",
        "heads = kv_head * GROUP + in_group",
        "heads = kv_head + in_group",
    ),
    "even for odd": ("kernels/decode.py", "tl.load(query + 1,", "tl.load(query,"),
    "value scale for key": (
        "kernels/decode.py",
        "k_scale = tl.load(scale_at,",
        "k_scale = tl.load(scale_at + 1,",
    ),
    "fp8 gain dropped": ("kernels/decode.py", "gain = FP8_GAIN * tl", "gain = tl"),
    "sink in the wrong base": ("kernels/decode.py", "* 1.4426950408889634", "* 1.0"),
    "cap in the wrong base": ("kernels/decode.py", "* cap_scale", "* (cap_scale * 0.99)"),
    "tanh sign": ("kernels/softmax.py", "x < 0, -ratio, ratio", "x < 0, ratio, ratio"),
    "split bound": ("plan.py", "end=last, row", "end=last - (last < end), row"),
    "unaligned start taken as aligned": (
        "plan.py",
        "aligned=all(start % tile == 0 for start in starts)",
        "aligned=True",
    ),
    "partial row": ("plan.py", "row=row + index", "row=row + index // 2"),
    "unsplit empties": ("plan.py", "b - a != 1", "b - a > 1"),
    "last partial lost": (
        "kernels/combine.py",
        "item_ok = items < end",
        "item_ok = items < end - 1",
    ),
    "combine reads one chunk": (
        "kernels/combine.py",
        "range(first, end, BLOCK_S)",
        "range(first, first + 1, BLOCK_S)",
    ),
    "latent rope dropped": (
        "kernels/mla.py",
        "tl.trans(rope), scores",
        "tl.trans(rope) * 0, scores",
    ),
    "latent not rescaled": ("kernels/mla.py", "summed * shrink[:, None]", "summed"),
    "int8 bias": ("kernels/unpack.py", "- 1152.0", "- 1153.0"),
    "fp8 sign": ("kernels/unpack.py", "(x << 8) & 0x8000", "(x << 9) & 0x8000"),
    "write head": ("kernels/transfer.py", "+ head * pool_stride_head", ""),
}
