"""Logical bytes of a model's cache: what must be resident for the tokens held now.

Every figure is for one request on one rank. A cache costs ``entry_bytes`` for each entry of its
visible tokens plus ``fixed_bytes``, so that the whole model is a short list of such costs and any
context length is a few multiplications away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

from kvbench.errors import ModelError
from kvbench.model.dtypes import KvDtype, kv_dtype
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
    StateTensor,
)

HeadLayer = FullLayer | SlidingLayer | ChunkedLayer | CrossLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCost:
    """What one cache costs one request on one rank.

    Attributes:
        entry_bytes: Bytes of one entry.
        compress: Tokens that share one entry.
        visible_tokens: Most tokens the layer can see, ``None`` for all.
        fixed_bytes: Bytes whatever the length (state, cross attention).
    """

    entry_bytes: int = 0
    compress: int = 1
    visible_tokens: int | None = None
    fixed_bytes: int = 0

    def bytes_at(self, tokens: int) -> int:
        """Bytes for a request that holds ``tokens`` tokens."""
        if self.visible_tokens is not None and tokens > self.visible_tokens:
            tokens = self.visible_tokens
        return self.fixed_bytes + self.entry_bytes * (tokens // self.compress)

    def slope_at(self, tokens: int) -> Fraction | int:
        """Bytes per further token of a request that holds ``tokens`` tokens."""
        if self.visible_tokens is not None and tokens >= self.visible_tokens:
            return 0
        if self.compress == 1:
            return self.entry_bytes
        return Fraction(self.entry_bytes, self.compress)


#: Costs of a rank's caches: pairs of a cost and the number of caches that have it.
Costs: TypeAlias = tuple[tuple[CacheCost, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalSize:
    """Logical bytes of one request on one rank.

    ``logical_bytes = slope_bytes_per_token * tokens + intercept_bytes`` exactly, and
    the next token costs the slope.

    Attributes:
        tokens: Tokens the request holds.
        slope_bytes_per_token: Bytes per further token; a fraction only where several tokens
            share one cache entry.
        intercept_bytes: The rest: full windows, state, cross attention.
        logical_bytes: What must be resident.
    """

    tokens: int
    slope_bytes_per_token: Fraction | int
    intercept_bytes: Fraction | int
    logical_bytes: int


def logical_size(
    model: ModelSpec, tokens: int, *, kv_dtype: str = "auto", tp: int = 1, pp: int = 1
) -> LogicalSize:
    """Size one request of ``tokens`` tokens on the fullest rank.

    Args:
        model: The model.
        tokens: Tokens the request holds, at least 0.
        kv_dtype: Cache element type, ``auto`` for the model's.
        tp: Tensor-parallel ranks: KV heads are divided, one head per rank at least; latent
            caches and indexers are replicated.
        pp: Pipeline stages: the stage with the most logical bytes counts.

    Raises:
        ModelError: An unknown dtype or an impossible number of ranks.
    """
    stages = stage_costs(model, kv_dtype=kv_dtype, tp=tp, pp=pp)
    return max((size_at(stage, tokens) for stage in stages), key=lambda size: size.logical_bytes)


def logical_bytes(
    model: ModelSpec, tokens: int, *, kv_dtype: str = "auto", tp: int = 1, pp: int = 1
) -> int:
    """``logical_size(...).logical_bytes``."""
    return logical_size(model, tokens, kv_dtype=kv_dtype, tp=tp, pp=pp).logical_bytes


def stage_costs(
    model: ModelSpec, *, kv_dtype: str = "auto", tp: int = 1, pp: int = 1
) -> tuple[Costs, ...]:
    """Costs per pipeline stage: pairs of a cost and the number of caches that have it."""
    if tp < 1 or pp < 1:
        raise ModelError(f"tp and pp are at least 1, got tp={tp}, pp={pp}")
    element = _element(kv_dtype, model)
    return tuple(layer_costs(stage, model, element, tp) for stage in pipeline_stages(model, pp))


def layer_costs(
    layers: Sequence[LayerSpec], model: ModelSpec, element: KvDtype, tp: int = 1
) -> Costs:
    """Costs of ``layers`` on one of ``tp`` ranks."""
    return tuple(
        [(cache_cost(layer, model, element, tp), count) for layer, count in layer_runs(layers)]
    )


def layer_runs(layers: Sequence[LayerSpec]) -> tuple[tuple[LayerSpec, int], ...]:
    """Equal caches with their number, in order of first appearance.

    Adapters share one object among equal layers, so most of the work is done by identity.
    """
    by_identity = Counter(map(id, layers))
    objects = dict(zip(map(id, layers), layers, strict=True))
    runs: dict[LayerSpec, int] = {}
    for identity, count in by_identity.items():
        layer = objects[identity]
        runs[layer] = runs.get(layer, 0) + count
    return tuple(runs.items())


def distinct_layers(layers: Sequence[LayerSpec]) -> tuple[LayerSpec, ...]:
    """Every different cache once, in order of first appearance."""
    return tuple([layer for layer, _ in layer_runs(layers)])


def pipeline_stages(model: ModelSpec, pp: int) -> tuple[tuple[LayerSpec, ...], ...]:
    """Split the caches into ``pp`` contiguous stages of whole decoder layers.

    Raises:
        ModelError: More stages than decoder layers.
    """
    if pp == 1:
        return (model.layers,)
    owners = _owners(model)
    return tuple(
        tuple(layer for layer, owner in zip(model.layers, owners, strict=True) if owner in stage)
        for stage in pipeline_owners(model, pp)
    )


def pipeline_owners(model: ModelSpec, pp: int) -> tuple[range, ...]:
    """Decoder layers of each of ``pp`` stages.

    Layers that do not divide evenly go to the stages before the last, which also holds the
    final norm and the head (vLLM's rule).

    Raises:
        ModelError: More stages than decoder layers.
    """
    total = max(_owners(model), default=-1) + 1
    if pp > total > 0:
        raise ModelError(f"{model.name}: {pp} pipeline stages for {total} decoder layers")
    return tuple(range(first, last) for first, last in pairwise(_stage_bounds(total, pp)))


def _owners(model: ModelSpec) -> Sequence[int]:
    return model.decoder_layers or range(len(model.layers))


def _stage_bounds(total: int, pp: int) -> list[int]:
    sizes = [total // pp] * pp
    for extra in range(total % pp):
        sizes[-(extra + 2)] += 1
    bounds = [0]
    for size in sizes:
        bounds.append(bounds[-1] + size)
    return bounds


def heads_on_rank(kv_heads: int, tp: int) -> int:
    """KV heads of the fullest of ``tp`` ranks: divided, but never below one."""
    return max(1, -(-kv_heads // tp))


def cache_cost(layer: LayerSpec, model: ModelSpec, element: KvDtype, tp: int = 1) -> CacheCost:
    """Cost of one cache: the formula of its kind.

    ``full`` and windowed layers hold K and V of every KV head; ``mla`` one latent vector per
    token and no V; ``indexer`` its own bytes; ``state`` and ``cross`` a fixed amount.
    """
    match layer:
        case FullLayer():
            return CacheCost(entry_bytes=_pair_bytes(layer, element, tp))
        case SlidingLayer():
            return _windowed(_pair_bytes(layer, element, tp), layer.window)
        case ChunkedLayer():
            return _windowed(_pair_bytes(layer, element, tp), layer.chunk)
        case MlaLayer():
            return CacheCost(
                entry_bytes=element.latent_bytes(layer.latent_dim, layer.rope_dim),
                compress=layer.compress,
                visible_tokens=layer.window,
            )
        case IndexerLayer():
            return CacheCost(entry_bytes=layer.bytes_per_token, compress=layer.compress)
        case StateLayer():
            return CacheCost(fixed_bytes=state_bytes(layer, model, tp))
        case CrossLayer():
            return CacheCost(fixed_bytes=_pair_bytes(layer, element, tp) * layer.encoder_tokens)
    return CacheCost()


def state_bytes(layer: StateLayer, model: ModelSpec, tp: int = 1) -> int:
    """Bytes of one layer's state of one sequence on one rank."""
    return sum(_tensor_bytes(tensor, model, tp) for tensor in layer.tensors)


def _tensor_bytes(tensor: StateTensor, model: ModelSpec, tp: int) -> int:
    elements = 1
    for index, size in enumerate(tensor.shape):
        elements *= _share(size, tensor.tp_units or size, tp) if index == tensor.tp_dim else size
    return kv_dtype(tensor.dtype, model.dtype).bytes_for(elements)


def _share(size: int, units: int, tp: int) -> int:
    return size // units * -(-units // tp)


def _pair_bytes(layer: HeadLayer, element: KvDtype, tp: int) -> int:
    heads = heads_on_rank(layer.kv_heads, tp)
    return element.bytes_for(layer.head_dim_k, heads) + element.bytes_for(layer.head_dim_v, heads)


def _windowed(entry_bytes: int, window: int) -> CacheCost:
    return CacheCost(entry_bytes=entry_bytes, visible_tokens=window)


def _element(name: str, model: ModelSpec) -> KvDtype:
    return kv_dtype(name, model.dtype)


def size_at(costs: Costs, tokens: int) -> LogicalSize:
    """Logical size of a request of ``tokens`` tokens whose caches cost ``costs``."""
    total = sum(cost.bytes_at(tokens) * count for cost, count in costs)
    slope = sum(cost.slope_at(tokens) * count for cost, count in costs)
    if slope.denominator == 1:
        slope = int(slope)
    return LogicalSize(
        tokens=tokens,
        slope_bytes_per_token=slope,
        intercept_bytes=total - slope * tokens,
        logical_bytes=total,
    )
