"""Cut sequences into work items: the split in split-KV decode, decided before the launch.

A work item is a span of one sequence's visible tokens. Spans all have the same length, chosen so
that the longest-first schedule of all programs on the device's program slots ends earliest. Equal
spans make uneven lengths balance, and a sequence without tokens costs nothing.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from kvbench_triton.config import KernelConfig, Target, programs_of_group
from kvbench_triton.shape import DecodeShape

#: A shorter span spends more on its start and its partial result than on its tokens.
MIN_SPAN_TILES = 4

#: Cost of starting a program, and of combining partials, in tiles.
START_TILES, COMBINE_TILES = 1, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """Tokens ``first … end`` of sequence ``sequence``; ``row`` is its place among partials."""

    sequence: int
    first: int
    end: int
    row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPlan:
    """Work items of one decode step.

    Attributes:
        items: In launch order, longest first.
        row_offsets: Partial rows of sequence i are ``row_offsets[i] … row_offsets[i + 1]``.
        split: Partials have to be combined: a sequence has several items, or none.
        aligned: First tokens are multiples of the tile.
        span_tiles: Tiles of a full item.
    """

    items: tuple[WorkItem, ...]
    row_offsets: tuple[int, ...]
    split: bool
    aligned: bool
    span_tiles: int


def plan_work(
    lengths: Sequence[int],
    shape: DecodeShape,
    config: KernelConfig,
    target: Target,
    *,
    span_tiles: int | None = None,
) -> WorkPlan:
    """Cut sequences of ``lengths`` tokens into items.

    Args:
        lengths: Tokens in the cache, per sequence; 0 is allowed.
        shape: What is decoded.
        config: Tile and occupancy.
        target: Device.
        span_tiles: Tiles of one item; chosen by ``choose_span`` when ``None``.
    """
    tile = config.block_n
    starts = [length - shape.visible(length) for length in lengths]
    tiles = [
        -(-length // tile) - start // tile for length, start in zip(lengths, starts, strict=True)
    ]
    span = span_tiles or choose_span(tiles, programs_per_item(shape, config), config, target)
    items: list[WorkItem] = []
    offsets = [0]
    for sequence, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        items += _spans(sequence, start, length, span * tile, tile, offsets[-1])
        offsets.append(len(items))
    return WorkPlan(
        items=tuple(sorted(items, key=lambda item: item.first - item.end)),
        row_offsets=tuple(offsets),
        split=any(b - a != 1 for a, b in itertools.pairwise(offsets)),
        aligned=all(start % tile == 0 for start in starts),
        span_tiles=span,
    )


def _spans(sequence: int, start: int, end: int, span: int, tile: int, row: int) -> list[WorkItem]:
    """Items of one sequence; all but the first begin at a multiple of the tile."""
    edges = [start, *range(start - start % tile + span, end, span), end]
    return [
        WorkItem(sequence=sequence, first=first, end=last, row=row + index)
        for index, (first, last) in enumerate(itertools.pairwise(edges))
        if first < last
    ]


def programs_per_item(shape: DecodeShape, config: KernelConfig) -> int:
    """Programs that share one work item: KV heads times blocks of their query heads."""
    return shape.kv_heads * programs_of_group(shape, config)


def choose_span(tiles: Sequence[int], programs: int, config: KernelConfig, target: Target) -> int:
    """Return the tiles per item that end the step earliest, the longest such span.

    Args:
        tiles: Tiles of each sequence.
        programs: Programs per item.
        config: Programs that a multiprocessor holds.
        target: Multiprocessors.
    """
    longest = max(tiles, default=1) or 1
    slots = target.multiprocessors * config.programs_per_unit
    spans = sorted({max(-(-longest // parts), MIN_SPAN_TILES) for parts in _PARTS}, reverse=True)
    spans[0] = max(spans[0], longest)
    return min(spans, key=lambda span: _makespan(tiles, programs, span, slots))


_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def _makespan(tiles: Sequence[int], programs: int, span: int, slots: int) -> int:
    """End of the longest-first schedule of all programs on ``slots``, in tiles."""
    costs: list[int] = []
    for count in tiles:
        full, rest = divmod(count, span)
        costs += [span + START_TILES] * full + ([rest + START_TILES] if rest else [])
    combine = COMBINE_TILES if any(count > span for count in tiles) else 0
    ends = [0] * slots
    for cost in sorted(costs, reverse=True):
        for _ in range(programs):
            heapq.heapreplace(ends, ends[0] + cost)
    return max(ends) + combine
