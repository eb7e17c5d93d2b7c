"""Widen 8-bit cache elements to fp16, two neighbouring elements at a time.

Quantised K and V are read as 16-bit *pairs* (elements 2i and 2i+1 of one head). Everything up to
the registers then treats them like any 16-bit tensor: 128-bit asynchronous copies, matrix loads,
transposed matrix loads for V. Only there a pair becomes one fp16 for the even and one for the odd
elements, and each dot product is done as two of half the width. Without it, transposing V costs
one byte load per element, which is what makes 8-bit decode issue-bound elsewhere.

``e4m3`` moved up one byte and right one bit is an fp16 of 1/256 of its value (exponent bias 15
instead of 7), subnormals included: ``FP8_GAIN`` goes into the scale. ``int8`` flipped to unsigned
and put below the exponent of 1024 is 1024 + 128 + value, so 1152 is subtracted. Both are exact.
The NaN code of e4m3 becomes ±480.

One register holds two pairs, so the PTX versions widen four elements in three to seven
instructions. They are checked code by code against the arithmetic version.
"""

from __future__ import annotations

import triton
import triton.language as tl

#: ``UNPACK`` values.
ARITHMETIC, PTX_CONVERT, PTX_BITS = 0, 1, 2

#: ``KIND`` values.
FLOAT, FP8, INT8 = 0, 1, 2

#: What the unpacked e4m3 has to be multiplied by; ``PTX_CONVERT`` (sm_89 and later) needs none.
FP8_GAIN = {ARITHMETIC: 256.0, PTX_CONVERT: 1.0, PTX_BITS: 256.0}

FP8_CONVERT_PTX = """{
.reg .b32 t;
.reg .b16 even, odd;
prmt.b32 t, $2, 0, 0x3120;
mov.b32 {even, odd}, t;
cvt.rn.f16x2.e4m3x2 $0, even;
cvt.rn.f16x2.e4m3x2 $1, odd;
}"""

FP8_BITS_PTX = """{
.reg .b32 s, t;
shl.b32 s, $2, 7;
and.b32 t, s, 0x3f803f80;
shl.b32 s, $2, 8;
lop3.b32 $0, s, 0x80008000, t, 0xea;
shr.b32 s, $2, 1;
and.b32 t, s, 0x3f803f80;
lop3.b32 $1, $2, 0x80008000, t, 0xea;
}"""

INT8_BITS_PTX = """{
.reg .b32 x, even, odd, bias;
mov.b32 bias, 0xe480e480;
xor.b32 x, $2, 0x80808080;
prmt.b32 even, x, 0x64646464, 0x4240;
prmt.b32 odd, x, 0x64646464, 0x4341;
add.rn.f16x2 $0, even, bias;
add.rn.f16x2 $1, odd, bias;
}"""

_CONVERT = tl.constexpr(FP8_CONVERT_PTX)
_FP8 = tl.constexpr(FP8_BITS_PTX)
_INT8 = tl.constexpr(INT8_BITS_PTX)


@triton.jit
def _half(bits):
    return bits.to(tl.uint16).to(tl.float16, bitcast=True)


@triton.jit
def _ptx_pairs(x, PTX: tl.constexpr):
    even, odd = tl.inline_asm_elementwise(
        PTX, "=&r,=&r,r", [x], dtype=(tl.float16, tl.float16), is_pure=True, pack=2
    )
    return even, odd


@triton.jit
def unpack_pairs(x, KIND: tl.constexpr, UNPACK: tl.constexpr):
    """Return the even and the odd elements of uint16 pairs ``x`` as fp16 tensors of its shape."""
    if KIND == 1:
        if UNPACK == 1:
            even, odd = _ptx_pairs(x, _CONVERT)
        elif UNPACK == 2:
            even, odd = _ptx_pairs(x, _FP8)
        else:
            even = _half(((x << 8) & 0x8000) | ((x << 7) & 0x3F80))
            odd = _half((x & 0x8000) | ((x >> 1) & 0x3F80))
    else:
        if UNPACK != 0:
            even, odd = _ptx_pairs(x, _INT8)
        else:
            even = _half(((x & 0xFF) ^ 0x80) | 0x6400) - 1152.0
            odd = _half(((x >> 8) ^ 0x80) | 0x6400) - 1152.0
    return even, odd
