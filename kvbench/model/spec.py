"""The model spec: an ordered tuple of layer specs, each of one kind with its own fields.

Nothing here knows an engine, a file format or a device. Element types are the business of
``kvbench.model.dtypes``; bytes follow in ``kvbench.model.sizing``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class FullLayer:
    """Full attention: K and V for every token.

    Attributes:
        kv_heads: KV heads of the whole model (before tensor parallelism).
        head_dim_k: Elements of one key head.
        head_dim_v: Elements of one value head.
    """

    kind: ClassVar[str] = "full"
    kv_heads: int
    head_dim_k: int
    head_dim_v: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlidingLayer:
    """Sliding-window attention: K and V of the last ``window`` tokens."""

    kind: ClassVar[str] = "sliding"
    kv_heads: int
    head_dim_k: int
    head_dim_v: int
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedLayer:
    """Chunked local attention: K and V of the current chunk of ``chunk`` tokens."""

    kind: ClassVar[str] = "chunked"
    kv_heads: int
    head_dim_k: int
    head_dim_v: int
    chunk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MlaLayer:
    """Multi-head latent attention: one tensor of latent + rope elements, no K/V pair.

    Attributes:
        latent_dim: Elements of the compressed latent.
        rope_dim: Elements of the rotary key beside it.
        compress: Tokens that share one cache entry (1 = none).
        window: Tokens the layer sees, ``None`` for all.
        expanded_heads: Heads of the K and V that the latent stands for, 0 when unknown: engines
            without latent caches keep those.
        expanded_dim: Elements of one such key head.
    """

    kind: ClassVar[str] = "mla"
    latent_dim: int
    rope_dim: int
    compress: int = 1
    window: int | None = None
    expanded_heads: int = 0
    expanded_dim: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexerLayer:
    """Extra per-token cache beside attention (DeepSeek sparse attention).

    Attributes:
        bytes_per_token: Bytes of one entry, whatever the cache dtype.
        compress: Tokens that share one entry (1 = none).
    """

    kind: ClassVar[str] = "indexer"
    bytes_per_token: int
    compress: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTensor:
    """One tensor of a sequence's state.

    Attributes:
        name: ``conv`` or ``ssm`` (any recurrent state).
        shape: Elements per dimension for the whole model.
        dtype: Element type the reference implementation keeps, ``auto`` for the model's.
        tp_dim: Index of the dimension that tensor parallelism divides, ``None`` if replicated.
        stated_dtype: Element type that the model's config asks engines for, empty when it says
            nothing and engines follow their own default.
        tp_units: Indivisible parts (heads, groups) along ``tp_dim``; every rank holds at least
            one. 0 divides element by element.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    tp_dim: int | None = None
    stated_dtype: str = ""
    tp_units: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLayer:
    """Fixed bytes per sequence: convolution and recurrent (SSM, linear-attention) state."""

    kind: ClassVar[str] = "state"
    tensors: tuple[StateTensor, ...]
    mechanism: str = "mamba2"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossLayer:
    """Cross attention: K and V of the encoder's tokens."""

    kind: ClassVar[str] = "cross"
    kv_heads: int
    head_dim_k: int
    head_dim_v: int
    encoder_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLayer:
    """Reuses the cache of layer ``source`` (index into the layers): 0 bytes of its own."""

    kind: ClassVar[str] = "shared"
    source: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoneLayer:
    """Holds no cache (MLP-only or skipped layer)."""

    kind: ClassVar[str] = "none"


LayerSpec: TypeAlias = (
    FullLayer
    | SlidingLayer
    | ChunkedLayer
    | MlaLayer
    | IndexerLayer
    | StateLayer
    | CrossLayer
    | SharedLayer
    | NoneLayer
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """What the memory of one forward pass depends on, beside the residual stream.

    Attributes:
        vocabulary: Logits of one token.
        inner: Inner elements of a dense feed-forward layer, 0 when every layer has experts.
        experts_per_token: Routed experts that one token visits, 0 for a dense model.
        expert_inner: Inner elements of one routed expert.
        has_vision: A vision tower runs beside the language model.
    """

    vocabulary: int
    inner: int = 0
    experts_per_token: int = 0
    expert_inner: int = 0
    has_vision: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedExperts:
    """The experts of a mixture, of which a token visits some.

    Attributes:
        count: Routed experts of a layer.
        per_token: How many of them one token visits.
        parameters: Parameters of all of them in all layers; shared experts are not among them.
        weight_bytes: Bytes of those parameters.
    """

    count: int
    per_token: int
    parameters: int
    weight_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """The KV geometry of a model.

    A decoder layer that owns two caches (parallel attention and Mamba, MLA and its indexer)
    appears as two consecutive layer specs: the tuple lists *caches*, in model order.

    Attributes:
        name: How the user called it.
        layers: One spec per cache, in model order.
        query_heads: Query heads of one attention layer, 0 when unknown.
        hidden_size: Width of the residual stream, 0 when unknown.
        dtype: Element type of weights and activations (``bf16`` …): what ``auto`` means.
        max_context_tokens: Longest context the model states, ``None`` when it states none.
        weight_bytes: Bytes of all weights, ``None`` when not known.
        weight_source: Where ``weight_bytes`` comes from (headers, formula), or why it is unknown.
        weight_replicated_bytes: Part of ``weight_bytes`` that every tensor-parallel rank holds.
        parameters: How many parameters, ``None`` when not known.
        widths: What the memory of one forward pass depends on, ``None`` when not known.
        experts: Routed experts, ``None`` for a dense model and when they are not known.
        source: File, catalog entry or table the spec was read from.
        assumptions: Sentences about anything that was not stated by the source.
        model_type: Family as its config names it (``qwen3_next``), empty for inline geometry.
        architecture: Class of the model by its config, empty when it states none.
        decoder_layers: Index of the decoder layer that each cache belongs to, empty when every
            decoder layer has exactly one entry in ``layers``.
        traits: Facts about the attention that engines decide by and that carry no bytes:
            ``alibi``, ``sinks``, ``encoder_decoder`` …
    """

    name: str
    layers: tuple[LayerSpec, ...]
    query_heads: int = 0
    hidden_size: int = 0
    dtype: str = "bf16"
    max_context_tokens: int | None = None
    weight_bytes: int | None = None
    weight_source: str = ""
    weight_replicated_bytes: int = 0
    parameters: int | None = None
    widths: Widths | None = None
    experts: RoutedExperts | None = None
    source: str = ""
    assumptions: tuple[str, ...] = field(default=())
    model_type: str = ""
    architecture: str = ""
    decoder_layers: tuple[int, ...] = ()
    traits: frozenset[str] = frozenset()
