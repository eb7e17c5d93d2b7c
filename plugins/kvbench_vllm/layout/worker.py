"""From a model spec to the caches of one vLLM worker: shapes, element types, block sizes.

Mirrors the attention layers' KV cache specs, the block size choice of the platform
(``vllm/platforms/interface.py``) and the state shapes of vLLM 0.32.0, as on an H100.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvbench.errors import ModelError
from kvbench.layout import LayoutOptions
from kvbench.model.dtypes import KvDtype, kv_dtype
from kvbench.model.sizing import distinct_layers, heads_on_rank, state_bytes
from kvbench.model.spec import (
    ChunkedLayer,
    CrossLayer,
    FullLayer,
    IndexerLayer,
    LayerSpec,
    MlaLayer,
    ModelSpec,
    SlidingLayer,
    StateLayer,
)
from kvbench_vllm.layout.derivation import BlockRule
from kvbench_vllm.layout.options import EngineOptions
from kvbench_vllm.layout.spec import CacheSpec

DEFAULT_BLOCK = 16
_FLASH_MLA_BLOCK = 64
_SPARSE_MLA_BLOCK = 64
_M3_BLOCK = 128
_V4_BLOCK = 256
_V4_ALIGNMENT = 576
#: One V4 entry in fp8: 448 elements, 64 rope elements in bf16, 7 scales and a byte of padding.
_V4_ENTRY_BYTES = 584
_WIDE_HEAD = 512

#: Cohere 2 sees [position - window, position]: one token more than its config says.
_INCLUSIVE_WINDOW = frozenset({"cohere2", "cohere2_moe"})
#: Families whose state engines keep in fp32 unless told otherwise.
_FP32_STATE = frozenset({"kimi_delta_attention", "compressor"})
#: Families whose attention layers never hear of the cache dtype.
_UNQUANTIZED = frozenset({"falcon", "RefinedWeb", "RefinedWebModel"})
#: Families with a latent in their weights whose cache vLLM keeps expanded, as plain heads.
_EXPANDED_LATENT = frozenset({"minicpm3"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """What decides the caches of one worker.

    Attributes:
        model: The model.
        distinct: Every different cache of the model once.
        tp: Tensor-parallel ranks.
        dtype: Element type of weights and activations.
        element: Element type of the cache.
        options: Engine options.
        block_size: Tokens per block that the user asked for, ``None`` for the engine's choice.
    """

    model: ModelSpec
    distinct: tuple[LayerSpec, ...]
    tp: int
    dtype: str
    element: KvDtype
    options: EngineOptions
    block_size: int | None = None

    @property
    def has_state(self) -> bool:
        """Whether recurrent layers stand beside attention or alone."""
        return any(
            isinstance(layer, StateLayer) and layer.mechanism != "compressor"
            for layer in self.distinct
        )

    @property
    def is_hybrid(self) -> bool:
        """Whether attention and recurrent layers stand together."""
        return self.has_state and any(not isinstance(layer, StateLayer) for layer in self.distinct)

    @property
    def caches_prefixes(self) -> bool:
        """Whether prefix caching is on: by choice, else for models with attention."""
        if self.options.enable_prefix_caching is not None:
            return self.options.enable_prefix_caching
        alone = self.has_state and not self.is_hybrid
        return not alone and "encoder_decoder" not in self.model.traits

    @property
    def max_model_len(self) -> int:
        """Longest request: by choice, else what the model states."""
        return self.options.max_model_len or self.model.max_context_tokens or 2048


def make_worker(model: ModelSpec, options: LayoutOptions, engine: EngineOptions) -> Worker:
    """Resolve element types.

    fp32 models run in bf16. A quantized cache of a model with a sparse indexer is
    ``fp8_ds_mla``; DeepSeek V4 has no other.

    Raises:
        ModelError: An unknown element type, or one that vLLM does not have.
    """
    dtype = model.dtype if engine.dtype == "auto" else engine.dtype
    dtype = "bf16" if dtype == "fp32" and engine.dtype == "auto" else dtype
    element = kv_dtype(options.kv_dtype, dtype)
    distinct = distinct_layers(model.layers)
    kinds = {layer.kind for layer in distinct}
    if element.bits == 8 and {"mla", "indexer"} <= kinds:
        element = kv_dtype("fp8_ds_mla")
    if _is_v4(model):
        element = kv_dtype("fp8_ds_mla")
    if model.model_type in _UNQUANTIZED:
        element = kv_dtype("auto", dtype)
    _check_element(element, kinds, model)
    return Worker(
        model=model,
        distinct=distinct,
        tp=options.tp,
        dtype=dtype,
        element=element,
        options=engine,
        block_size=options.block_size,
    )


_NO_TYPES = frozenset({"q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "fp32"})


def _check_element(element: KvDtype, kinds: set[str], model: ModelSpec) -> None:
    if element.name in _NO_TYPES:
        raise ModelError(f"vLLM has no KV cache dtype {element.name!r}")
    if element.name == "fp8_ds_mla" and not {"mla", "indexer"} <= kinds:
        raise ModelError(f"{model.name}: fp8_ds_mla needs latent attention with a sparse indexer")
    if "mla" in kinds and element.vector_scale_bytes:
        raise ModelError(f"{model.name}: vLLM has no {element.name} cache for latent attention")


def _is_v4(model: ModelSpec) -> bool:
    return model.model_type == "deepseek_v4"


def attention_block_size(worker: Worker) -> int:
    """Tokens per block before state pages have their say: what every backend accepts."""
    if worker.block_size is not None:
        return worker.block_size
    kinds = {layer.kind for layer in worker.distinct}
    if _is_v4(worker.model):
        return _V4_BLOCK
    if "indexer" in kinds:
        return _SPARSE_MLA_BLOCK if "mla" in kinds else _M3_BLOCK
    if "mla" in kinds and worker.element.bits == 8 and not _expands(worker.model):
        return _FLASH_MLA_BLOCK
    if worker.element.name == "fp8_e4m3" and _widest_head(worker) == _WIDE_HEAD:
        return _FLASH_MLA_BLOCK
    return DEFAULT_BLOCK


def _expands(model: ModelSpec) -> bool:
    return model.model_type in _EXPANDED_LATENT


def _widest_head(worker: Worker) -> int:
    heads = (FullLayer, SlidingLayer, ChunkedLayer)
    return max(
        [layer.head_dim_k for layer in worker.distinct if isinstance(layer, heads)],
        default=0,
    )


def block_size(worker: Worker) -> int:
    """Tokens per block of attention layers."""
    size = attention_block_size(worker)
    rule = block_rule(worker, size)
    return size if rule is None else max(size, rule.size)


def block_rule(worker: Worker, size: int) -> BlockRule | None:
    """Why the block of a hybrid grows, ``None`` where it does not have to.

    An attention page must cover a state page: the block is the next multiple of its alignment,
    ``align * ceil(state_bytes / (align * bytes_per_token))``.
    """
    if not worker.is_hybrid:
        return None
    uses_mla = any(isinstance(layer, MlaLayer) for layer in worker.distinct)
    kernel = _FLASH_MLA_BLOCK if uses_mla and worker.element.bits == 8 else DEFAULT_BLOCK
    align = max(kernel, size, 128 if uses_mla else 0)
    state = max(state_page_bytes(worker, layer) for layer in _states(worker))
    token = _token_bytes(worker)
    wanted = align * -(-state // (align * token))
    grown = -(-wanted // kernel) * kernel
    return BlockRule(align=align, state_bytes=state, token_bytes=token, size=grown)


def _token_bytes(worker: Worker) -> int:
    """Bytes of one token in one attention layer."""
    attention = [layer for layer in worker.distinct if not isinstance(layer, StateLayer)]
    return max([_entry_bytes(worker, layer) for layer in attention], default=0)


def _states(worker: Worker) -> list[StateLayer]:
    return [
        layer
        for layer in worker.distinct
        if isinstance(layer, StateLayer) and layer.mechanism != "compressor"
    ]


def state_page_bytes(worker: Worker, layer: StateLayer) -> int:
    """Bytes of one layer's state of one sequence, in the element types that vLLM keeps."""
    tensors = tuple(
        [
            replace(tensor, dtype=_state_dtype(worker, layer, tensor.name, tensor.stated_dtype))
            for tensor in layer.tensors
        ]
    )
    return state_bytes(replace(layer, tensors=tensors), worker.model, worker.tp)


