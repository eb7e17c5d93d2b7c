"""Seeds for independent random streams."""

from __future__ import annotations

import hashlib
import random


def derive_seed(seed: int, *stream: str | int) -> int:
    """Return a 64-bit seed for one stream: SHA-256 of the seed and the stream's name."""
    text = "\x1f".join(str(part) for part in (seed, *stream))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def stream(seed: int, *name: str | int) -> random.Random:
    """Return a random generator of its own for one named stream of ``seed``."""
    return random.Random(derive_seed(seed, *name))
