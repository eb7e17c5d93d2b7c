"""The matrix of interpreted decode cases, and how one is run.

Everything a sequence does not own is poison: NaN in every slot of the pool (the NaN code for fp8,
NaN scales for int8), NaN in the output and in the partial results, an id far outside the pool in
every table entry beyond a sequence's own pages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from kvbench_triton.attention import paged_decode, prepare_step, write_rows
from kvbench_triton.cache import (
    PagedCache,
    allocate_cache,
    quantise,
    shuffled_tables,
    slots_of,
    token_scales,
)
from kvbench_triton.config import CPU, pick_config
from kvbench_triton.plan import plan_work
from kvbench_triton.reference import reference_decode
from kvbench_triton.shape import DecodeShape, check

#: A block id that would read megabytes beyond any pool of the cases.
STRAY_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One decode step.

    ``peak`` scales the queries: large values make the softmax peaky, so that the running maximum
    changes from tile to tile.
    """

    name: str
    shape: DecodeShape
    lengths: tuple[int, ...]
    span_tiles: int = 1 << 20
    block_n: int = 32
    peak: float = 1.0
    per_tensor: bool = False

    @property
    def tolerance(self) -> float:
        """What float32 itself may lose, on any CPU, relative to the largest output.

        A logit is rounded in proportion to its size, and its exponential carries that error.
        """
        return 1e-6 * max(1.0, self.peak)


def _shape(query_heads: int, kv_heads: int, dim: int, page: int, **kw: object) -> DecodeShape:
    values = {"kv_dtype": "bf16", "head_dim_v": dim, "query_dtype": "fp32"} | kw
    return DecodeShape(
        query_heads=query_heads, kv_heads=kv_heads, head_dim_k=dim, page_size=page, **values
    )


def _mla(heads: int, page: int, **kw: object) -> DecodeShape:
    return _shape(heads, 1, 576, page, head_dim_v=512, rope_dim=64, **kw)


def _grid() -> list[Case]:
    """Head layouts by dims and page sizes, over dtypes, splits and uneven lengths."""
    cases = []
    layouts = {"gqa": (4, 2), "mqa": (4, 1), "mha": (2, 2), "gqa3": (6, 2)}
    dims = (64, 96, 128, 192, 256)
    pages = (16, 32, 64, 128, 256)
    for row, (layout, (heads, kv_heads)) in enumerate(layouts.items()):
        for column, dim in enumerate(dims):
            page = pages[(row + column) % len(pages)]
            dtype = ("bf16", "fp16", "fp32", "bf16")[(row + column) % 4]
            shape = _shape(heads, kv_heads, dim, page, kv_dtype=dtype)
            name = f"{layout}-d{dim}-page{page}-{dtype}"
            cases.append(Case(name=name, shape=shape, lengths=(33, 1, 70), span_tiles=2 - row % 2))
    return cases


def _quantised() -> list[Case]:
    cases = []
    for dtype in ("fp8_e4m3", "int8"):
        for dim, page in ((64, 16), (96, 32), (128, 64), (192, 16), (256, 32)):
            shape = _shape(4, 2, dim, page, kv_dtype=dtype)
            cases.append(
                Case(name=f"{dtype}-d{dim}-page{page}", shape=shape, lengths=(40, 65), span_tiles=1)
            )
        mixed = _shape(4, 2, 128, 16, kv_dtype=dtype)
        cases += [
            Case(name=f"{dtype}-whole", shape=mixed, lengths=(50, 17)),
            Case(name=f"{dtype}-k-not-v", shape=replace(mixed, head_dim_v=64), lengths=(50, 17)),
            Case(name=f"{dtype}-window", shape=replace(mixed, window=37), lengths=(90, 17)),
            Case(name=f"{dtype}-cap", shape=replace(mixed, softcap=20.0), lengths=(50,), peak=4.0),
        ]
    per_tensor = _shape(4, 2, 128, 16, kv_dtype="fp8_e4m3")
    cases.append(Case(name="fp8-per-tensor", shape=per_tensor, lengths=(50, 3), per_tensor=True))
    return cases


def _masks() -> list[Case]:
    base = _shape(4, 2, 64, 16)
    cases = [
        Case(
            name=f"window{window}",
            shape=replace(base, window=window),
            lengths=(5, 64, 129),
            span_tiles=2,
        )
        for window in (1, 16, 31, 100, 300)
    ]
    sinks = replace(base, sinks=True)
    cases += [
        Case(name="window-whole", shape=replace(base, window=40), lengths=(100, 7)),
        Case(name="window-page64", shape=_shape(4, 2, 64, 64, window=45), lengths=(100, 130)),
        Case(name="sinks", shape=sinks, lengths=(20, 31)),
        Case(name="sinks-split", shape=sinks, lengths=(20, 131), span_tiles=1),
        Case(name="sinks-window", shape=replace(sinks, window=20), lengths=(90,), span_tiles=1),
        Case(name="softcap", shape=replace(base, softcap=30.0), lengths=(50, 9), peak=6.0),
        Case(name="softcap-small", shape=replace(base, softcap=2.0), lengths=(50,), span_tiles=1),
        Case(name="scale", shape=replace(base, scale=0.3), lengths=(50,)),
    ]
    return cases


