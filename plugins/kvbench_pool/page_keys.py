"""Identity of a sequence's pages, without spelling out its tokens."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kvbench.errors import TraceError
from kvbench.workload.request import Request
from kvbench_pool.item_marks import item_marks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageKeys:
    """What the full pages of one sequence hold.

    Page j of the first ``shared`` pages is known by (``ids[j // per_id]``, j); the pages after
    them belong to this sequence alone. Sequences of one ``PageKeyer`` have one ``per_id``, so
    that equal ids at equal places mean equal tokens.

    Attributes:
        pages: Full pages.
        shared: Pages that another sequence might have too.
        ids: Ids of the chunks of the shared pages.
        per_id: Pages that one id stands for.
        owner: Unique number of the sequence.
        marks: (page, number of what its multimodal items are and where) of the pages that such
            items reach into.
    """

    pages: int
    shared: int
    ids: npt.NDArray[np.int64] = field(repr=False)
    per_id: int
    owner: int
    marks: frozenset[tuple[int, int]] = frozenset()

    def first(self, page: int) -> Hashable:
        """Return what identifies one page among all that follow the same prefix."""
        if page >= self.shared:
            return (self.owner,)
        identity = int(self.ids[page // self.per_id])
        if not self.marks:
            return identity
        mark = next((mark for marked, mark in self.marks if marked == page), None)
        return identity if mark is None else (identity, mark)

    def common(self, other: PageKeys, start: int, end: int) -> int:
        """Return the end of the longest run of equal pages from ``start``, at most ``end``."""
        if self.owner == other.owner:
            return min(end, self.pages, other.pages)
        end = min(end, self.shared, other.shared)
        if self.marks or other.marks:
            apart = (page for page, _ in self.marks ^ other.marks if page >= start)
            end = min(end, min(apart, default=end))
        if end <= start:
            return start
        low, high = start // self.per_id, -(-end // self.per_id)
        different = self.ids[low:high] != other.ids[low:high]
        at = int(different.argmax())
        return max(start, (low + at) * self.per_id) if different[at] else end


class PageKeyer:
    """Makes the page keys of the requests of one workload.

    Args:
        page_tokens: Tokens per page.
    """

    def __init__(self, page_tokens: int) -> None:
        self._page = page_tokens
        self._hash_tokens: int | None = None
        self._interned: dict[Hashable, int] = {}
        self._owners = itertools.count()

    def keys(self, request: Request, *, owner: int | None = None) -> PageKeys:
        """Return the keys of a request's prompt followed by its whole output.

        Raises:
            TraceError: The workload mixes ways of stating prefixes.
        """
        tokens = request.prompt_tokens + request.output_tokens
        ids, per_id, known = self._content(request)
        return PageKeys(
            pages=tokens // self._page,
            shared=min(known, tokens) // self._page,
            ids=self._salted(ids, request),
            per_id=per_id,
            owner=next(self._owners) if owner is None else owner,
            marks=self._marks(request),
        )

    def _marks(self, request: Request) -> frozenset[tuple[int, int]]:
        marks = item_marks(request.multimodal, self._page)
        return frozenset((page, self._intern(mark)) for page, mark in marks.items())

    def _content(self, request: Request) -> tuple[npt.NDArray[np.int64], int, int]:
        """Return (ids, pages per id, tokens that they cover)."""
        if request.prompt_ids is not None:
            self._expect(0)
            ids = _int64(request.prompt_ids)
            if request.output_ids is not None:
                ids = np.concatenate([ids, _int64(request.output_ids)])
            return self._token_pages(ids), 1, len(ids)
        if not request.hash_tokens:
            return np.empty(0, np.int64), max(1, (self._hash_tokens or 0) // self._page), 0
        self._expect(request.hash_tokens)
        ids = _int64(request.hash_ids)
        if request.hash_tokens % self._page == 0:
            return ids, request.hash_tokens // self._page, request.prompt_tokens
        spelt = ids[:, None] * request.hash_tokens + np.arange(request.hash_tokens)
        return self._token_pages(spelt.ravel()[: request.prompt_tokens]), 1, request.prompt_tokens

    def _expect(self, hash_tokens: int) -> None:
        if self._hash_tokens is None:
            self._hash_tokens = hash_tokens
        if self._hash_tokens != hash_tokens:
            raise TraceError(
                f"the workload states prefixes in two ways ({_way(self._hash_tokens)}, then "
                f"{_way(hash_tokens)}); expected one way for all its requests"
            )

    def _token_pages(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return one id per full page of tokens."""
        if self._page == 1:
            return tokens
        count = len(tokens) // self._page
        rows = tokens[: count * self._page].reshape(count, self._page)
        return np.fromiter((self._intern(row.tobytes()) for row in rows), np.int64, count)

    def _salted(self, ids: npt.NDArray[np.int64], request: Request) -> npt.NDArray[np.int64]:
        if not request.salt and not request.lora:
            return ids
        realm = (request.salt, request.lora)
        # Below every id of a trace, so that a salted page equals no plain one.
        salted = (-(1 << 62) - self._intern((*realm, int(one))) for one in ids)
        return np.fromiter(salted, np.int64, len(ids))

    def _intern(self, content: Hashable) -> int:
        return self._interned.setdefault(content, len(self._interned))


def _int64(ids: object) -> npt.NDArray[np.int64]:
    return np.asarray(ids if isinstance(ids, np.ndarray | array) else list(ids), dtype=np.int64)  # type: ignore[call-overload]


def _way(hash_tokens: int) -> str:
    return f"hash ids of {hash_tokens} tokens" if hash_tokens else "token ids"
