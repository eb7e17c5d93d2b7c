"""Multimodal items keep prefixes apart, block by block."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from kvbench.workload.request import MultimodalItem, Request
from kvbench_pool.item_marks import item_marks
from kvbench_pool.lru_curve import LruCurve
from kvbench_pool.prefix_history import prefix_history
from kvbench_pool.vllm_policy.prefix_keys import PrefixKeys

_TOKENS_OF = {"cat": 3, "dog": 5, "clip": 9}


def _item(identifier: str, offset_tokens: int) -> MultimodalItem:
    return MultimodalItem(
        identifier=identifier, offset_tokens=offset_tokens, tokens=_TOKENS_OF[identifier]
    )


def _request(tokens: Sequence[int], *items: MultimodalItem) -> Request:
    return Request(
        arrival_ms=0,
        prompt_tokens=len(tokens),
        output_tokens=1,
        prompt_ids=tokens,
        multimodal=items,
    )


def test_marks_are_places_counted_from_the_start_of_each_block() -> None:
    marks = item_marks((_item("dog", 3), _item("cat", 8), _item("cat", 11)), 4)
    assert marks == {
        0: (("dog", 3),),
        1: (("dog", -1),),
        2: (("cat", 0), ("cat", 3)),
        3: (("cat", -1),),
    }


def test_blocks_before_an_item_are_shared_and_none_from_it_on() -> None:
    keys, tokens = PrefixKeys(4), [7] * 20
    plain = keys.public(_request(tokens)).tolist()
    cat = keys.public(_request(tokens, _item("cat", 6))).tolist()
    dog = keys.public(_request(tokens, _item("dog", 6))).tolist()
    moved = keys.public(_request(tokens, _item("cat", 7))).tolist()
    again = keys.public(_request(tokens, _item("cat", 6))).tolist()
    assert plain[0] == cat[0] == dog[0] == moved[0]
    assert cat == again
    # Every block from the second on is the continuation of another prefix in each of the four.
    rest = [*plain[1:], *cat[1:], *dog[1:], *moved[1:]]
    assert len(set(rest)) == len(rest) == 16


@st.composite
def _workloads(draw: st.DrawFn) -> list[Request]:
    """Draw prompts of few tokens with items of fixed lengths, by token ids or by hash ids."""
    chunk = draw(st.sampled_from((0, 3, 4, 8)))
    requests = []
    for _ in range(draw(st.integers(2, 8))):
        count = draw(st.integers(1, 40))
        items: list[MultimodalItem] = []
        at = draw(st.integers(0, 8))
        for name in draw(st.lists(st.sampled_from(sorted(_TOKENS_OF)), max_size=2)):
            if at + _TOKENS_OF[name] <= count:
                items.append(_item(name, at))
                at += _TOKENS_OF[name] + draw(st.integers(0, 4))
        one = draw(st.integers(0, 1))
        requests.append(
            Request(
                arrival_ms=0,
                prompt_tokens=count,
                output_tokens=1,
                prompt_ids=None if chunk else [one] * count,
                hash_ids=[one] * -(-count // chunk) if chunk else (),
                hash_tokens=chunk,
                multimodal=tuple(items),
            )
        )
    return requests


def _spelt(request: Request) -> Request:
    """Return the request with a token of its own at every place of every item."""
    chunk = request.hash_tokens
    tokens = list(request.prompt_ids or ())
    if chunk:
        places = range(request.prompt_tokens)
        tokens = [request.hash_ids[p // chunk] * chunk + p % chunk for p in places]
    for item in request.multimodal:
        base = 1000 * (1 + sorted(_TOKENS_OF).index(item.identifier))
        for place in range(item.tokens):
            at = item.offset_tokens + place
            tokens[at] += 100 * base + 100 * place
    return _request(tokens)


@settings(max_examples=150, deadline=None)
@given(_workloads(), st.sampled_from([1, 2, 4, 8]))
def test_items_mean_tokens_of_their_own(workload: list[Request], size: int) -> None:
    """For radix pages, hit curves and the engine's keys alike."""
    spelt = [_spelt(one) for one in workload]
    by_item = LruCurve(prefix_history(workload, size))
    by_token = LruCurve(prefix_history(spelt, size))
    for capacity in (1, 3, math.inf):
        assert by_item.hit_tokens(capacity) == by_token.hit_tokens(capacity)
    keys, spelt_keys = PrefixKeys(size), PrefixKeys(size)
    same: dict[int, int] = {}
    for one, other in zip(workload, spelt, strict=True):
        pairs = zip(keys.public(one).tolist(), spelt_keys.public(other).tolist(), strict=True)
        for key, spelt_key in pairs:
            assert same.setdefault(key, spelt_key) == spelt_key
    assert len(set(same.values())) == len(same)