def _state_dtype(worker: Worker, layer: StateLayer, name: str, stated: str) -> str:
    if name == "conv":
        return worker.dtype
    if worker.options.mamba_ssm_cache_dtype != "auto":
        return worker.options.mamba_ssm_cache_dtype
    if stated:
        return stated
    return "fp32" if layer.mechanism in _FP32_STATE else worker.dtype


def state_blocks(worker: Worker) -> int:
    """Blocks that a request takes in a state group.

    With prefix caching the previous block's state is kept beside the running one, and kernels
    that export a state from inside a prefill take one more.
    """
    if not worker.caches_prefixes:
        return 1
    mechanisms = {layer.mechanism for layer in _states(worker)}
    exports = "mamba2" in mechanisms or worker.model.architecture.startswith("KimiK3")
    return 3 if exports else 2


def cache_spec(worker: Worker, layer: LayerSpec, size: int) -> CacheSpec | None:
    """The cache that ``layer`` registers, ``None`` for a layer that owns none."""
    match layer:
        case MlaLayer() | IndexerLayer():
            return _latent_spec(worker, layer, size)
        case StateLayer():
            return _state_spec(worker, layer, size)
        case FullLayer() | SlidingLayer() | ChunkedLayer() | CrossLayer():
            return _heads_spec(worker, layer, size)
    return None


