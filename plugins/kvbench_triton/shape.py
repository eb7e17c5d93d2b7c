"""What one decode call attends to, checked, without torch."""

from __future__ import annotations

from dataclasses import dataclass

from kvbench.engine import Scalar
from kvbench.errors import EngineUnavailable, ModelError
from kvbench.model.spec import FullLayer, LayerSpec, MlaLayer, ModelSpec, SlidingLayer

#: Cache element types and their bytes.
KV_ITEM_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8_e4m3": 1, "int8": 1}
HEAD_DIMS = (64, 96, 128, 192, 256)
LATENT_DIMS = (256, 512)
ROPE_DIMS = (32, 64)
PAGE_SIZES = (16, 32, 64, 128, 256)

#: Bytes of the two float32 scales (K and V) of one token and KV head under int8.
INT8_SCALE_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeShape:
    """One decode step of one attention layer.

    Attributes:
        query_heads: Query heads.
        kv_heads: KV heads (1 for MLA).
        head_dim_k: Elements of a key (latent and rotary part together for MLA).
        head_dim_v: Elements of a value (the latent for MLA).
        rope_dim: Elements of the rotary part of an MLA row, 0 for a K/V pair.
        page_size: Tokens per block.
        kv_dtype: ``fp32``, ``bf16``, ``fp16``, ``fp8_e4m3`` or ``int8`` (scale per token-head).
        query_dtype: Element type of queries and outputs.
        window: Tokens a query sees, 0 for all.
        softcap: Scores become ``softcap * tanh(score / softcap)``, 0 for none.
        sinks: A learned logit for each query head joins the softmax.
        scale: Softmax scale, 0 for ``head_dim_k ** -0.5``.
    """

    query_heads: int
    kv_heads: int
    head_dim_k: int
    head_dim_v: int
    page_size: int
    kv_dtype: str
    rope_dim: int = 0
    query_dtype: str = "bf16"
    window: int = 0
    softcap: float = 0.0
    sinks: bool = False
    scale: float = 0.0

    @property
    def is_mla(self) -> bool:
        """Whether the cache holds one latent row instead of a K/V pair."""
        return self.rope_dim > 0

    @property
    def group(self) -> int:
        """Query heads of one KV head."""
        return self.query_heads // self.kv_heads

    @property
    def softmax_scale(self) -> float:
        """The factor on scores before the soft cap."""
        return self.scale or float(self.head_dim_k**-0.5)

    @property
    def row_elements(self) -> int:
        """Cache elements of one token and KV head."""
        return self.head_dim_k if self.is_mla else self.head_dim_k + self.head_dim_v

    @property
    def token_bytes(self) -> int:
        """Cache bytes of one token, scales included."""
        scale = INT8_SCALE_BYTES if self.kv_dtype == "int8" else 0
        return self.kv_heads * (self.row_elements * KV_ITEM_BYTES[self.kv_dtype] + scale)

    @property
    def block_bytes(self) -> int:
        """Cache bytes of one block of one layer."""
        return self.page_size * self.token_bytes

    def visible(self, tokens: int) -> int:
        """Tokens the query of a sequence of ``tokens`` tokens attends to."""
        return min(tokens, self.window) if self.window else tokens


def unsupported(shape: DecodeShape) -> str:
    """Return why the kernels cannot run ``shape`` and what would be right, empty if they can."""
    if shape.kv_dtype not in KV_ITEM_BYTES:
        return f"kv_dtype {shape.kv_dtype!r}; the kernels read {', '.join(KV_ITEM_BYTES)}"
    if shape.page_size not in PAGE_SIZES:
        return f"block_size {shape.page_size}; the kernels take {_listed(PAGE_SIZES)}"
    if shape.query_heads % shape.kv_heads or shape.query_heads < 1:
        return (
            f"{shape.query_heads} query heads over {shape.kv_heads} KV heads; "
            "query heads must be a multiple of KV heads"
        )
    return _bad_mla(shape) if shape.is_mla else _bad_dims(shape)


