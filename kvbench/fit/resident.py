"""Resident tokens of a workload's requests, and how many requests stay under the pool."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvbench.layout import Arrangement
from kvbench.workload.request import Request

if TYPE_CHECKING:
    from kvbench.fit.question import Question

#: Share of the time that the requests must stay under the pool.
CONFIDENCE = 0.99
_DRAWS = 1000
_MOST_SAMPLES = 20_000
_MOST_REQUESTS = 20_000
_SEED = 20_240_607


@dataclass(frozen=True, slots=True, kw_only=True)
class Residents:
    """What a running request holds at a random moment.

    Attributes:
        p50_tokens: Half of the running requests hold at most this.
        p95_tokens: 95 % do.
        p99_tokens: 99 % do.
        mean_tokens: Tokens on average.
        requests: Requests whose cache together stays under the pool 99 % of the time.
        requests_low: The same at the low end of the budget.
    """

    p50_tokens: int
    p95_tokens: int
    p99_tokens: int
    mean_tokens: float
    requests: int
    requests_low: int


def resident_lengths(requests: Iterable[Request]) -> tuple[int, ...]:
    """Tokens that running requests hold, sampled evenly over the steps they run.

    A request of p prompt and o output tokens runs for o steps and holds p + 1 … p + o tokens,
    so long outputs weigh more. At most 20,000 samples, spread evenly.
    """
    listed = [(each.prompt_tokens, each.output_tokens) for each in requests]
    steps = sum(output for _, output in listed)
    if not steps:
        return ()
    stride = max(1, steps // _MOST_SAMPLES)
    samples, position = [], 0
    for prompt, output in listed:
        first = -(-position // stride) * stride
        samples += [prompt + 1 + at - position for at in range(first, position + output, stride)]
        position += output
    return tuple(samples)


def residents(
    question: Question, arrangement: Arrangement, low_blocks: int, blocks: int
) -> Residents | None:
    """Percentiles of the question's lengths and the requests they allow in the pool."""
    lengths = sorted(question.lengths)
    if not lengths:
        return None
    sizes = {tokens: arrangement.paged_bytes(tokens) for tokens in set(lengths)}
    held = [sizes[tokens] for tokens in lengths]
    unit = arrangement.bytes_per_block
    limit = question.conditions.sequences
    usable, least = (max(0, count - arrangement.null_blocks) for count in (blocks, low_blocks))
    return Residents(
        p50_tokens=percentile(lengths, 0.50),
        p95_tokens=percentile(lengths, 0.95),
        p99_tokens=percentile(lengths, 0.99),
        mean_tokens=sum(lengths) / len(lengths),
        requests=question.replicas * min(limit, requests_under(held, usable * unit)),
        requests_low=question.replicas * min(limit, requests_under(held, least * unit)),
    )


def percentile(ordered: Sequence[int], share: float) -> int:
    """The smallest value that at least ``share`` of ``ordered`` does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def requests_under(sizes: Sequence[int], pool_bytes: int) -> int:
    """Largest number of independent requests whose sizes together stay under the pool.

    In 99 % of 1,000 seeded draws from ``sizes``.

    Args:
        sizes: Bytes that one running request holds, sampled.
        pool_bytes: Bytes of the pool.
    """
    import numpy as np

    mean = sum(sizes) / len(sizes)
    most = min(_MOST_REQUESTS, int(pool_bytes / mean * 2) + 16 if mean else 0)
    generator = np.random.default_rng(_SEED)
    drawn = np.asarray(sizes, dtype=np.float64)
    held = np.zeros(_DRAWS)
    for count in range(most):
        held += generator.choice(drawn, size=_DRAWS)
        if float(np.mean(held <= pool_bytes)) < CONFIDENCE:
            return count
    return most
