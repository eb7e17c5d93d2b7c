"""Widening of 8-bit pairs, every code: interpreted arithmetic and the PTX against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kvbench_triton.kernels import unpack
from tests.engine.triton import ptx

CODES = np.arange(256, dtype=np.uint8)
FINITE = (CODES & 0x7F) != 0x7F
FP8 = torch.from_numpy(CODES).view(torch.float8_e4m3fn).float().numpy()
INT8 = CODES.view(np.int8).astype(np.float32)


@triton.jit
def _unpack(even, odd, pairs, KIND: tl.constexpr):  # noqa: N803
    place = tl.arange(0, 256)
    first, second = unpack.unpack_pairs(tl.load(pairs + place), KIND, 0)
    tl.store(even + place, first)
    tl.store(odd + place, second)


@pytest.mark.parametrize(("kind", "gain", "expected"), [(1, 256.0, FP8), (2, 1.0, INT8)])
def test_arithmetic_is_exact_for_every_code(kind, gain, expected):
    codes = torch.from_numpy(np.stack([CODES, CODES[::-1]], axis=1).copy())
    even, odd = torch.empty(256, dtype=torch.float16), torch.empty(256, dtype=torch.float16)
    _unpack[(1,)](even, odd, codes.view(torch.uint16).flatten(), KIND=kind)
    keep = FINITE if kind == 1 else np.ones(256, bool)
    assert np.array_equal(even.float().numpy()[keep] * gain, expected[keep])
    assert np.array_equal(odd.float().numpy()[keep[::-1]] * gain, expected[::-1][keep[::-1]])


@pytest.mark.parametrize(
    ("source", "gain", "expected"),
    [
        (unpack.FP8_CONVERT_PTX, 1.0, FP8),
        (unpack.FP8_BITS_PTX, 256.0, FP8),
        (unpack.INT8_BITS_PTX, 1.0, INT8),
    ],
)
def test_ptx_is_exact_for_every_code_in_every_place(source, gain, expected):
    for code in CODES[FINITE] if expected is FP8 else CODES:
        for place in range(4):
            other = int(CODES[(int(code) * 7 + 1) % 126])
            codes = [other] * 4
            codes[place] = int(code)
            outputs = ptx.run(source, int.from_bytes(bytes(codes), "little"))
            halves = np.array(outputs, "<u4").view("<f2").astype(np.float32) * gain
            # Output 0 holds the even elements (bytes 0 and 2), output 1 the odd ones.
            assert np.array_equal(halves, expected[[codes[0], codes[2], codes[1], codes[3]]])
