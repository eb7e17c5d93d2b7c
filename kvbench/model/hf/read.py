"""From a Hugging Face config (a dict or a file) to a model spec. No code of the model runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from kvbench.errors import ModelError
from kvbench.model import check
from kvbench.model.dtypes import model_dtype
from kvbench.model.hf import latent, linear, mamba, plain, shared, windowed
from kvbench.model.hf.attention import HIDDEN, QUERY_HEADS
from kvbench.model.hf.context import longest_context
from kvbench.model.hf.fields import Fields
from kvbench.model.hf.generic import generic
from kvbench.model.hf.registry import Decoder, find
from kvbench.model.hf.smells import check_unread
from kvbench.model.spec import LayerSpec, ModelSpec, StateLayer

#: Importing a family module registers its adapters.
FAMILIES = (latent, linear, mamba, plain, shared, windowed)

MAX_CONFIG_BYTES = 8 << 20

#: Keys under which multimodal configs keep their language model, outermost first.
_NESTED = ("thinker_config", "text_config", "language_config", "llm_config", "decoder")


def read_config_file(path: Path, *, weights: bool = True) -> ModelSpec:
    """Read a ``config.json`` or the folder that holds one.

    Args:
        path: The file or its folder.
        weights: Size the weights too.

    Raises:
        ModelError: No such file, not JSON, or a config that cannot be sized.
    """
    file = path / "config.json" if path.is_dir() else path
    config = _parse(file)
    name = path.name if path.is_dir() else file.stem
    if file.name == "config.json" and not path.is_dir():
        name = file.resolve().parent.name
    return spec_from_config(
        config, name=name, source=str(path), folder=file.parent, weights=weights
    )


def spec_from_config(
    config: Mapping[str, Any],
    *,
    name: str,
    source: str = "",
    folder: Path | None = None,
    weights: bool = True,
) -> ModelSpec:
    """Turn the values of a config into a model spec.

    Args:
        config: Parsed ``config.json``.
        name: How the user called the model.
        source: Where the config comes from; messages start with it.
        folder: Folder of the checkpoint, whose headers say more about the weights.
        weights: Size the weights too; what needs only the cache is faster without.

    Raises:
        ModelError: A field is missing, absurd, or describes a cache that no adapter knows.
    """
    try:
        model = _spec(config, name, source)
        return _weighed(model, config, folder) if weights else model
    except ModelError as error:
        raise ModelError(f"{source or name}: {error}") from None


def _weighed(model: ModelSpec, config: Mapping[str, Any], folder: Path | None) -> ModelSpec:
    from kvbench.model.weights import weight_bytes

    weights = weight_bytes(config, folder)
    return replace(
        model,
        weight_bytes=weights.bytes,
        weight_source=weights.source,
        weight_replicated_bytes=weights.replicated_bytes,
        parameters=weights.parameters,
        widths=weights.widths,
        experts=weights.experts,
    )


def _spec(config: Mapping[str, Any], name: str, source: str) -> ModelSpec:
    if not isinstance(config, Mapping):
        raise ModelError(f"a config is a JSON object, got {type(config).__name__}")
    values, model_type = _language_part(config)
    fields = Fields(values, model_type=model_type, defaults=family_defaults(model_type))
    found = find(model_type)
    decoder = (found or generic)(fields)
    dtype, dtype_note = _dtype(values, config)
    context = longest_context(fields)
    queries = fields.get(*QUERY_HEADS, "decoder_attention_heads")
    hidden = fields.get(*HIDDEN)
    check_unread(fields, harmless=() if found is None else ("sparse_attention_config",))
    return ModelSpec(
        name=name,
        layers=_caches(decoder),
        query_heads=queries if isinstance(queries, int) else 0,
        hidden_size=hidden if isinstance(hidden, int) else 0,
        dtype=dtype,
        max_context_tokens=context,
        source=source,
        assumptions=(
            *decoder.assumptions,
            *_defaults_note(fields),
            *dtype_note,
            *_state_note(decoder),
        ),
        model_type=model_type,
        architecture=_architecture(config),
        decoder_layers=_owners(decoder),
        traits=decoder.traits,
    )


def _language_part(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The values that describe the language model, and its family."""
    outer_type = config.get("model_type")
    if outer_type is not None:
        outer_type = check.text(outer_type, "model_type")
    for key in _NESTED:
        inner = config.get(key)
        if key == "decoder" and not isinstance(inner, Mapping):
            continue
        if inner is not None and not isinstance(inner, Mapping):
            raise ModelError(f"{key} must be an object, got {type(inner).__name__}")
        if isinstance(inner, Mapping):
            inner_type = inner.get("model_type") or text_type(outer_type)
            return _language_part({**inner, "model_type": inner_type})
    if outer_type is None:
        raise ModelError("the config has no model_type")
    inner_type = text_type(outer_type) or outer_type
    return config, outer_type if find(outer_type) else inner_type


