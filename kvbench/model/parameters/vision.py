"""Parameters of vision towers and of the projectors behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvbench.errors import ModelError
from kvbench.model.parameters.values import Values


def vision_parameters(config: Mapping[str, Any], text: Values) -> tuple[int, tuple[str, ...]]:
    """Parameters of the vision tower that ``config`` describes, and what was assumed.

    A family without a formula of its own is counted as a plain vision transformer.
    """
    stated = config.get("vision_config")
    if not isinstance(stated, Mapping) or not stated:
        return 0, ()
    family = str(config.get("model_type") or "")
    tower = Values(stated, family)
    known = {
        "gemma3": _siglip_gemma,
        "gemma4": _gemma4,
        "llava": _llava,
        "qwen2_5_vl": _qwen2_5,
        "qwen3_vl": _qwen3,
        "qwen3_vl_moe": _qwen3,
        "qwen3_5": _qwen3,
        "qwen3_5_moe": _qwen3,
    }.get(family)
    try:
        if known is not None:
            return known(tower, text, Values(config, family)), ()
        return _plain_tower(tower), (f"vision tower of {family!r} counted as a plain transformer",)
    except ModelError as error:
        return 0, (f"vision tower not counted: {error}",)


def _block(width: int, inner: int, *, bias: bool = True) -> int:
    biases = 4 * width + inner + width + 4 * width if bias else 2 * width
    return 4 * width * width + 2 * width * inner + biases


def _plain_tower(tower: Values) -> int:
    width = tower.number("hidden_size", "width", "embed_dim")
    depth = tower.number("num_hidden_layers", "depth", "layers")
    inner = tower.number("intermediate_size", default=4 * width)
    return depth * _block(width, inner) + _patches(tower, width)


def _patches(tower: Values, width: int) -> int:
    patch = tower.number("patch_size", default=14)
    image = tower.number("image_size", default=224)
    channels = tower.number("num_channels", "in_channels", default=3)
    return width * channels * patch * patch + (image // max(1, patch)) ** 2 * width


def _siglip_gemma(tower: Values, text: Values, whole: Values) -> int:
    width = tower.hidden
    return _plain_tower(tower) + width + 2 * width + width * text.hidden + width


def _llava(tower: Values, text: Values, whole: Values) -> int:
    width, out = tower.hidden, text.hidden
    projector = width * out + out + out * out + out
    return _plain_tower(tower) + width + width + 4 * width + projector


def _gemma4(tower: Values, text: Values, whole: Values) -> int:
    width, inner, dim = tower.hidden, tower.inner, tower.head_dim
    attention = 4 * width * tower.heads * dim
    block = attention + 3 * width * inner + 4 * width + 2 * dim
    patch = tower.number("patch_size", default=16)
    positions = 2 * tower.number("position_embedding_size", default=10240) * width
    patches = 3 * patch * patch * width
    standard = 2 * width if tower.flag("standardize") else 0
    return tower.layers * block + positions + patches + standard + width * text.hidden


def _qwen2_5(tower: Values, text: Values, whole: Values) -> int:
    width, inner = tower.hidden, tower.inner
    block = 4 * width * width + 4 * width + 3 * width * inner + 2 * inner + width + 2 * width
    patches = width * 3 * 2 * tower.number("patch_size", default=14) ** 2
    merged = width * tower.number("spatial_merge_size", default=2) ** 2
    out = tower.number("out_hidden_size", default=text.hidden)
    merger = width + merged * merged + merged + merged * out + out
    return tower.number("depth") * block + patches + merger


def _qwen3(tower: Values, text: Values, whole: Values) -> int:
    width = tower.hidden
    merged = width * tower.number("spatial_merge_size", default=2) ** 2
    out = tower.number("out_hidden_size", default=text.hidden)
    merger = merged * merged + merged + merged * out + out
    patches = width * 3 * tower.number("temporal_patch_size", default=2)
    patches = patches * tower.number("patch_size", default=16) ** 2 + width
    positions = tower.number("num_position_embeddings", default=2304) * width
    deep = len(tower.sequence("deepstack_visual_indexes")) * (merger + 2 * merged)
    blocks = tower.number("depth") * _block(width, tower.inner)
    return blocks + patches + positions + merger + 2 * width + deep
