"""What a step computes, in the terms that its duration depends on."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Chunk(NamedTuple):
    """One request's part of a step.

    Attributes:
        new_tokens: Tokens computed in the step, at least 1.
        past_tokens: Tokens of the request that are in the cache already.
    """

    new_tokens: int
    past_tokens: int


class Attention(NamedTuple):
    """What attention does in a step, in one layer.

    Attributes:
        read_tokens: Cached tokens that are read, the new ones included, summed over requests.
        prefill_pairs: Pairs of a query and a key that it sees, in chunks of several tokens.
        decode_pairs: The same in chunks of one token.
    """

    read_tokens: int
    prefill_pairs: int
    decode_pairs: int


@dataclass(frozen=True, slots=True)
class StepWork:
    """The chunks of one step.

    A chunk of one token counts as a decode, whatever it is for: one query against the request's
    cache costs the same at the end of a prompt as after it. Longer chunks are prefills.

    Attributes:
        chunks: One chunk per scheduled request.
    """

    chunks: tuple[Chunk, ...]

    @classmethod
    def of(cls, chunks: Iterable[tuple[int, int]]) -> StepWork:
        """Build from pairs of (new tokens, past tokens)."""
        return cls(tuple([Chunk(*chunk) for chunk in chunks]))

    @property
    def requests(self) -> int:
        """Requests that take part."""
        return len(self.chunks)

    @property
    def new_tokens(self) -> int:
        """Tokens computed."""
        return sum([chunk.new_tokens for chunk in self.chunks])

    @property
    def decode_requests(self) -> int:
        """Requests that compute a single token."""
        return sum([chunk.new_tokens == 1 for chunk in self.chunks])

    @property
    def prefill_tokens(self) -> int:
        """Tokens of the chunks of several tokens."""
        return self.new_tokens - self.decode_requests

    @property
    def context_tokens(self) -> int:
        """Cached tokens that full attention reads, the new ones included."""
        return sum([sum(chunk) for chunk in self.chunks])

    def attention(self, window_tokens: int | None = None) -> Attention:
        """Return what one layer does whose queries see the last ``window_tokens`` tokens.

        Query ``i`` (from 1) of a chunk of ``n`` tokens after ``p`` cached ones sees
        ``min(p + i, window)`` keys; the chunk as a whole reads ``min(p, window - 1) + n`` tokens.

        Args:
            window_tokens: The query's own token included; ``None`` for all.
        """
        window = sys.maxsize if window_tokens is None else window_tokens
        read = prefill = decode = 0
        for new, past in self.chunks:
            seen = min(past, window - 1)
            read += seen + new
            if new == 1:
                decode += seen + 1
            else:
                prefill += _pairs(new, past, window)
        return Attention(read, prefill, decode)


def _pairs(new: int, past: int, window: int) -> int:
    """Return the sum of ``min(past + i, window)`` for i from 1 to ``new``."""
    growing = min(new, max(0, window - past))
    return growing * past + growing * (growing + 1) // 2 + (new - growing) * window
