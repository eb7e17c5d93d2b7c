"""Bytes per parameter under the weight quantization that a config states.

Only weights: the type of the cache follows from nothing in here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvbench.errors import ModelError

_PLAIN = Fraction(2)
#: Most groups of 32 elements share an 8-bit scale, of 16 an 8-bit one, as the formats define.
_MXFP4 = Fraction(1, 2) + Fraction(1, 32)
_NVFP4 = Fraction(1, 2) + Fraction(1, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Bytes per parameter of the quantized roles; all other roles keep the model's type.

    Attributes:
        name: How the config calls it, empty for none.
        linear: Bytes per parameter of attention, dense layers and latent projections.
        experts: Bytes per parameter of routed experts.
    """

    name: str = ""
    linear: Fraction = _PLAIN
    experts: Fraction = _PLAIN


def weight_precision(config: Mapping[str, Any], plain_bytes: int) -> Precision:
    """Read the config's ``quantization_config`` (or ``compression_config``).

    Args:
        config: Parsed ``config.json``.
        plain_bytes: Bytes of an element that is not quantized.

    Raises:
        ModelError: A method whose size per parameter is not known.
    """
    plain = Fraction(plain_bytes)
    stated = _stated(config)
    if stated is None:
        return Precision(linear=plain, experts=plain)
    method = str(stated.get("quant_method") or stated.get("quant_algo") or "").lower()
    size = _bytes(method, stated)
    if size is None:
        raise ModelError(f"quantization method {method!r}: its bytes per parameter are not known")
    only_experts = method == "mxfp4" or (method == "quark" and _skips_attention(stated))
    experts = _MXFP4 if str(config.get("expert_dtype", "")).lower() == "fp4" else size
    return Precision(name=method, linear=plain if only_experts else size, experts=experts)


def _stated(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    holders = [config, *(config.get(key) for key in ("text_config", "language_config"))]
    for holder in holders:
        for key in ("quantization_config", "compression_config"):
            found = holder.get(key) if isinstance(holder, Mapping) else None
            if isinstance(found, Mapping) and found:
                return found
    return None


def _skips_attention(stated: Mapping[str, Any]) -> bool:
    skipped = stated.get("exclude") or stated.get("modules_to_not_convert") or []
    return any("attn" in str(name) for name in skipped)


def _bytes(method: str, stated: Mapping[str, Any]) -> Fraction | None:
    match method:
        case "fp8":
            return _fp8(stated)
        case "fbgemm_fp8" | "modelopt_fp8" | "ptpc_fp8":
            return Fraction(1)
        case "mxfp4" | "quark":
            return _MXFP4
        case "modelopt_fp4" | "nvfp4":
            return _NVFP4
        case "modelopt":
            return {"FP8": Fraction(1), "NVFP4": _NVFP4}.get(_algorithm(stated))
        case "awq" | "gptq" | "auto-round" | "autoround" | "auto_round" | "intel/auto-round":
            return _grouped(_bits(stated), _group(stated))
        case "bitsandbytes":
            return _bitsandbytes(stated)
        case "compressed-tensors" | "compressed_tensors":
            return _compressed(stated)
        case "exl3":
            return _bits(stated) / 8
    return None


def _algorithm(stated: Mapping[str, Any]) -> str:
    nested = stated.get("quantization")
    inner = nested.get("quant_algo") if isinstance(nested, Mapping) else None
    return str(stated.get("quant_algo") or inner or "")


def _fp8(stated: Mapping[str, Any]) -> Fraction:
    block = stated.get("weight_block_size")
    if not isinstance(block, list) or len(block) != 2:
        return Fraction(1)
    rows, columns = (_positive(side, "weight_block_size") for side in block)
    return 1 + Fraction(4, rows * columns)


def _bits(stated: Mapping[str, Any]) -> Fraction:
    bits = stated.get("bits", stated.get("w_bit", 4))
    if isinstance(bits, bool) or not isinstance(bits, int | float) or not 1 <= bits <= 16:
        raise ModelError(f"quantization bits must be a number from 1 to 16, got {bits!r}")
    return Fraction(bits).limit_denominator(1000)


def _group(stated: Mapping[str, Any]) -> int:
    group = stated.get("group_size", stated.get("q_group_size", 128))
    return 0 if group in (None, -1, 0) else _positive(group, "group_size")


def _grouped(bits: Fraction, group: int) -> Fraction:
    """A 16-bit scale and a zero point of ``bits`` for every ``group`` elements."""
    return bits / 8 + (Fraction(2 + bits / 8) / group if group else 0)


def _bitsandbytes(stated: Mapping[str, Any]) -> Fraction:
    if stated.get("load_in_8bit"):
        return Fraction(1)
    scale = Fraction(1, 64) + Fraction(4, 64 * 256)
    return Fraction(1, 2) + (scale if stated.get("bnb_4bit_use_double_quant") else Fraction(4, 64))


def _compressed(stated: Mapping[str, Any]) -> Fraction | None:
    """The widest of the config's groups: an upper bound when they differ."""
    groups = stated.get("config_groups")
    groups = groups.values() if isinstance(groups, Mapping) else []
    weights = [group.get("weights") for group in groups if isinstance(group, Mapping)]
    sizes = [_compressed_group(each) for each in weights if isinstance(each, Mapping)]
    return max(sizes) if sizes else None


def _compressed_group(weights: Mapping[str, Any]) -> Fraction:
    bits = _bits({"bits": weights.get("num_bits", 8)})
    group = weights.get("group_size")
    if group in (None, -1, 0):
        return bits / 8
    scale = 1 if weights.get("type") == "float" and bits == 4 else 2
    zero = Fraction(0) if weights.get("symmetric", True) else bits / 8
    return bits / 8 + (scale + zero) / Fraction(_positive(group, "group_size"))


def _positive(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 24:
        raise ModelError(f"{name} must be a positive integer, got {value!r}")
    return value
