"""Launch the kernels on torch tensors: decode, cache writes and block copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kvbench_triton.cache import PagedCache
from kvbench_triton.config import KernelConfig, Target
from kvbench_triton.kernels.combine import combine_partials
from kvbench_triton.kernels.decode import decode_split
from kvbench_triton.kernels.mla import mla_split
from kvbench_triton.kernels.transfer import copy_blocks, write_tokens
from kvbench_triton.plan import WorkPlan, programs_per_item
from kvbench_triton.shape import DecodeShape
from kvbench_triton.specialize import decode_constants, power_of_two

_LOG2_E = math.log2(math.e)
_COMBINE_ROWS = 16
_COPY_WORDS = 1024

#: Strides must be multiples of this many elements, or the JIT gives up 128-bit loads.
STRIDE_ALIGNMENT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeStep:
    """Everything one decode step needs, on the device, so that it can be replayed.

    Attributes:
        shape: What is decoded.
        config: Compile-time choices.
        target: Device the constants are made for.
        plan: Work items.
        work: [items, 4] int32.
        row_offsets: [sequences + 1] int32.
        partial: [items, query heads, head_dim_v] float32.
        partial_lse: [items, query heads] float32.
    """

    shape: DecodeShape
    config: KernelConfig
    target: Target
    plan: WorkPlan
    work: torch.Tensor
    row_offsets: torch.Tensor
    partial: torch.Tensor
    partial_lse: torch.Tensor


def prepare_step(
    shape: DecodeShape, config: KernelConfig, target: Target, plan: WorkPlan, device: str
) -> DecodeStep:
    """Upload a plan and allocate room for its partial results."""
    rows = [(item.sequence, item.first, item.end, item.row) for item in plan.items]
    partials = (len(rows) if plan.split else 0, shape.query_heads)
    return DecodeStep(
        shape=shape,
        config=config,
        target=target,
        plan=plan,
        work=torch.tensor(rows, dtype=torch.int32).reshape(-1, 4).to(device),
        row_offsets=torch.tensor(plan.row_offsets, dtype=torch.int32).to(device),
        partial=torch.empty((*partials, shape.head_dim_v), dtype=torch.float32, device=device),
        partial_lse=torch.empty(partials, dtype=torch.float32, device=device),
    )


def paged_decode(
    step: DecodeStep,
    query: torch.Tensor,
    cache: PagedCache,
    tables: torch.Tensor,
    out: torch.Tensor,
    sinks: torch.Tensor | None = None,
) -> None:
    """Attend ``query`` [sequences, query heads, head_dim_k] to the cache, into ``out``.

    Args:
        step: The prepared step.
        query: Innermost stride 1.
        cache: One layer's pool.
        tables: [sequences, pages] int32 block ids.
        out: [sequences, query heads, head_dim_v], contiguous.
        sinks: [query heads] float32, when the shape has sinks.

    Raises:
        ValueError: A stride that would cost 128-bit loads, or tensors that do not fit together.
    """
    _check(step, query, cache, tables, out, sinks)
    if step.plan.items:
        launch = _launch_mla if step.shape.is_mla else _launch_pair
        launch(step, query, cache, tables, out, sinks)
    if step.plan.split:
        _launch_combine(step, out, sinks)


def _constants(step: DecodeStep) -> dict[str, Any]:
    plan, config = step.plan, step.config
    constants = decode_constants(
        step.shape, config, step.target, split=plan.split, aligned=plan.aligned
    )
    return constants | {"num_warps": config.warps, "num_stages": config.stages}


def _launch_pair(
    step: DecodeStep,
    query: torch.Tensor,
    cache: PagedCache,
    tables: torch.Tensor,
    out: torch.Tensor,
    sinks: torch.Tensor | None,
) -> None:
    shape = step.shape
    keys, values = _as_stored(cache.keys), _as_stored(cache.values)
    per_token = cache.scales.dim() == 4
    decode_split[len(step.plan.items), programs_per_item(shape, step.config)](
        out,
        step.partial,
        step.partial_lse,
        query,
        keys,
        values,
        cache.scales,
        tables,
        step.work,
        step.partial_lse if sinks is None else sinks,
        shape.softmax_scale * (1 / shape.softcap if shape.softcap else _LOG2_E),
        shape.softcap * _LOG2_E,
        query.stride(0),
        query.stride(1),
        tables.stride(0),
        *keys.stride()[:3],
        cache.scales.stride(0) if per_token else 0,
        cache.scales.stride(1) if per_token else 0,
        **_constants(step),
    )


def _launch_mla(
    step: DecodeStep,
    query: torch.Tensor,
    cache: PagedCache,
    tables: torch.Tensor,
    out: torch.Tensor,
    sinks: torch.Tensor | None,
) -> None:
    assert sinks is None
    mla_split[len(step.plan.items), programs_per_item(step.shape, step.config)](
        out,
        step.partial,
        step.partial_lse,
        query,
        cache.pool,
        tables,
        step.work,
        step.shape.softmax_scale * _LOG2_E,
        query.stride(0),
        query.stride(1),
        tables.stride(0),
        cache.pool.stride(0),
        cache.pool.stride(1),
        **_constants(step),
    )


def _launch_combine(step: DecodeStep, out: torch.Tensor, sinks: torch.Tensor | None) -> None:
    shape = step.shape
    combine_partials[out.shape[0], shape.query_heads](
        out,
        step.partial,
        step.partial_lse,
        step.row_offsets,
        step.partial_lse if sinks is None else sinks,
        HEADS=shape.query_heads,
        DIM_V=shape.head_dim_v,
        BLOCK_V=power_of_two(shape.head_dim_v),
        BLOCK_S=_COMBINE_ROWS,
        SINKS=sinks is not None,
    )


def _as_stored(view: torch.Tensor) -> torch.Tensor:
    """8-bit views as uint16 pairs, others unchanged."""
    return view.view(torch.uint8).view(torch.uint16) if view.itemsize == 1 else view


def _check(
    step: DecodeStep,
    query: torch.Tensor,
    cache: PagedCache,
    tables: torch.Tensor,
    out: torch.Tensor,
    sinks: torch.Tensor | None,
) -> None:
    shape = step.shape
    sequences = len(step.plan.row_offsets) - 1
    if query.shape != (sequences, shape.query_heads, shape.head_dim_k):
        raise ValueError(f"query has shape {tuple(query.shape)}")
    if out.shape != (sequences, shape.query_heads, shape.head_dim_v) or not out.is_contiguous():
        raise ValueError(f"out has shape {tuple(out.shape)}, or is not contiguous")
    if (sinks is not None) != shape.sinks:
        raise ValueError("sinks must be given exactly when the shape has them")
    if cache.keys.stride() != cache.values.stride():
        raise ValueError(f"strides of K {cache.keys.stride()} and V {cache.values.stride()} differ")
    strides = (*query.stride()[:2], *cache.pool.stride()[:3], tables.stride(0))
    if any(stride % STRIDE_ALIGNMENT for stride in strides):
        raise ValueError(f"strides {strides} are not all multiples of {STRIDE_ALIGNMENT}")


def write_rows(pool: torch.Tensor, rows: torch.Tensor, slots: torch.Tensor) -> None:
    """Append rows [tokens, heads, width] to ``pool`` [blocks, page, heads, width] at ``slots``.

    Args:
        pool: Cache or scale pool; any element type of 1, 2 or 4 bytes, as ``rows``.
        rows: Contiguous.
        slots: [tokens] int64 of block id * page + place; negative ones are skipped.
    """
    stored, new = _as_bits(pool), _as_bits(rows)
    tokens, heads, width = new.shape
    if tokens:
        write_tokens[tokens, heads](
            stored,
            new,
            slots,
            *stored.stride()[:3],
            WIDTH=width,
            BLOCK_D=power_of_two(width),
            HEADS=heads,
            PAGE=pool.shape[1],
        )


def _as_bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same bytes as integers: a copy must not depend on the element type's arithmetic."""
    return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.itemsize])


def copy_on_write(pool: torch.Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    """Copy block ``source`` to block ``destination`` for every pair, in any order.

    Raises:
        ValueError: A block is a destination twice, or both a source and a destination.
    """
    targets = [destination for _, destination in pairs]
    if len(set(targets)) != len(targets) or set(targets) & {source for source, _ in pairs}:
        raise ValueError(f"copies {list(pairs)} depend on their order")
    if not pairs:
        return
    words = pool.reshape(pool.shape[0], -1).view(torch.int32)
    device_pairs = torch.tensor(pairs, dtype=torch.int32, device=pool.device)
    grid = (len(pairs), -(-words.shape[1] // _COPY_WORDS))
    copy_blocks[grid](words, device_pairs, words.shape[1], WORDS=_COPY_WORDS)
