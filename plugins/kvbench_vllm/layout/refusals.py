"""What vLLM refuses: architectures, tensor-parallel degrees, cache types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib import resources

from kvbench.errors import ModelError
from kvbench.model.sizing import distinct_layers
from kvbench.model.spec import (
    ChunkedLayer,
    CrossLayer,
    FullLayer,
    ModelSpec,
    SlidingLayer,
    StateLayer,
)

_HEADS = (FullLayer, SlidingLayer, ChunkedLayer, CrossLayer)


#: Families built on Qwen2's model class, which has no layers of both kinds.
_ONE_KIND_ONLY = frozenset(
    {"qwen2", "qwen3", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "mimo"}
)
#: Kinds that vLLM's Transformers backend keeps as the model has them.
_BACKEND_KINDS = frozenset({"full", "sliding", "none"})


def check_model(model: ModelSpec) -> None:
    """Refuse an architecture or a mixture of layers that vLLM has no model class for.

    Raises:
        ModelError: Naming the architecture or the layers.
    """
    kinds = {layer.kind for layer in distinct_layers(model.layers)}
    facts = _architectures()
    if uses_transformers_backend(model):
        if kinds - _BACKEND_KINDS:
            raise ModelError(
                f"{model.name}: vLLM runs {model.architecture} through its Transformers backend, "
                f"whose cache for {min(kinds - _BACKEND_KINDS)} layers is not known"
            )
    elif model.architecture and model.architecture not in facts["architectures"]:
        raise ModelError(f"{model.name}: vLLM has no model class for {model.architecture}")
    if model.model_type in _ONE_KIND_ONLY and {"full", "sliding"} <= kinds:
        raise ModelError(f"{model.name}: vLLM refuses a window for some but not all layers")
    for layer in distinct_layers(model.layers):
        if isinstance(layer, StateLayer) and layer.mechanism == "rg_lru":
            raise ModelError(f"{model.name}: vLLM has no {layer.mechanism} layers")


def uses_transformers_backend(model: ModelSpec) -> bool:
    """Whether vLLM has no class of its own for the model, but runs transformers' class."""
    return model.architecture in _architectures()["transformers_backend"]


@cache
def _architectures() -> dict[str, frozenset[str]]:
    text = resources.files(__package__).joinpath("architectures.json").read_text(encoding="utf-8")
    facts = json.loads(text)
    return {
        "architectures": frozenset([*facts["architectures"], *facts["aliases"]]),
        "transformers_backend": frozenset(facts["transformers_backend"]),
    }


def check_tensor_parallel(model: ModelSpec, tp: int) -> None:
    """Refuse a degree that does not divide heads or groups as vLLM's layers need it.

    Query heads divide evenly. KV heads divide the ranks or the ranks divide them; some families
    cannot replicate them. State heads divide evenly and state groups do, unless there is one.

    Raises:
        ModelError: Naming what does not divide.
    """
    if tp == 1:
        return
    for reason in _reasons(model, tp):
        raise ModelError(f"{model.name}: vLLM refuses tensor parallel size {tp}: {reason}")


def _reasons(model: ModelSpec, tp: int) -> Iterator[str]:
    distinct = distinct_layers(model.layers)
    has_attention = any(not isinstance(layer, StateLayer) for layer in distinct)
    if has_attention and model.query_heads % tp:
        yield f"{model.query_heads} attention heads are not divisible by it"
    for layer in distinct:
        if isinstance(layer, _HEADS):
            yield from _kv_reasons(layer.kv_heads, tp, model)
        elif isinstance(layer, StateLayer):
            yield from _state_reasons(layer, tp)


def _kv_reasons(kv_heads: int, tp: int, model: ModelSpec) -> Iterator[str]:
    if kv_heads >= tp:
        if kv_heads % tp:
            yield f"{kv_heads} KV heads are not divisible by it"
    elif tp % kv_heads:
        yield f"it is not a multiple of {kv_heads} KV heads"
    elif "kv_heads_not_replicated" in model.traits:
        yield f"this model's {kv_heads} KV heads are never replicated"


def _state_reasons(layer: StateLayer, tp: int) -> Iterator[str]:
    for tensor in layer.tensors:
        if tensor.tp_dim is None:
            continue
        units = tensor.tp_units or tensor.shape[tensor.tp_dim]
        if units % tp and not (tensor.tp_units and units == 1):
            what = "state groups" if tensor.tp_units else f"{tensor.name} state channels or heads"
            yield f"{units} {what} are not divisible by it"


def check_cache_dtype(model: ModelSpec, dtype: str, *, bits: int) -> None:
    """Refuse quantized caches where no attention backend of an H100 reads them.

    Raises:
        ModelError: Naming the reason.
    """
    if bits <= 8 and "alibi" in model.traits:
        raise ModelError(
            f"{model.name}: vLLM refuses the cache dtype {dtype}: ALiBi needs FlashAttention 2, "
            "which reads no quantized cache"
        )
