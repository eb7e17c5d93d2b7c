"""Hit curves against naive simulations, block by block, and vLLM's published figures."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvbench.errors import TraceError
from kvbench.workload.request import Request
from kvbench.workload.traces import open_trace
from kvbench_pool.belady import OptimalCache
from kvbench_pool.lru_curve import LruCurve, capacities
from kvbench_pool.prefix_history import prefix_history
from tests.conftest import shared_path

BLOCK = 2


def by_tokens(tokens: list[int]) -> Request:
    return Request(arrival_ms=0, prompt_tokens=len(tokens), output_tokens=1, prompt_ids=tokens)


def by_hashes(tokens: int, ids: list[int], chunk: int) -> Request:
    return Request(
        arrival_ms=0,
        prompt_tokens=tokens,
        output_tokens=1,
        hash_ids=ids[: -(-tokens // chunk)],
        hash_tokens=chunk,
    )


def spelt(request: Request) -> list[int]:
    """Return the tokens of a prompt that is stated by hash ids."""
    size = request.hash_tokens
    return [request.hash_ids[at // size] * size + at % size for at in range(request.prompt_tokens)]


def blocks_of(tokens: list[int]) -> list[tuple[int, ...]]:
    """A block is known by all tokens up to its end."""
    return [tuple(tokens[:end]) for end in range(BLOCK, len(tokens) + 1, BLOCK)]


def naive_lru(prompts: list[list[int]], capacity: int) -> int:
    """Hits of an LRU list: a request reads from its first block, touches from its last."""
    recent: list[tuple[int, ...]] = []
    found = 0
    for tokens in prompts:
        blocks = blocks_of(tokens)
        kept = set(recent[:capacity])
        for block in blocks[: (len(tokens) - 1) // BLOCK]:
            if block not in kept:
                break
            found += 1
        recent = blocks + [block for block in recent if block not in set(blocks)]
    return found * BLOCK


def naive_optimum(prompts: list[list[int]], capacity: int) -> int:
    """Best hits over every choice of what to keep after every request."""
    states = {frozenset[tuple[int, ...]](): 0}
    for tokens in prompts:
        blocks = blocks_of(tokens)
        following: dict[frozenset[tuple[int, ...]], int] = {}
        for state, hits in states.items():
            readable = blocks[: (len(tokens) - 1) // BLOCK]
            found = len(list(itertools.takewhile(state.__contains__, readable)))
            pool = state | set(blocks)
            for kept in itertools.combinations(sorted(pool), min(capacity, len(pool))):
                key = frozenset(kept)
                following[key] = max(following.get(key, 0), hits + found)
        states = following
    return max(states.values(), default=0) * BLOCK


prompts = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=8), min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(prompts)
def test_one_pass_equals_an_lru_cache_of_every_size(workload: list[list[int]]) -> None:
    curve = LruCurve(prefix_history(map(by_tokens, workload), BLOCK))
    for capacity in range(12):
        assert curve.hit_tokens(capacity) == naive_lru(workload, capacity)
    assert curve.hit_tokens(math.inf) == naive_lru(workload, 10**6)


@given(prompts)
def test_requests_of_the_warm_up_fill_the_cache_uncounted(workload: list[list[int]]) -> None:
    history = prefix_history(map(by_tokens, workload), BLOCK)
    for warmup in range(len(workload) + 1):
        before = LruCurve(prefix_history(map(by_tokens, workload[:warmup]), BLOCK))
        for capacity in (1, 3, math.inf):
            counted = LruCurve(history, warmup).hit_tokens(capacity)
            assert counted == LruCurve(history).hit_tokens(capacity) - before.hit_tokens(capacity)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=6), min_size=1, max_size=6))
def test_the_optimum_is_the_best_of_all_choices(workload: list[list[int]]) -> None:
    cache = OptimalCache(prefix_history(map(by_tokens, workload), BLOCK))
    for capacity in range(4):
        assert cache.hit_tokens(capacity) == naive_optimum(workload, capacity)


def test_what_is_written_anew_before_it_is_read_need_not_be_kept() -> None:
    """[1, 1] and [0, 0] [1, 0] are read once more; the fourth request writes [0, 0] anyway."""
    workload = [[0, 0, 1, 0], [1, 1], [1, 1, 0], [0, 0], [0, 0, 1, 0, 0]]
    history = prefix_history(map(by_tokens, workload), BLOCK)
    assert OptimalCache(history).hit_tokens(2) == 3 * BLOCK == naive_optimum(workload, 2)


@settings(max_examples=100, deadline=None)
@given(prompts)
def test_no_lru_beats_the_optimum_and_no_optimum_beats_no_limit(workload: list[list[int]]) -> None:
    history = prefix_history(map(by_tokens, workload), BLOCK)
    lru, optimal = LruCurve(history), OptimalCache(history)
    for capacity in range(10):
        assert lru.hit_tokens(capacity) <= optimal.hit_tokens(capacity)
        assert optimal.hit_tokens(capacity) <= lru.hit_tokens(math.inf)
    assert optimal.hit_tokens(history.distinct_blocks) == lru.hit_tokens(math.inf)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 20), st.lists(st.integers(0, 1), min_size=20, max_size=20)),
        min_size=1,
        max_size=10,
    ),
    st.sampled_from([1, 2, 3, 4, 6, 8]),
)
def test_hash_ids_of_any_size_mean_the_tokens_that_they_stand_for(
    rows: list[tuple[int, list[int]]], chunk: int
) -> None:
    workload = [by_hashes(tokens, ids, chunk) for tokens, ids in rows]
    by_hash = LruCurve(prefix_history(workload, BLOCK))
    by_token = LruCurve(prefix_history([by_tokens(spelt(one)) for one in workload], BLOCK))
    for capacity in (1, 2, 5, math.inf):
        assert by_hash.hit_tokens(capacity) == by_token.hit_tokens(capacity)


def test_salts_and_adapters_share_nothing() -> None:
    rows = [
        Request(arrival_ms=0, prompt_tokens=5, output_tokens=1, prompt_ids=[1] * 5, **more)
        for more in ({}, {"salt": "s"}, {"lora": "s"}, {"salt": "s"}, {})
    ]
    assert LruCurve(prefix_history(rows, BLOCK)).hit_tokens(math.inf) == 8


def test_stated_outputs_are_found_by_the_next_turn() -> None:
    turns = [
        Request(
            arrival_ms=0, prompt_tokens=2, output_tokens=4, prompt_ids=[1, 2], output_ids=[3] * 4
        ),
        Request(arrival_ms=1, prompt_tokens=7, output_tokens=1, prompt_ids=[1, 2, *[3] * 4, 9]),
    ]
    assert LruCurve(prefix_history(turns, BLOCK)).hit_tokens(math.inf) == 6


def test_mixed_ways_of_stating_prefixes_are_refused() -> None:
    mixed = [by_tokens([1, 2, 3]), by_hashes(4, [1, 2], 2)]
    with pytest.raises(TraceError, match="in two ways"):
        prefix_history(mixed, BLOCK)


def test_capacities_double() -> None:
    assert capacities(1000, 4) == [125, 250, 500, 1000]
    assert capacities(2, 4) == [1, 2]


@pytest.mark.parametrize(("name", "infinite"), [("conversation", 0.374), ("synthetic", 0.651)])
def test_hit_ratios_without_limit_are_the_published_ones(name: str, infinite: float) -> None:
    trace = open_trace(shared_path(f"traces/mooncake/{name}_trace.jsonl"))
    curve = LruCurve(prefix_history(trace, 16))
    assert curve.hit_ratio(math.inf) == pytest.approx(infinite, abs=0.0006)


def test_the_curve_runs_beside_vllms_own_hit_ratio() -> None:
    trace = open_trace(shared_path("traces/mooncake/conversation_trace.jsonl"))
    curve = LruCurve(prefix_history(trace, 16))
    assert curve.hit_ratio(10_000) == pytest.approx(0.0427, abs=0.001)
    assert curve.hit_ratio(320_000) == pytest.approx(0.217, abs=0.001)
