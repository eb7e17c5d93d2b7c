"""A roofline from a model spec and a device of the catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kvbench.device.spec import DeviceSpec
from kvbench.errors import DeviceError, KvbenchError, ModelError
from kvbench.model.dtypes import kv_dtype
from kvbench.model.sizing import CacheCost, cache_cost, layer_runs
from kvbench.model.spec import (
    ChunkedLayer,
    CrossLayer,
    FullLayer,
    IndexerLayer,
    LayerSpec,
    MlaLayer,
    ModelSpec,
    SharedLayer,
    SlidingLayer,
    StateLayer,
)
from kvbench.quantity import format_bytes
from kvbench_pool.step_time.roofline import AttentionCost, Roofline, WeightCost

#: Field of the device that holds the peak of each element type.
COMPUTE_DTYPES = {"bf16": "flops_per_s", "fp8": "fp8_flops_per_s"}

#: Bytes of a parameter when only the bytes of the weights are known.
_PARAMETER_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineOptions:
    """What a user may say about the machine and how well it is used.

    The defaults are round assumptions, not measurements: large matrix products reach about 60 %
    of the peak of the data sheet, streaming reads about 80 % of the bandwidth.

    Attributes:
        tp: Tensor-parallel ranks.
        pp: Pipeline stages; only 1 is modelled.
        kv_dtype: Element type of the cache.
        compute_dtype: Element type of products with the weights, ``bf16`` or ``fp8``; attention
            computes in bf16.
        compute_efficiency: Share of the device's peak FLOP/s that is reached.
        bandwidth_efficiency: Share of its peak bandwidth that is reached.
        step_overhead_ms: Milliseconds of a step beside both (launches, sampling, scheduling).
    """

    tp: int = 1
    pp: int = 1
    kv_dtype: str = "auto"
    compute_dtype: str = "bf16"
    compute_efficiency: float = 0.6
    bandwidth_efficiency: float = 0.8
    step_overhead_ms: float = 2.0

    def __post_init__(self) -> None:
        if self.compute_dtype not in COMPUTE_DTYPES:
            raise KvbenchError(
                f"compute_dtype is {self.compute_dtype!r}; expected {' or '.join(COMPUTE_DTYPES)}"
            )
        for name in ("compute_efficiency", "bandwidth_efficiency"):
            if not 0 < getattr(self, name) <= 1:
                raise KvbenchError(
                    f"{name} is {getattr(self, name)}; expected more than 0 and at most 1"
                )
        if not 0 <= self.step_overhead_ms < float("inf"):
            raise KvbenchError(f"step_overhead_ms is {self.step_overhead_ms}; expected 0 or more")
        if self.pp != 1:
            raise KvbenchError(f"step time 'roofline' knows no pipeline stages; pp is {self.pp}")


def roofline(
    model: ModelSpec, device: DeviceSpec, options: RooflineOptions | None = None
) -> Roofline:
    """Derive the roofline of a model on a device.

    Args:
        model: The model, weights included.
        device: One rank's device, with bandwidth and peak.
        options: Parallelism, efficiencies and overhead.

    Raises:
        DeviceError: The device lacks a figure.
        ModelError: The weights are not known, or do not fit the device.
    """
    options = options or RooflineOptions()
    _check_device(device, options)
    weights = _weights(model, options.tp)
    rank = weights.always_bytes + weights.expert_bytes
    if rank > device.memory_interval[2]:
        raise ModelError(
            f"{model.name}: {format_bytes(rank)} of weights on a rank do not fit {device.name} "
            f"({format_bytes(device.memory_bytes)}); raise tp or choose another device"
        )
    costs = _layer_costs(model, options)
    return Roofline(
        flops_per_s=device.flops_per_s * options.compute_efficiency,
        weight_speedup=_weight_flops_per_s(device, options) / device.flops_per_s,
        bytes_per_s=device.bandwidth_bytes_per_s * options.bandwidth_efficiency,
        overhead_s=options.step_overhead_ms / 1000,
        weights=weights,
        attention=_by_window(costs, options.tp),
        request_bytes=sum(cost.fixed_bytes for cost in costs),
        notes=tuple(_notes(model, device, options, weights)),
    )


def _check_device(device: DeviceSpec, options: RooflineOptions) -> None:
    for name in ("bandwidth_bytes_per_s", "flops_per_s", COMPUTE_DTYPES[options.compute_dtype]):
        if not getattr(device, name):
            raise DeviceError(
                f"device {device.name!r} has no {name}, which step time 'roofline' needs; "
                "state it in a [devices.NAME] table"
            )


def _weight_flops_per_s(device: DeviceSpec, options: RooflineOptions) -> int:
    peak: int = getattr(device, COMPUTE_DTYPES[options.compute_dtype])
    return peak


def _weights(model: ModelSpec, tp: int) -> WeightCost:
    if model.weight_bytes is None:
        reason = model.weight_source or "the model has only its cache's geometry"
        raise ModelError(
            f"{model.name}: step time 'roofline' needs the weights, which are not known "
            f"({reason}); state weight_bytes in a [models.NAME] table"
        )
    replicated, experts = model.weight_replicated_bytes, model.experts
    parameters = model.parameters or model.weight_bytes // _PARAMETER_BYTES
    if experts is None:
        return WeightCost(
            always_bytes=replicated + -(-(model.weight_bytes - replicated) // tp),
            flops_per_token=2 * parameters / tp,
        )
    dense = model.weight_bytes - replicated - experts.weight_bytes
    visited = experts.per_token / experts.count
    return WeightCost(
        always_bytes=replicated + -(-dense // tp),
        expert_bytes=-(-experts.weight_bytes // tp),
        visited_share=visited,
        flops_per_token=2 * (parameters - experts.parameters * (1 - visited)) / tp,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _LayerCost:
    """Equal layers, summed: bytes on one rank, FLOPs of all ranks."""

    window_tokens: int | None = None
    bytes_per_token: float = 0.0
    prefill_flops_per_pair: float = 0.0
    decode_flops_per_pair: float = 0.0
    fixed_bytes: int = 0


def _layer_costs(model: ModelSpec, options: RooflineOptions) -> list[_LayerCost]:
    element = kv_dtype(options.kv_dtype, model.dtype)
    # A layer without a cache of its own still reads the one that it shares.
    layers = [_source(model, layer) for layer in model.layers]
    return [
        _layer_cost(layer, count, cache_cost(layer, model, element, options.tp), model)
        for layer, count in layer_runs(layers)
    ]


def _source(model: ModelSpec, layer: LayerSpec) -> LayerSpec:
    while isinstance(layer, SharedLayer):
        layer = model.layers[layer.source]
    return layer


def _layer_cost(layer: LayerSpec, count: int, cost: CacheCost, model: ModelSpec) -> _LayerCost:
    prefill, decode = _flops_per_pair(layer, model)
    touched = 2 if isinstance(layer, StateLayer) else 1  # a state is read and written
    return _LayerCost(
        window_tokens=cost.visible_tokens,
        bytes_per_token=count * cost.entry_bytes / cost.compress,
        prefill_flops_per_pair=count * prefill / cost.compress,
        decode_flops_per_pair=count * decode / cost.compress,
        fixed_bytes=count * cost.fixed_bytes * touched,
    )


def _flops_per_pair(layer: LayerSpec, model: ModelSpec) -> tuple[int, int]:
    """FLOPs of one query-key pair in all heads of a layer: in a prefill, and in a decode.

    A product with a key of ``d_k`` elements and one with a value of ``d_v``: ``2 (d_k + d_v)``
    per query head. Latent attention decodes in the latent space and prefills in the expanded one.
    """
    match layer:
        case FullLayer() | SlidingLayer() | ChunkedLayer():
            heads = model.query_heads or layer.kv_heads
            flops = 2 * heads * (layer.head_dim_k + layer.head_dim_v)
            return flops, flops
        case MlaLayer():
            heads = model.query_heads or layer.expanded_heads or 1
            decode = 2 * heads * (2 * layer.latent_dim + layer.rope_dim)
            # The spec has no width of a value head; it is at most that of a key head.
            prefill = 4 * heads * layer.expanded_dim if layer.expanded_dim else decode
            return prefill, decode
    return 0, 0


def _by_window(costs: list[_LayerCost], tp: int) -> tuple[AttentionCost, ...]:
    windows = Counter(cost.window_tokens for cost in costs if cost.bytes_per_token)
    return tuple(_sum_of(window, costs, tp) for window in windows)


def _sum_of(window: int | None, costs: list[_LayerCost], tp: int) -> AttentionCost:
    same = [cost for cost in costs if cost.window_tokens == window]
    return AttentionCost(
        window_tokens=window,
        bytes_per_token=sum(cost.bytes_per_token for cost in same),
        prefill_flops_per_pair=sum(cost.prefill_flops_per_pair for cost in same) / tp,
        decode_flops_per_pair=sum(cost.decode_flops_per_pair for cost in same) / tp,
    )


def _notes(
    model: ModelSpec, device: DeviceSpec, options: RooflineOptions, weights: WeightCost
) -> Iterator[str]:
    yield (
        f"A step is a roofline on {device.name}: the longer of its FLOPs at "
        f"{options.compute_efficiency:g} of {device.flops_per_s / 1e12:g} TFLOP/s (dense bf16) "
        f"and its bytes at {options.bandwidth_efficiency:g} of "
        f"{device.bandwidth_bytes_per_s / 1e9:g} GB/s, plus {options.step_overhead_ms:g} ms; "
        "peaks from the data sheet, shares and overhead assumed or stated, nothing measured."
    )
    if options.compute_dtype != "bf16":
        yield (
            f"Products with the weights run at {_weight_flops_per_s(device, options) / 1e12:g} "
            f"TFLOP/s (dense {options.compute_dtype}) instead, attention in bf16."
        )
    yield from _weight_notes(model, weights)
    yield (
        "Attention is 2 FLOPs per query-key pair, query head and element of key and value, and "
        "reads the cache of each request once; activations, cache writes and sampling cost "
        "nothing beyond the overhead."
    )
    if options.tp > 1:
        yield (
            f"FLOPs divide evenly by {options.tp} ranks, weights and cache as they are sharded; "
            "communication between ranks costs nothing."
        )
    yield from _layer_notes(model)


def _weight_notes(model: ModelSpec, weights: WeightCost) -> Iterator[str]:
    yield (
        f"A step reads {format_bytes(weights.always_bytes)} of weights per rank once, and "
        "computes 2 FLOPs per token and parameter, embeddings included "
        f"({model.weight_source or 'weights as stated'})."
    )
    if model.experts is not None:
        yield (
            f"Of {format_bytes(weights.expert_bytes)} of routed experts per rank a step reads "
            f"those that its tokens visit, {model.experts.per_token} of {model.experts.count} "
            "each, chosen evenly and independently; a token computes in those it visits."
        )
    if model.parameters is None:
        yield "The number of parameters is not known; it is taken as weight bytes / 2."
    if model.experts is None and model.widths and model.widths.experts_per_token:
        yield (
            "The routed experts' share of the weights is not known: every step reads, and every "
            "token computes, all experts (too slow)."
        )
    if model.widths is not None and model.widths.has_vision:
        yield "The vision tower's weights count as if every step ran them."


def _layer_notes(model: ModelSpec) -> Iterator[str]:
    kinds = {type(layer) for layer in model.layers}
    if not model.query_heads and kinds & {FullLayer, SlidingLayer, ChunkedLayer}:
        yield "The number of query heads is not known; attention computes with its KV heads only."
    if ChunkedLayer in kinds:
        yield "Chunked attention counts as a window of one chunk, which is more than it sees."
    if StateLayer in kinds:
        yield "Recurrent state is read and written once per request and step; its scan is free."
    if IndexerLayer in kinds:
        yield "Sparse attention counts as if it attended to the whole context (too slow)."
    if CrossLayer in kinds:
        yield "Cross attention reads the encoder's cache; its arithmetic is free."
