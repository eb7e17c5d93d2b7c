"""Names people type and counts they read: the nearest known name, nouns after numbers."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?``, or the known names when none is near.

    Ready to be appended to a message; empty when nothing is known.
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(names)}" if names else ""


def counted(count: int, noun: str) -> str:
    """Return ``1 block``, ``2 blocks``, ``0 blocks``, for nouns that take an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
