"""What multimodal items add to the identity of the blocks that they lie in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from kvbench.workload.request import MultimodalItem

#: (identifier, first token of the item counted from the start of the block) of every item that
#: reaches into a block.
Marks: TypeAlias = tuple[tuple[str, int], ...]


def item_marks(items: Iterable[MultimodalItem], block_size: int) -> dict[int, Marks]:
    """Return the marks of every block that an item reaches into.

    The same as the multimodal part of vLLM's extra hash keys: an item that began in an earlier
    block has a negative place.
    """
    marks: dict[int, Marks] = {}
    for item in items:
        end = item.offset_tokens + item.tokens
        for block in range(item.offset_tokens // block_size, -(-end // block_size)):
            mark = (item.identifier, item.offset_tokens - block * block_size)
            marks[block] = (*marks.get(block, ()), mark)
    return marks