def _bad_dims(shape: DecodeShape) -> str:
    for dim in (shape.head_dim_k, shape.head_dim_v):
        if dim not in HEAD_DIMS:
            return f"head dim {dim}; the kernels take {_listed(HEAD_DIMS)}"
    return ""


def _bad_mla(shape: DecodeShape) -> str:
    if shape.head_dim_v not in LATENT_DIMS or shape.rope_dim not in ROPE_DIMS:
        return (
            f"MLA latent {shape.head_dim_v} + rope {shape.rope_dim}; the kernel takes "
            f"{_listed(LATENT_DIMS)} + {_listed(ROPE_DIMS)}"
        )
    if shape.kv_dtype in ("fp8_e4m3", "int8") or shape.softcap or shape.sinks:
        return "MLA with a quantised cache, a soft cap or sinks; use bf16, fp16 or fp32 without"
    return ""


def _listed(values: tuple[int, ...]) -> str:
    return ", ".join(map(str, values))


def check(shape: DecodeShape) -> DecodeShape:
    """Return ``shape``.

    Raises:
        EngineUnavailable: The kernels cannot run it; the remedy says what they can.
    """
    problem = unsupported(shape)
    if problem:
        what, _, remedy = problem.partition("; ")
        raise EngineUnavailable(f"the Triton kernels do not support {what}", remedy)
    return shape


def layer_shape(model: ModelSpec, settings: dict[str, Scalar]) -> DecodeShape:
    """Return the shape of the layer that ``settings["layer"]`` names (``auto``: the first).

    Raises:
        ModelError: The model has no such layer, or does not say how many query heads it has.
        EngineUnavailable: The kernels cannot run the layer.
    """
    if model.query_heads < 1:
        raise ModelError(f"model {model.name}: query_heads is not known; state it in the suite")
    layer = _find_layer(model, str(settings["layer"]))
    return check(_from_layer(layer, model, settings))


def decodable_layers(model: ModelSpec) -> tuple[FullLayer | SlidingLayer | MlaLayer, ...]:
    """Layers of ``model`` that own a cache these kernels read."""
    return tuple(x for x in model.layers if isinstance(x, FullLayer | SlidingLayer | MlaLayer))


def _find_layer(model: ModelSpec, kind: str) -> FullLayer | SlidingLayer | MlaLayer:
    found = decodable_layers(model)
    matching = [layer for layer in found if kind in ("auto", layer.kind)]
    if not matching:
        have = sorted({layer.kind for layer in model.layers})
        raise ModelError(
            f"model {model.name}: no layer of kind {kind!r} to decode; it has {', '.join(have)}"
        )
    return matching[0]


def _from_layer(layer: LayerSpec, model: ModelSpec, settings: dict[str, Scalar]) -> DecodeShape:
    kv_dtype = str(settings["kv_dtype"])
    if kv_dtype == "auto":
        kv_dtype = model.dtype
    common = {
        "query_heads": model.query_heads,
        "page_size": int(settings["block_size"]),
        "kv_dtype": kv_dtype,
        "query_dtype": model.dtype if model.dtype in ("bf16", "fp16", "fp32") else "bf16",
        "softcap": float(settings["softcap"]),
        "sinks": bool(settings["sinks"]),
    }
    if isinstance(layer, MlaLayer):
        return DecodeShape(
            **common,  # type: ignore[arg-type]
            kv_heads=1,
            head_dim_k=layer.latent_dim + layer.rope_dim,
            head_dim_v=layer.latent_dim,
            rope_dim=layer.rope_dim,
        )
    assert isinstance(layer, FullLayer | SlidingLayer)
    return DecodeShape(
        **common,  # type: ignore[arg-type]
        kv_heads=layer.kv_heads,
        head_dim_k=layer.head_dim_k,
        head_dim_v=layer.head_dim_v,
        window=layer.window if isinstance(layer, SlidingLayer) else 0,
    )