def _lengths() -> list[Case]:
    base = _shape(4, 2, 64, 16)
    return [
        Case(name="one-token", shape=base, lengths=(1,)),
        Case(name="tile-edge", shape=base, lengths=(31, 32, 33), span_tiles=1),
        Case(name="page-edge", shape=base, lengths=(15, 16, 17)),
        Case(name="empty-sequences", shape=base, lengths=(0, 40, 0, 3)),
        Case(name="only-empty", shape=base, lengths=(0, 0)),
        Case(name="sinks-empty", shape=replace(base, sinks=True), lengths=(0, 21)),
        Case(name="uneven", shape=base, lengths=(1, 200, 17, 64), span_tiles=2),
        Case(name="many-splits", shape=base, lengths=(256,), span_tiles=1, block_n=16, peak=6.0),
        Case(name="17-splits", shape=base, lengths=(257,), span_tiles=1, block_n=16),
        Case(name="tiles-per-split-peaky", shape=base, lengths=(256, 130), span_tiles=4, peak=6.0),
        Case(name="whole-peaky", shape=base, lengths=(200,), peak=6.0),
        Case(name="k-larger", shape=_shape(4, 2, 192, 16, head_dim_v=128), lengths=(40, 65)),
        Case(
            name="v-larger", shape=_shape(4, 2, 64, 32, head_dim_v=128), lengths=(40,), span_tiles=1
        ),
        Case(name="group-of-20", shape=_shape(20, 1, 64, 16), lengths=(40, 3), span_tiles=1),
        Case(name="page-is-tile", shape=_shape(4, 2, 64, 32), lengths=(31, 96), span_tiles=2),
        Case(name="scalar-page-tile16", shape=_shape(4, 2, 64, 256), lengths=(300,), block_n=16),
    ]


def _latent() -> list[Case]:
    return [
        Case(name="mla", shape=_mla(4, 16), lengths=(40, 1)),
        Case(name="mla-split", shape=_mla(4, 64), lengths=(70, 0, 33), span_tiles=1),
        Case(name="mla-20-heads", shape=_mla(20, 32, kv_dtype="fp16"), lengths=(40,), span_tiles=1),
        Case(name="mla-window", shape=_mla(4, 16, window=25), lengths=(70,), peak=4.0),
    ]


CASES = {case.name: case for case in (*_grid(), *_quantised(), *_masks(), *_lengths(), *_latent())}

#: Small cases that together notice every mutant of ``mutants.py``, cheapest first.
SENTINELS = (
    "one-token",
    "page-edge",
    "empty-sequences",
    "fp8_e4m3-whole",
    "int8-whole",
    "softcap",
    "mla-split",
    "sinks",
    "window16",
    "sinks-split",
    "window-whole",
    "window-page64",
    "whole-peaky",
    "tiles-per-split-peaky",
    "17-splits",
    "k-larger",
    "group-of-20",
    "scalar-page-tile16",
    "int8-k-not-v",
    "fp8-per-tensor",
    "mla-window",
)


def run_case(case: Case) -> float:
    """Return the largest error relative to the largest float64 value.

    Raises:
        AssertionError: An output was not written, or is not finite.
    """
    shape = check(case.shape)
    config = replace(pick_config(shape, CPU), block_n=case.block_n)
    generator = torch.Generator().manual_seed(sum(map(ord, case.name)))
    blocks = sum(-(-length // shape.page_size) for length in case.lengths) + 3
    tables = shuffled_tables(case.lengths, shape.page_size, blocks, seed=len(case.name))
    cache = poisoned_cache(shape, blocks)
    fill(cache, slots_of(tables, case.lengths, shape.page_size), generator, case.per_tensor)
    query = case.peak * torch.randn(
        len(case.lengths), shape.query_heads, shape.head_dim_k, generator=generator
    )
    sinks = torch.randn(shape.query_heads, generator=generator) if shape.sinks else None
    expected = reference_decode(query, cache, tables, case.lengths, sinks)
    tables[tables < 0] = STRAY_BLOCK

    plan = plan_work(case.lengths, shape, config, CPU, span_tiles=case.span_tiles)
    step = prepare_step(shape, config, CPU, plan, "cpu")
    step.partial.fill_(float("nan"))
    step.partial_lse.fill_(float("nan"))
    out = torch.full(expected.shape, float("nan"), dtype=torch.float32)
    paged_decode(step, query, cache, tables, out, sinks)
    assert torch.isfinite(out).all(), "an output is not written, or poison was read"
    return float((out.double() - expected).abs().max() / expected.abs().max().clamp_min(1e-30))


def poisoned_cache(shape: DecodeShape, blocks: int) -> PagedCache:
    """A pool in which nothing is written yet."""
    cache = allocate_cache(shape, blocks, "cpu")
    if cache.pool.itemsize == 1:
        cache.pool.view(torch.uint8).fill_(0x7F)
    else:
        cache.pool.fill_(float("nan"))
    cache.scales.fill_(float("nan"))
    return cache


def fill(
    cache: PagedCache, slots: torch.Tensor, generator: torch.Generator, per_tensor: bool = False
) -> None:
    """Write random keys and values into ``slots`` with the write kernel."""
    shape = cache.shape
    rows = torch.randn(len(slots), shape.kv_heads, shape.row_elements, generator=generator)
    scales = torch.empty(0)
    if shape.kv_dtype == "int8":
        scales = token_scales(rows, shape)
        write_rows(cache.scales, scales.contiguous(), slots)
    elif shape.kv_dtype == "fp8_e4m3":
        scales = 0.01 + 0.02 * torch.rand(shape.kv_heads, 2, generator=generator)
        scales = scales[:1].expand_as(scales) if per_tensor else scales
        cache.scales.copy_(scales)
    write_rows(cache.pool, quantise(rows, shape, scales).contiguous(), slots)
