"""Inline geometry: a ``[models.NAME]`` table of a suite as a model spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NoReturn

from kvbench.errors import ModelError
from kvbench.model import check
from kvbench.model.dtypes import model_dtype
from kvbench.model.spec import (
    ChunkedLayer,
    CrossLayer,
    FullLayer,
    IndexerLayer,
    LayerSpec,
    MlaLayer,
    ModelSpec,
    NoneLayer,
    SlidingLayer,
    StateLayer,
    StateTensor,
)
from kvbench.names import did_you_mean

#: Keys that describe the model as a whole.
MODEL_KEYS: dict[str, str] = {
    "layers": "number of layers",
    "query_heads": "query heads of an attention layer",
    "hidden_size": "width of the residual stream",
    "dtype": "element type of weights and activations: fp32, bf16 or fp16",
    "max_context_tokens": "longest context",
    "weight_bytes": "bytes of all weights",
    "pattern": "kinds of the layers, repeated: an array such as ['sliding', 'full']",
}

#: Keys that describe a layer; which ones a layer needs depends on its kind.
LAYER_KEYS: dict[str, str] = {
    "kv_heads": "KV heads",
    "head_dim": "elements of a key head, and of a value head unless head_dim_v says otherwise",
    "head_dim_v": "elements of a value head",
    "window": "tokens a sliding layer sees",
    "chunk": "tokens of a chunk of chunked attention",
    "latent_dim": "elements of the MLA latent",
    "rope_dim": "rotary elements beside the MLA latent",
    "compress": "tokens that share one MLA entry",
    "indexer_bytes_per_token": "bytes per token of a sparse-attention indexer",
    "state_bytes": "bytes of a state layer per request",
    "encoder_tokens": "tokens of the encoder that a cross layer reads",
}

KEYS: dict[str, str] = {**MODEL_KEYS, **LAYER_KEYS}


class _Table:
    """One table with the name that messages give it."""

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self.name = name
        self.values = values

    def integer(self, key: str, *, minimum: int = 1, maximum: int = check.MAX_DIM) -> int:
        if key not in self.values:
            self.fail(f"{key} is missing ({KEYS[key]})")
        value = self.values[key]
        if isinstance(value, float):
            self.fail(f"{key} must be an integer, got {value!r}")
        return check.integer(value, f"model {self.name!r}: {key}", minimum=minimum, maximum=maximum)

    def optional(self, key: str, default: int | None, *, maximum: int = check.MAX_DIM) -> Any:
        return self.integer(key, maximum=maximum) if key in self.values else default

    def fail(self, message: str) -> NoReturn:
        raise ModelError(f"model {self.name!r}: {message}")


def inline_model(name: str, table: Mapping[str, Any], *, source: str = "") -> ModelSpec:
    """Build the model spec that an inline table describes.

    A table is uniform (``layers`` and one geometry), or repeats a ``pattern`` of kinds over
    ``layers``. Without a pattern the keys decide the kind: ``latent_dim`` means ``mla``,
    ``window`` means ``sliding``, ``chunk`` means ``chunked``, otherwise ``full``.

    Args:
        name: Name of the model.
        table: The keys of ``KEYS``.
        source: Where the table stands, for the spec.

    Raises:
        ModelError: An unknown, missing or absurd key; the message names it.
    """
    check_keys(name, table, KEYS)
    keys = _Table(name, table)
    count = keys.integer("layers", maximum=check.MAX_LAYERS)
    decoder = _decoder_layers(keys, count)
    return ModelSpec(
        name=name,
        layers=tuple(layer for caches in decoder for layer in caches),
        query_heads=keys.optional("query_heads", 0, maximum=check.MAX_HEADS),
        hidden_size=keys.optional("hidden_size", 0),
        dtype=_dtype(keys),
        max_context_tokens=keys.optional("max_context_tokens", None, maximum=check.MAX_TOKENS),
        weight_bytes=keys.optional("weight_bytes", None, maximum=1 << 60),
        weight_source="stated" if "weight_bytes" in table else "",
        source=source,
        decoder_layers=_owners(decoder),
    )


def check_keys(name: str, table: Mapping[str, Any], known: Mapping[str, str]) -> None:
    """Refuse keys that nobody reads.

    Raises:
        ModelError: Naming the key and the nearest known one.
    """
    for key in table:
        if key not in known:
            raise ModelError(f"model {name!r}: unknown key {key!r}{did_you_mean(key, known)}")


def override(model: ModelSpec, name: str, table: Mapping[str, Any]) -> ModelSpec:
    """Return ``model`` under a new name with single figures replaced (``inherits``).

    A layer key changes every layer that has it, ``layers`` repeats the layers of a uniform
    model; ``pattern`` and new kinds need a table of their own.

    Raises:
        ModelError: A key that the inherited model has nothing to do with.
    """
    check_keys(name, table, KEYS)
    keys = _Table(name, table)
    layers = model.layers
    for key in [key for key in LAYER_KEYS if key in table]:
        layers = _override_layers(keys, layers, key)
    if "layers" in table:
        layers = _repeat(keys, layers)
    whole = {key: table[key] for key in MODEL_KEYS if key in table and key != "layers"}
    if "pattern" in whole:
        keys.fail("pattern cannot change an inherited model; write its geometry out")
    for key in ("query_heads", "hidden_size", "max_context_tokens", "weight_bytes"):
        if key in whole:
            whole[key] = keys.integer(key, maximum=1 << 60)
    if "dtype" in whole:
        whole["dtype"] = _dtype(keys)
    return replace(model, name=name, layers=layers, **whole)


_FIELDS = {
    "head_dim": ("head_dim_k", "head_dim_v"),
    "indexer_bytes_per_token": ("bytes_per_token",),
}


def _override_layers(
    keys: _Table, layers: tuple[LayerSpec, ...], key: str
) -> tuple[LayerSpec, ...]:
    value = keys.integer(key)
    names = _FIELDS.get(key, (key,))
    changed: dict[LayerSpec, LayerSpec] = {}
    for layer in set(layers):
        own: dict[str, Any] = {f.name: value for f in fields(layer) if f.name in names}
        if own:
            changed[layer] = replace(layer, **own)
    if not changed:
        keys.fail(f"{key} does not apply: no layer of the inherited model has it")
    return tuple(changed.get(layer, layer) for layer in layers)


def _repeat(keys: _Table, layers: tuple[LayerSpec, ...]) -> tuple[LayerSpec, ...]:
    if len(set(layers)) != 1:
        keys.fail("layers cannot change a model whose layers differ; write its geometry out")
    return layers[:1] * keys.integer("layers", maximum=check.MAX_LAYERS)


def _decoder_layers(keys: _Table, count: int) -> list[tuple[LayerSpec, ...]]:
    pattern = _pattern(keys)
    built = {kind: _KINDS[kind](keys) for kind in dict.fromkeys(pattern)}
    return [built[pattern[index % len(pattern)]] for index in range(count)]


def _pattern(keys: _Table) -> Sequence[str]:
    if "pattern" not in keys.values:
        return (_implied_kind(keys.values),)
    pattern = keys.values["pattern"]
    if not isinstance(pattern, list) or not pattern:
        keys.fail("pattern must be an array of layer kinds that is not empty")
    for kind in pattern:
        if kind not in _KINDS:
            keys.fail(f"pattern: no layer kind {kind!r}{did_you_mean(str(kind), _KINDS)}")
    return pattern


def _implied_kind(values: Mapping[str, Any]) -> str:
    for key, kind in (("latent_dim", "mla"), ("window", "sliding"), ("chunk", "chunked")):
        if key in values:
            return kind
    return "full"


def _heads(keys: _Table) -> dict[str, int]:
    head_dim = keys.integer("head_dim")
    return {
        "kv_heads": keys.integer("kv_heads", maximum=check.MAX_HEADS),
        "head_dim_k": head_dim,
        "head_dim_v": keys.optional("head_dim_v", head_dim),
    }


def _mla(keys: _Table) -> tuple[LayerSpec, ...]:
    latent = MlaLayer(
        latent_dim=keys.integer("latent_dim"),
        rope_dim=keys.integer("rope_dim", minimum=0),
        compress=keys.optional("compress", 1),
        # In a pattern the window belongs to the sliding layers.
        window=None
        if "pattern" in keys.values
        else keys.optional("window", None, maximum=check.MAX_TOKENS),
    )
    if "indexer_bytes_per_token" not in keys.values:
        return (latent,)
    return (latent, IndexerLayer(bytes_per_token=keys.integer("indexer_bytes_per_token")))


def _state(keys: _Table) -> tuple[LayerSpec, ...]:
    size = keys.integer("state_bytes", maximum=1 << 40)
    tensor = StateTensor(name="state", shape=(size,), dtype="fp8_e4m3", tp_dim=0)
    return (StateLayer(tensors=(tensor,), mechanism="inline"),)


_KINDS: dict[str, Callable[[_Table], tuple[LayerSpec, ...]]] = {
    "full": lambda keys: (FullLayer(**_heads(keys)),),
    "sliding": lambda keys: (
        SlidingLayer(**_heads(keys), window=keys.integer("window", maximum=check.MAX_TOKENS)),
    ),
    "chunked": lambda keys: (
        ChunkedLayer(**_heads(keys), chunk=keys.integer("chunk", maximum=check.MAX_TOKENS)),
    ),
    "mla": _mla,
    "state": _state,
    "cross": lambda keys: (
        CrossLayer(
            **_heads(keys),
            encoder_tokens=keys.integer("encoder_tokens", maximum=check.MAX_TOKENS),
        ),
    ),
    "none": lambda _keys: (NoneLayer(),),
}


def _owners(decoder: list[tuple[LayerSpec, ...]]) -> tuple[int, ...]:
    if all(len(caches) == 1 for caches in decoder):
        return ()
    return tuple(index for index, caches in enumerate(decoder) for _ in caches)


def _dtype(keys: _Table) -> str:
    value = keys.values.get("dtype", "bf16")
    try:
        return model_dtype(check.text(value, "dtype"))
    except ModelError as error:
        keys.fail(str(error))
