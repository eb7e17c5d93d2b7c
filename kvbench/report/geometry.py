"""The artifact ``geometry``: a model's caches as the report's explorer needs them.

An engine that knows the model of a cell returns it beside its numbers::

    CellOutput(..., artifacts={"geometry": geometry_json(cell.model, cell.device)})

The explorer then recomputes bytes, blocks and concurrency in the page, integer for integer as
``kvbench.model.sizing`` and the ``paged`` layout do, for any context, dtype, block size and
number of ranks. The text depends on model and device only, never on the cell's other settings,
so equal models give equal texts and a run of many cells stores few of them. One JSON object::

    {"schema": 1,
     "model": "llama-3.1-8b",        name the user knows it by
     "dtype": "bf16",                what kv dtype "auto" means
     "weight_bytes": 16060522496,    null when unknown
     "max_context_tokens": 131072,   null when the model states none
     "caches": [                     equal caches once, in order of first appearance
       {"kind": "full", "layers": 32, "kv_heads": 8, "k": 128, "v": 128},
       {"kind": "sliding", "layers": 4, "kv_heads": 8, "k": 128, "v": 128, "window": 4096},
       {"kind": "chunked", ... "window": 8192},          window = chunk
       {"kind": "mla", "layers": 61, "latent": 512, "rope": 64, "compress": 1, "window": null},
       {"kind": "indexer", "layers": 61, "bytes": 132, "compress": 1},
       {"kind": "state", "layers": 3,
        "tensors": [{"shape": [8192, 4], "tp_dim": 0, "element": [16, 0, 0, 0, 0]}]},
       {"kind": "cross", "layers": 8, "kv_heads": 8, "k": 128, "v": 128, "tokens": 6404}],
     "kv_dtypes": {"bf16": [16, 0, 0, 0, 0], ...},
                                     bits, bytes per vector scale, elements per group,
                                     bytes per group scale, bits of a latent's rope part
     "device": {"name": "h200", "memory_bytes": 150754820096}}   null when the cell has none

Bytes are integers below 2**53, so that every JSON reader gets them exactly.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from kvbench.device.spec import DeviceSpec
from kvbench.model.dtypes import KV_DTYPES, KvDtype, kv_dtype
from kvbench.model.sizing import layer_runs
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

#: Name of the artifact in ``CellOutput.artifacts``.
ARTIFACT = "geometry"


@lru_cache(maxsize=256)
def geometry_json(model: ModelSpec, device: DeviceSpec | None = None) -> str:
    """Return the geometry of ``model`` (and the memory of ``device``) as canonical JSON."""
    caches = [_cache(layer, count, model) for layer, count in layer_runs(model.layers)]
    value = {
        "schema": 1,
        "model": model.name,
        "dtype": model.dtype,
        "weight_bytes": model.weight_bytes,
        "max_context_tokens": model.max_context_tokens,
        "caches": [cache for cache in caches if cache],
        "kv_dtypes": {name: _element(kind) for name, kind in KV_DTYPES.items()},
        "device": device and {"name": device.name, "memory_bytes": device.memory_bytes},
    }
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _element(kind: KvDtype) -> list[int]:
    scales = [kind.vector_scale_bytes, kind.group_elements, kind.group_scale_bytes]
    return [kind.bits, *scales, kind.rope_bits]


def _cache(layer: LayerSpec, count: int, model: ModelSpec) -> dict[str, Any]:
    fields = _fields(layer, model)
    return {"kind": layer.kind, "layers": count, **fields} if fields else {}


def _fields(layer: LayerSpec, model: ModelSpec) -> dict[str, Any]:
    match layer:
        case FullLayer():
            return _heads(layer)
        case SlidingLayer():
            return {**_heads(layer), "window": layer.window}
        case ChunkedLayer():
            return {**_heads(layer), "window": layer.chunk}
        case CrossLayer():
            return {**_heads(layer), "tokens": layer.encoder_tokens}
        case MlaLayer(latent_dim=latent, rope_dim=rope, compress=compress, window=window):
            return {"latent": latent, "rope": rope, "compress": compress, "window": window}
        case IndexerLayer(bytes_per_token=entry, compress=compress):
            return {"bytes": entry, "compress": compress}
        case StateLayer():
            return {"tensors": _tensors(layer, model)}
    return {}


def _heads(layer: FullLayer | SlidingLayer | ChunkedLayer | CrossLayer) -> dict[str, Any]:
    return {"kv_heads": layer.kv_heads, "k": layer.head_dim_k, "v": layer.head_dim_v}


def _tensors(layer: StateLayer, model: ModelSpec) -> list[dict[str, Any]]:
    return [
        {
            "shape": list(tensor.shape),
            "tp_dim": tensor.tp_dim,
            "element": _element(kv_dtype(tensor.dtype, model.dtype)),
        }
        for tensor in layer.tensors
    ]