def _heads_spec(
    worker: Worker, layer: FullLayer | SlidingLayer | ChunkedLayer | CrossLayer, size: int
) -> CacheSpec:
    window = None
    if isinstance(layer, SlidingLayer):
        window = layer.window + (worker.model.model_type in _INCLUSIVE_WINDOW)
    elif isinstance(layer, ChunkedLayer):
        window = layer.chunk
    return CacheSpec(
        kind=layer.kind,
        block_size=size,
        entry_bytes=_entry_bytes(worker, layer),
        heads=heads_on_rank(layer.kv_heads, worker.tp),
        head_dims=(layer.head_dim_k, layer.head_dim_v),
        window=window,
        encoder_tokens=layer.encoder_tokens if isinstance(layer, CrossLayer) else 0,
        logical_tokens=layer.window if isinstance(layer, SlidingLayer) else window,
    )


def _entry_bytes(worker: Worker, layer: LayerSpec) -> int:
    element = worker.element
    match layer:
        case FullLayer() | SlidingLayer() | ChunkedLayer() | CrossLayer():
            heads = heads_on_rank(layer.kv_heads, worker.tp)
            return element.bytes_for(layer.head_dim_k, heads) + element.bytes_for(
                layer.head_dim_v, heads
            )
        case MlaLayer() if _is_v4(worker.model):
            return _V4_ENTRY_BYTES
        case MlaLayer() if _expands(worker.model):
            return _expanded_bytes(worker, layer)
        case MlaLayer():
            return element.latent_bytes(layer.latent_dim, layer.rope_dim)
        case IndexerLayer():
            return layer.bytes_per_token
    return 0


def _expanded_bytes(worker: Worker, layer: MlaLayer) -> int:
    if layer.expanded_heads == 0:
        raise ModelError(f"{worker.model.name}: vLLM keeps expanded heads that are not stated")
    heads = heads_on_rank(layer.expanded_heads, worker.tp)
    return 2 * worker.element.bytes_for(layer.expanded_dim, heads)


def _latent_spec(worker: Worker, layer: MlaLayer | IndexerLayer, size: int) -> CacheSpec:
    if _is_v4(worker.model):
        return _v4_spec(worker, layer)
    window = layer.window if isinstance(layer, MlaLayer) else None
    kind = "full" if _expands(worker.model) else layer.kind
    return CacheSpec(
        kind=kind if window is None else "sliding_mla",
        block_size=size,
        entry_bytes=_entry_bytes(worker, layer),
        compress=layer.compress,
        window=window,
        logical_tokens=window,
    )


def _v4_spec(worker: Worker, layer: MlaLayer | IndexerLayer) -> CacheSpec:
    window = layer.window if isinstance(layer, MlaLayer) else None
    return CacheSpec(
        kind=layer.kind if window is None else "sliding_mla",
        block_size=_V4_BLOCK if window is None else _SPARSE_MLA_BLOCK,
        entry_bytes=_entry_bytes(worker, layer),
        compress=layer.compress,
        window=window,
        alignment=_V4_ALIGNMENT,
        logical_tokens=window,
    )


def _state_spec(worker: Worker, layer: StateLayer, size: int) -> CacheSpec:
    if layer.mechanism == "compressor":
        return _ring_spec(layer)
    aligned = worker.caches_prefixes
    bare = CacheSpec(
        kind="state",
        block_size=size if aligned else worker.max_model_len,
        entry_bytes=state_page_bytes(worker, layer),
        heads=0,
    )
    page = size * _token_bytes(worker)
    return bare.padded_to(page) if worker.is_hybrid and page != bare.page_bytes else bare


def _ring_spec(layer: StateLayer) -> CacheSpec:
    """Raw keys of the open group: a short sliding cache of fp32 rows, 4 or 8 to a block."""
    tokens, elements = layer.tensors[0].shape
    return CacheSpec(
        kind="sliding_mla",
        block_size=4 if tokens <= 8 else 8,
        entry_bytes=4 * elements,
        window=tokens,
        alignment=_V4_ALIGNMENT,
        logical_tokens=tokens,
    )
