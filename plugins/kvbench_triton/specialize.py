"""Compile-time arguments of the decode kernels, for launching and for compiling ahead of time."""

from __future__ import annotations

from typing import Any

import triton.language as tl

from kvbench_triton.config import KernelConfig, Target
from kvbench_triton.kernels import unpack
from kvbench_triton.shape import DecodeShape

_KINDS = {"fp8_e4m3": unpack.FP8, "int8": unpack.INT8}
_DOTS = {"bf16": tl.bfloat16, "fp16": tl.float16, "fp32": tl.float32}


def kind(shape: DecodeShape) -> int:
    """The kernels' KIND of a cache element type."""
    return _KINDS.get(shape.kv_dtype, unpack.FLOAT)


def unpacking(shape: DecodeShape, target: Target) -> int:
    """How 8-bit pairs are widened on ``target``: PTX where there is PTX, else arithmetic."""
    if not target.family.startswith("sm_"):
        return unpack.ARITHMETIC
    if shape.kv_dtype == "fp8_e4m3" and target.native_fp8:
        return unpack.PTX_CONVERT
    return unpack.PTX_BITS


def operands(shape: DecodeShape, target: Target) -> Any:
    """Element type of the matrix operands.

    Float32 under the interpreter, whose bfloat16 arithmetic is wrong. On a device the cache's own
    type, or fp16 for 8-bit caches: it holds every code exactly.
    """
    if target.family == "cpu":
        return tl.float32
    return _DOTS.get(shape.kv_dtype, tl.float16)


def decode_constants(
    shape: DecodeShape, config: KernelConfig, target: Target, *, split: bool, aligned: bool
) -> dict[str, Any]:
    """Constants of ``decode_split``, or of ``mla_split`` for an MLA shape."""
    common = {
        "BLOCK_H": config.block_h,
        "PAGE": shape.page_size,
        "BLOCK_N": config.block_n,
        "DOT": operands(shape, target),
        "ALIGNED": aligned,
        "SPLIT": split,
        "STAGES": config.stages,
    }
    if shape.is_mla:
        latent = {"LATENT": shape.head_dim_v, "ROPE": shape.rope_dim}
        return common | latent | {"HEADS": shape.query_heads}
    unpacked = unpacking(shape, target)
    return common | {
        "GROUP": shape.group,
        "DIM_K": shape.head_dim_k,
        "DIM_V": shape.head_dim_v,
        "BLOCK_K": power_of_two(shape.head_dim_k),
        "BLOCK_V": power_of_two(shape.head_dim_v),
        "KIND": kind(shape),
        "UNPACK": unpacked,
        "FP8_GAIN": unpack.FP8_GAIN[unpacked],
        "SOFTCAP": shape.softcap > 0,
        "SINKS": shape.sinks,
    }


def power_of_two(value: int) -> int:
    """Smallest power of two that is at least ``value`` (at least 1)."""
    return 1 << (value - 1).bit_length()
