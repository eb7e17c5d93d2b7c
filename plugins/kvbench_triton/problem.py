"""A filled cache with queries, ready to be decoded again and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from kvbench.errors import CellFailed
from kvbench_triton.backend import Backend
from kvbench_triton.cache import (
    TORCH_DTYPES,
    PagedCache,
    allocate_cache,
    quantise,
    shuffled_tables,
    slots_of,
    token_scales,
)
from kvbench_triton.reference import reference_decode
from kvbench_triton.scenario import Scenario

#: Sequences whose outputs are compared with float64.
CHECKED_SEQUENCES = 4

_FP8_SCALE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Tensors of one scenario; ``tables`` holds one block table per buffer of the rotation.

    Attributes:
        scenario: What is decoded.
        cache: One pool, large enough for every buffer.
        tables: Block tables [sequences, pages], disjoint.
        query: [sequences, query heads, head_dim_k].
        out: [sequences, query heads, head_dim_v].
        sinks: [query heads] float32, or nothing.
    """

    scenario: Scenario
    cache: PagedCache
    tables: tuple[torch.Tensor, ...]
    query: torch.Tensor
    out: torch.Tensor
    sinks: torch.Tensor | None


def build_problem(
    scenario: Scenario,
    backend: Backend,
    *,
    buffers: int,
    seed: int,
    write: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None],
) -> Problem:
    """Allocate and fill ``buffers`` disjoint copies of the scenario's sequences.

    Args:
        scenario: What is decoded.
        backend: Where.
        buffers: Block tables of the rotation.
        seed: Decides block order, keys, values and queries.
        write: Appends rows [tokens, heads, width] to a pool at slots.

    Raises:
        CellFailed: ``oom``.
    """
    shape, device = scenario.shape, backend.device
    blocks = scenario.blocks * buffers
    generator = torch.Generator(device).manual_seed(seed % 2**63)
    dtype = TORCH_DTYPES["fp32" if device == "cpu" else shape.query_dtype]
    count = len(scenario.lengths)
    try:
        cache = allocate_cache(shape, blocks, device)
        tables = shuffled_tables(scenario.lengths * buffers, shape.page_size, blocks, seed)
        for row, length in enumerate(scenario.lengths * buffers):
            slots = slots_of(tables[row : row + 1], [length], shape.page_size).to(device)
            _fill(cache, slots, generator, write)
        query = _normal((count, shape.query_heads, shape.head_dim_k), generator).to(dtype)
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise CellFailed("oom", str(error).partition("\n")[0]) from error
    return Problem(
        scenario=scenario,
        cache=cache,
        tables=tuple(tables.to(device).split(count)),
        query=query,
        out=torch.empty((count, shape.query_heads, shape.head_dim_v), dtype=dtype, device=device),
        sinks=_normal((shape.query_heads,), generator) if shape.sinks else None,
    )


def _normal(size: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.randn(size, generator=generator, device=generator.device)


def _fill(
    cache: PagedCache,
    slots: torch.Tensor,
    generator: torch.Generator,
    write: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None],
) -> None:
    """Write one sequence's random keys and values."""
    shape = cache.shape
    rows = _normal((len(slots), shape.kv_heads, shape.row_elements), generator)
    scales = cache.scales
    if shape.kv_dtype == "int8":
        scales = token_scales(rows, shape)
        write(cache.scales, scales.contiguous(), slots)
    elif shape.kv_dtype == "fp8_e4m3":
        scales.fill_(_FP8_SCALE)
    write(cache.pool, quantise(rows, shape, scales).contiguous(), slots)


def relative_error(problem: Problem, out: torch.Tensor) -> float:
    """Largest difference of ``out`` from float64 over the largest float64 value.

    The longest and the shortest sequences are compared, ``CHECKED_SEQUENCES`` in all.
    """
    lengths = problem.scenario.lengths
    by_length = sorted(range(len(lengths)), key=lambda index: lengths[index])
    half = CHECKED_SEQUENCES // 2
    chosen = sorted({*by_length[:half], *by_length[-half:]})
    expected = _expected(problem, chosen)
    difference = (out[chosen].double() - expected).abs().max()
    return float(difference / expected.abs().max().clamp_min(1e-30))


def _expected(problem: Problem, chosen: Sequence[int]) -> torch.Tensor:
    return reference_decode(
        problem.query[list(chosen)],
        problem.cache,
        problem.tables[0][list(chosen)],
        [problem.scenario.lengths[index] for index in chosen],
        problem.sinks,
    )


def scatter_rows(pool: torch.Tensor, rows: torch.Tensor, slots: torch.Tensor) -> None:
    """Append rows with torch alone, for the backend without kernels."""
    page = pool.shape[1]
    bits = torch.uint8 if pool.itemsize == 1 else pool.dtype
    pool.view(bits)[slots // page, slots % page] = rows.view(bits)
