"""Random lengths in tokens."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator


def log_normal_tokens(
    rng: random.Random, *, median: int, sigma: float, largest: int | None = None
) -> Iterator[int]:
    """Yield lengths in tokens, log-normal around ``median``, from 1 to ``largest``.

    ``sigma`` is the standard deviation of the logarithm: 0 gives ``median`` every time.
    """
    mu = math.log(median)
    top = float("inf") if largest is None else largest
    while True:
        draw = math.exp(rng.gauss(mu, sigma)) if sigma else float(median)
        yield max(1, int(min(round(draw), top)))
