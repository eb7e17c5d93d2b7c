"""From a GGUF file's header to a model spec, as llama.cpp reads it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvbench.errors import ModelError
from kvbench.model import check
from kvbench.model.gguf_header import GgufHeader, read_header
from kvbench.model.spec import (
    ChunkedLayer,
    FullLayer,
    LayerSpec,
    MlaLayer,
    ModelSpec,
    NoneLayer,
    SharedLayer,
    SlidingLayer,
    StateLayer,
    StateTensor,
    Widths,
)

#: Period of windowed layers where the file states no pattern: layer ``i`` has a window when
#: ``i % period < period - 1``; 1 means none, 0 means all (``set_swa_pattern`` in llama.cpp).
_PERIODS = {
    "gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "gpt_oss": 2, "openai-moe": 2,
    "cohere2": 4, "exaone4": 4, "exaone-moe": 4, "olmo2": 4, "smallthinker": 4, "llama4": 4,
    "phi3": 1, "llama": 1, "qwen2": 1, "qwen2moe": 1, "qwen3": 1, "qwen3moe": 1, "starcoder2": 1,
}  # fmt: skip
#: Window of the chunked layers of Llama 4, which its files do not state.
_LLAMA4_CHUNK = 8192
#: Architectures all of whose layers keep a state and nothing else.
_ONLY_STATE = frozenset({"mamba", "mamba2", "falcon-mamba"})
#: Architectures whose layers keep a state beside attention.
_BOTH = frozenset({"falcon-h1"})
#: Architectures with full attention every so many layers and a state in the others.
_INTERVALS = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4}
#: Architectures in which a layer without KV heads keeps a state.
_BY_HEADS = frozenset({
    "jamba", "granitehybrid", "nemotron_h", "nemotron_h_moe", "bamba", "plamo2", "lfm2", "lfm2moe",
})  # fmt: skip
#: Parts of keys that stand for caches which no rule above covers.
_SMELLS = ("wkv", "indexer", "compress", "kda", "token_shift", "altup", "cross_attention")
_COVERED = {"gemma3n": ("altup",), "deepseek2": (), "gemma4": ()}


def read_gguf(path: Path) -> ModelSpec:
    """Read the geometry and the weights' bytes from the header of a GGUF file.

    Raises:
        ModelError: Not GGUF, the package ``gguf`` is missing, a value that is missing or absurd,
            or an architecture whose cache no rule covers.
    """
    header = read_header(path)
    try:
        return _spec(header, path)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def _spec(header: GgufHeader, path: Path) -> ModelSpec:
    keys = _Keys(header.metadata)
    keys.refuse_unknown()
    layers = _layers(keys)
    name = header.metadata.get("general.name")
    return ModelSpec(
        name=name if isinstance(name, str) and name else path.stem,
        layers=tuple([cache for caches in layers for cache in caches]),
        query_heads=max(keys.per_layer("attention.head_count", default=0)),
        hidden_size=keys.number("embedding_length"),
        dtype="fp16",
        max_context_tokens=keys.number("context_length", default=0) or None,
        weight_bytes=header.tensor_bytes,
        weight_source=f"GGUF header: {header.parameters:,} parameters as stored",
        parameters=header.parameters,
        widths=_widths(header, keys),
        source=str(path),
        assumptions=keys.notes(),
        model_type=keys.arch,
        decoder_layers=tuple([i for i, caches in enumerate(layers) for _ in caches]),
    )


def _widths(header: GgufHeader, keys: _Keys) -> Widths | None:
    rows = next(
        (shape[-1] for name, shape in header.first_shape.items() if "token_embd" in name), 0
    )
    vocabulary = rows or keys.number("vocab_size", default=0)
    if not vocabulary:
        return None
    routed = keys.number("expert_used_count", default=0)
    return Widths(
        vocabulary=vocabulary,
        inner=0 if routed else max(keys.per_layer("feed_forward_length", default=0)),
        experts_per_token=routed,
        expert_inner=keys.number("expert_feed_forward_length", default=0) if routed else 0,
    )


def _layers(keys: _Keys) -> list[list[LayerSpec]]:
    count = keys.number("block_count", maximum=check.MAX_LAYERS)
    count -= keys.number("nextn_predict_layers", default=0)
    if count < 1:
        raise ModelError(f"{keys.arch}.block_count leaves no layer")
    shared_from = count - keys.number("attention.shared_kv_layers", default=0)
    windowed = _windowed(keys, count)
    layers: list[list[LayerSpec]] = []
    for index in range(count):
        if index >= shared_from:
            source = _shared_source(windowed, index, shared_from)
            layers.append([SharedLayer(source=source)])
        else:
            layers.append(_layer(keys, index, is_windowed=windowed[index]))
    return layers


def _shared_source(windowed: Sequence[bool], index: int, shared_from: int) -> int:
    """The last layer of its own kind that keeps a cache."""
    same = [at for at in range(shared_from) if windowed[at] == windowed[index]]
    return same[-1] if same else shared_from - 1


def _layer(keys: _Keys, index: int, *, is_windowed: bool) -> list[LayerSpec]:
    if keys.arch in _ONLY_STATE:
        return [_state(keys)]
    if keys.arch in _INTERVALS:
        interval = keys.number("full_attention_interval", default=_INTERVALS[keys.arch])
        return [_state(keys)] if (index + 1) % max(1, interval) else [_attention(keys, index)]
    kv_heads = keys.kv_heads(index)
    if kv_heads == 0:
        return [_state(keys)] if keys.arch in _BY_HEADS and not keys.is_mlp(index) else [
            NoneLayer()
        ]  # fmt: skip
    if keys.arch in _BOTH:
        return [_attention(keys, index), _state(keys)]
    return [_attention(keys, index, is_windowed=is_windowed)]


def _attention(keys: _Keys, index: int, *, is_windowed: bool = False) -> LayerSpec:
    if keys.has("attention.kv_lora_rank") and keys.has("attention.key_length_mla"):
        return MlaLayer(
            latent_dim=keys.number("attention.kv_lora_rank"),
            rope_dim=keys.number("rope.dimension_count"),
            expanded_heads=keys.per_layer("attention.head_count")[index],
            expanded_dim=keys.number("attention.key_length_mla"),
        )
    heads = keys.kv_heads(index)
    key_dim, value_dim = keys.head_dims(index, is_windowed=is_windowed)
    if not is_windowed:
        return FullLayer(kv_heads=heads, head_dim_k=key_dim, head_dim_v=value_dim)
    if keys.arch == "llama4":
        return ChunkedLayer(
            kv_heads=heads, head_dim_k=key_dim, head_dim_v=value_dim, chunk=_LLAMA4_CHUNK
        )
    window = keys.number("attention.sliding_window", maximum=check.MAX_TOKENS)
    return SlidingLayer(kv_heads=heads, head_dim_k=key_dim, head_dim_v=value_dim, window=window)


def _windowed(keys: _Keys, count: int) -> list[bool]:
    window = keys.number("attention.sliding_window", default=0, maximum=check.MAX_TOKENS)
    if not window and keys.arch != "llama4":
        return [False] * count
    pattern = keys.value("attention.sliding_window_pattern")
    if isinstance(pattern, list) and pattern:
        return [bool(pattern[index % len(pattern)]) for index in range(count)]
    period = pattern if isinstance(pattern, int) and pattern > 1 else _PERIODS.get(keys.arch)
    if period is None:
        raise ModelError(
            f"{keys.arch} has attention.sliding_window but neither a pattern nor a known period"
        )
    return [period == 0 or index % period < period - 1 for index in range(count)]


def _state(keys: _Keys) -> StateLayer:
    if keys.has("shortconv.l_cache"):
        length = keys.number("shortconv.l_cache") - 1
        shape = (length, keys.number("embedding_length"))
        return StateLayer(
            tensors=(StateTensor(name="conv", shape=shape, dtype="fp32"),), mechanism="short_conv"
        )
    inner, size = keys.number("ssm.inner_size"), keys.number("ssm.state_size")
    groups = keys.number("ssm.group_count", default=0)
    kernel = keys.number("ssm.conv_kernel")
    through = inner + 2 * groups * size
    return StateLayer(
        tensors=(
            StateTensor(name="conv", shape=(kernel - 1, through), dtype="fp32"),
            StateTensor(name="ssm", shape=(size, inner), dtype="fp32"),
        ),
        mechanism="mamba2" if groups else "mamba1",
    )


class _Keys:
    """Look-ups under the file's architecture prefix."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        arch = metadata.get("general.architecture")
        if not isinstance(arch, str) or not arch:
            raise ModelError("the file has no general.architecture")
        self.arch = arch
        self._metadata = metadata

    def value(self, name: str) -> Any:
        return self._metadata.get(f"{self.arch}.{name}")

    def has(self, name: str) -> bool:
        return self.value(name) is not None

    def number(
        self, name: str, *, default: int | None = None, maximum: int = check.MAX_TOKENS
    ) -> int:
        value = self.value(name)
        if value is None:
            if default is None:
                raise ModelError(f"the file has no {self.arch}.{name}")
            return default
        return check.integer(value, f"{self.arch}.{name}", minimum=0, maximum=maximum)

    def per_layer(self, name: str, *, default: int | None = None) -> list[int]:
        """One number per layer: the file states one for all, or an array."""
        count = max(1, self.number("block_count", maximum=check.MAX_LAYERS))
        value = self.value(name)
        if not isinstance(value, list):
            return [self.number(name, default=default)] * count
        if len(value) < count:
            raise ModelError(f"{self.arch}.{name} has {len(value)} items for {count} layers")
        return [
            check.integer(item, f"{self.arch}.{name}", minimum=0, maximum=check.MAX_DIM)
            for item in value[:count]
        ]

    def kv_heads(self, index: int) -> int:
        heads = self.per_layer("attention.head_count")[index]
        if not self.has("attention.head_count_kv"):
            return heads
        return self.per_layer("attention.head_count_kv")[index]

    def is_mlp(self, index: int) -> bool:
        """A layer of a hybrid that holds a feed-forward layer and nothing else."""
        if self.arch not in {"nemotron_h", "nemotron_h_moe"}:
            return False
        return self.per_layer("feed_forward_length", default=0)[index] > 0

    def head_dims(self, index: int, *, is_windowed: bool) -> tuple[int, int]:
        heads = max(1, self.per_layer("attention.head_count")[index])
        usual = self.number("embedding_length") // heads
        suffix = "_swa" if is_windowed and self.has("attention.key_length_swa") else ""
        return (
            self.number(f"attention.key_length{suffix}", default=usual),
            self.number(f"attention.value_length{suffix}", default=usual),
        )

    def refuse_unknown(self) -> None:
        covered = _COVERED.get(self.arch, ())
        for key in self._metadata:
            name = key.removeprefix(f"{self.arch}.")
            smell = next((s for s in _SMELLS if s in name and s not in covered), None)
            if name != key and smell is not None:
                raise ModelError(f"no rule covers the cache behind {key}")
        known = _ONLY_STATE | _BOTH | _BY_HEADS | _INTERVALS.keys()
        if self.has("ssm.state_size") and self.arch not in known:
            raise ModelError(f"no rule says which layers of {self.arch} keep a state")

    def notes(self) -> tuple[str, ...]:
        notes = ["cache and state as llama.cpp keeps them"]
        if self.has("attention.kv_lora_rank") and not self.has("attention.key_length_mla"):
            notes.append("the file predates latent caches: keys and values are kept expanded")
        return tuple(notes)
