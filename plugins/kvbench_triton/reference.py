"""Decode attention with torch, one sequence at a time; in float64 the yardstick of the kernels."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kvbench_triton.cache import PagedCache, slots_of
from kvbench_triton.shape import DecodeShape


def reference_decode(
    query: torch.Tensor,
    cache: PagedCache,
    tables: torch.Tensor,
    lengths: Sequence[int],
    sinks: torch.Tensor | None = None,
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """Return [sequences, query heads, head_dim_v] in ``dtype``; zeros for empty sequences.

    Only the slots that a sequence owns are gathered, so anything may lie in the others.
    """
    shape = cache.shape
    outputs = []
    for row, length in enumerate(lengths):
        slots = slots_of(tables[row : row + 1], [length], shape.page_size)
        keys, values = _gather(cache, slots[length - shape.visible(length) :])
        keys, values = keys.to(dtype), values.to(dtype)
        outputs.append(_attend(query[row].to(dtype), keys, values, shape, sinks))
    return torch.stack(outputs)


def _gather(cache: PagedCache, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values [tokens, kv heads, dim] of ``slots``, float64, scales applied."""
    slots = slots.to(cache.pool.device)
    block, place = slots // cache.shape.page_size, slots % cache.shape.page_size
    keys = _rows(cache.keys, block, place)
    values = _rows(cache.values, block, place)
    if cache.scales.numel() == 0:
        return keys, values
    scales = cache.scales if cache.scales.dim() == 2 else cache.scales[block, place]
    return keys * scales[..., :1].double(), values * scales[..., 1:].double()


def _rows(view: torch.Tensor, block: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    if view.dtype == torch.float8_e4m3fn:
        bits: torch.Tensor = view.view(torch.uint8)[block, place]
        return bits.view(torch.float8_e4m3fn).to(torch.float32).double()
    found: torch.Tensor = view[block, place]
    return found.double()


def _attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    shape: DecodeShape,
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    """One sequence: query [query heads, dk], keys [tokens, kv heads, dk], values likewise."""
    if keys.shape[0] == 0:
        return keys.new_zeros(shape.query_heads, shape.head_dim_v)
    keys = keys.repeat_interleave(shape.group, dim=1)
    values = values.repeat_interleave(shape.group, dim=1)
    scores = torch.einsum("hd,thd->ht", query, keys) * shape.softmax_scale
    if shape.softcap:
        scores = shape.softcap * torch.tanh(scores / shape.softcap)
    if sinks is not None:
        scores = torch.cat([scores, sinks.to(scores.dtype).unsqueeze(1)], dim=1)
    weights = torch.softmax(scores, dim=1)[:, : keys.shape[0]]
    return torch.einsum("ht,thd->hd", weights, values)
