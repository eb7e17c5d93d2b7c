"""The memory ladder: eight levels, each inside the one above it, kept apart.

device > process > reserved > allocated > requested > KV tensor > used blocks > live tokens.

A level that nobody reports is ``None`` and stays so; it is never derived from its neighbours.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields

#: How each step between two levels is called when both are known.
STEPS = (
    ("device", "process", "other processes and the driver"),
    ("process", "reserved", "device context, kernels and libraries"),
    ("reserved", "allocated", "cached by the allocator, free for reuse"),
    ("allocated", "requested", "rounding of the allocator"),
    ("requested", "kv_tensor", "tensors other than the cache"),
    ("kv_tensor", "used_blocks", "free blocks of the pool"),
    ("used_blocks", "live_tokens", "unfilled slots of last blocks"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLadder:
    """Bytes at every level at one moment.

    Attributes:
        moment: What had just been done.
        device: In use on the device by anyone (driver).
        process: Held by this process (driver).
        reserved: Held by the framework's allocator.
        allocated: Handed out by it, rounding included.
        requested: Asked of it.
        kv_tensor: Of the cache's tensors.
        used_blocks: Of blocks that sequences own.
        live_tokens: Of slots that hold a token.
    """

    moment: str
    device: int | None = None
    process: int | None = None
    reserved: int | None = None
    allocated: int | None = None
    requested: int | None = None
    kv_tensor: int | None = None
    used_blocks: int | None = None
    live_tokens: int | None = None


LEVELS = tuple(field.name for field in fields(MemoryLadder) if field.name != "moment")


def decompose(ladder: MemoryLadder) -> dict[str, int | None]:
    """What lies between two neighbouring levels, by name; ``None`` when either is unknown."""
    values = {level: getattr(ladder, level) for level in LEVELS}
    return {
        name: None if None in (values[upper], values[lower]) else values[upper] - values[lower]
        for upper, lower, name in STEPS
    }


def contradictions(ladder: MemoryLadder) -> tuple[str, ...]:
    """Sentences about levels that are larger than a level that should hold them."""
    known = [(level, value) for level in LEVELS if (value := getattr(ladder, level)) is not None]
    return tuple(
        f"{ladder.moment}: {lower} ({inner} bytes) exceeds {upper} ({outer} bytes)"
        for (upper, outer), (lower, inner) in itertools.pairwise(known)
        if inner > outer
    )


def explain(ladders: Sequence[MemoryLadder]) -> str:
    """Say in plain words which levels moved between the first and the last moment.

    Covers the case that puzzles people who watch the process: the pool fills and empties while
    the process's memory stays where it was.
    """
    first, last = ladders[0], ladders[-1]
    moved, still, unknown = [], [], []
    for level in LEVELS:
        before, after = getattr(first, level), getattr(last, level)
        if before is None or after is None:
            unknown.append(level)
        elif before == after:
            still.append(level)
        else:
            moved.append(f"{level} by {after - before:+d} bytes")
    sentences = [
        f"From '{first.moment}' to '{last.moment}', "
        f"moved: {', '.join(moved) or 'nothing'}; unchanged: {', '.join(still) or 'nothing'}; "
        f"not known: {', '.join(unknown) or 'nothing'}."
    ]
    if any(entry.startswith("used_blocks") for entry in moved) and "kv_tensor" in still:
        sentences.append(
            "The pool was allocated once and stays allocated: sequences take and return blocks "
            "inside it, which no level above the KV tensor can see."
        )
    return " ".join(sentences)


def table(ladders: Sequence[MemoryLadder]) -> str:
    """Rows of moments, columns of levels, bytes; ``-`` for what nobody reports."""
    rows = [("moment", *LEVELS)]
    rows += [
        (ladder.moment, *(_cell(getattr(ladder, level)) for level in LEVELS)) for ladder in ladders
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        for row in rows
    )


def _cell(value: int | None) -> str:
    return "-" if value is None else str(value)