def _architecture(config: Mapping[str, Any]) -> str:
    stated = config.get("architectures")
    return stated[0] if isinstance(stated, list) and stated and isinstance(stated[0], str) else ""


def _caches(decoder: Decoder) -> tuple[LayerSpec, ...]:
    return tuple([cache for caches in decoder.layers for cache in caches])


def _owners(decoder: Decoder) -> tuple[int, ...]:
    if all(len(caches) == 1 for caches in decoder.layers):
        return ()
    return tuple([index for index, caches in enumerate(decoder.layers) for _ in caches])


def _dtype(values: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    for holder in (values, config):
        for key in ("dtype", "torch_dtype"):
            stated = holder.get(key)
            if stated is not None and stated != "auto":
                return model_dtype(check.text(stated, key)), ()
    return "bf16", ("the config states no dtype: bf16",)


def _defaults_note(fields: Fields) -> tuple[str, ...]:
    taken = {
        name: value
        for name, value in sorted(fields.defaulted.items())
        if isinstance(value, int | str) and not isinstance(value, bool)
    }
    if not taken:
        return ()
    stated = ", ".join(f"{name} = {value}" for name, value in taken.items())
    return (f"not stated, so the default of the family's config class: {stated}",)


def _state_note(decoder: Decoder) -> tuple[str, ...]:
    distinct = {id(layer): layer for caches in decoder.layers for layer in caches}
    for layer in distinct.values():
        if not isinstance(layer, StateLayer) or layer.mechanism == "compressor":
            continue
        if any(tensor.dtype == "fp32" and not tensor.stated_dtype for tensor in layer.tensors):
            return ("recurrent state in fp32, as the reference implementation keeps it",)
    return ()


def _parse(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > MAX_CONFIG_BYTES:
            raise ModelError(f"{file}: larger than {MAX_CONFIG_BYTES >> 20} MiB, not a config")
        value = json.loads(file.read_text(encoding="utf-8"), parse_int=_bounded_int)
    except OSError as error:
        raise ModelError(f"{file}: {error.strerror or error}") from None
    except ValueError as error:
        raise ModelError(f"{file}: not JSON: {error}") from None
    except RecursionError:
        raise ModelError(f"{file}: nested too deeply") from None
    if not isinstance(value, dict):
        raise ModelError(f"{file}: a config is a JSON object, got {type(value).__name__}")
    return value


def _bounded_int(digits: str) -> int:
    if len(digits) > 20:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


@cache
def _facts() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("defaults.json").read_text(encoding="utf-8")
    facts: dict[str, Any] = json.loads(text)
    return facts


def family_defaults(model_type: str) -> Mapping[str, Any]:
    """Defaults of a family's published config class, for the fields that matter to the cache."""
    families = _facts()["families"]
    # A flattened config of a multimodal family describes its language model.
    defaults: Mapping[str, Any] = families.get(model_type) or families.get(
        text_type(model_type), {}
    )
    return defaults


def text_type(model_type: str | None) -> str | None:
    """Family of the language model inside a multimodal family, or the family itself."""
    if model_type is None:
        return None
    inner: str = _facts()["language_model"].get(model_type, model_type)
    return inner
