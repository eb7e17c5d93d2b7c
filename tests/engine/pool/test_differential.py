"""Random small workloads and options through vLLM's own scheduler and through ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from kvbench.layout import LayoutOptions
from kvbench.model.catalog import catalog_model
from kvbench.workload.request import MultimodalItem, Request
from kvbench_pool.digest import StepDigest, first_difference
from kvbench_pool.vllm_policy.config import FULL, CacheGroup, GroupKind, PoolConfig
from kvbench_pool.vllm_policy.layout_groups import cache_groups
from kvbench_pool.vllm_policy.simulate import can_batch, run_batched
from kvbench_pool.vllm_policy.simulation import Simulation
from kvbench_pool.vllm_policy.stepwise import run_stepwise
from kvbench_vllm.layout.layout import VllmLayout
from tests.engine.pool.real_scheduler import RealRun

_STATE = CacheGroup(kind=GroupKind.STATE)
_EXPORTED = CacheGroup(kind=GroupKind.STATE, fixed_blocks=3)


def _sliding(window: int) -> CacheGroup:
    return CacheGroup(kind=GroupKind.SLIDING, window_tokens=window)


_WINDOWS = st.integers(1, 40).map(_sliding)
_WINDOWED = st.one_of(
    st.tuples(_WINDOWS),
    st.tuples(st.just(FULL), _WINDOWS),
    st.tuples(_WINDOWS, st.just(FULL)),
    st.tuples(_WINDOWS, _WINDOWS),
    _WINDOWS.map(lambda group: (FULL, group, group)),
    st.tuples(st.just(FULL), _WINDOWS, _WINDOWS),
)


@st.composite
def _unequal(draw: st.DrawFn) -> tuple[CacheGroup, ...]:
    """Draw full and sliding groups in any order, with blocks of their own sizes."""
    kinds = draw(st.lists(st.one_of(st.just(FULL), _WINDOWS), min_size=2, max_size=4))
    sizes = draw(st.sampled_from(((2, 4), (4, 8), (1, 4, 16), (8, 16, 32), (2, 3), (4, 6))))
    groups = [replace(group, block_size=draw(st.sampled_from(sizes))) for group in kinds]
    # Layers of one kind and width are dealt out in several groups.
    return (*groups, *draw(st.sampled_from((groups[:0], groups[:1], groups[-1:]))))


@st.composite
def _items(draw: st.DrawFn, prompt_tokens: int) -> tuple[MultimodalItem, ...]:
    """Draw items in order, close together and over the end of blocks."""
    items: list[MultimodalItem] = []
    at = draw(st.integers(0, 20))
    for name in draw(st.lists(st.sampled_from(("cat", "dog")), max_size=3)):
        tokens = draw(st.sampled_from((1, 3, 18)))
        if at + tokens <= prompt_tokens:
            items.append(MultimodalItem(identifier=name, offset_tokens=at, tokens=tokens))
            at += tokens + draw(st.sampled_from((0, 0, 5)))
    return tuple(items)


@st.composite
def _requests(draw: st.DrawFn) -> list[Request]:
    """Draw requests that share prefixes: few tokens, common stems, outputs that can recur."""
    stem_lengths = draw(st.lists(st.integers(0, 60), min_size=1, max_size=3))
    stems = [[place % (2 + which) for place in range(n)] for which, n in enumerate(stem_lengths)]
    requests = []
    arrival = 0
    for _ in range(draw(st.integers(3, 12))):
        arrival += draw(st.sampled_from((0, 0, 0, 50, 300)))
        own = draw(st.integers(0, 2))
        prompt = [*draw(st.sampled_from(stems)), *[own] * draw(st.integers(1, 30))]
        output = [draw(st.integers(0, 2))] * draw(st.integers(1, 40))
        requests.append(
            Request(
                arrival_ms=arrival,
                prompt_tokens=len(prompt),
                output_tokens=len(output),
                prompt_ids=prompt,
                output_ids=output if draw(st.booleans()) else None,
                salt=draw(st.sampled_from(("", "", "", "", "s"))),
                lora=draw(st.sampled_from(("", "", "", "", "a"))),
                multimodal=draw(_items(len(prompt))) if draw(st.booleans()) else (),
            )
        )
    return requests


@st.composite
def _cases(
    draw: st.DrawFn,
    groups: st.SearchStrategy[tuple[CacheGroup, ...]],
    *,
    caching: bool | None,
    scarce: bool = False,
) -> tuple[PoolConfig, list[Request]]:
    """Draw a workload and a pool that holds its longest request, or ``scarce`` blocks."""
    requests = draw(_requests())
    size = draw(st.sampled_from((1, 2, 4, 8, 16)))
    ahead = draw(st.sampled_from((0, 0, 0, 1, 5)))
    found = draw(groups)
    seats = draw(st.integers(2, 8))
    longest = max(request.prompt_tokens + request.output_tokens for request in requests)
    sizes = [group.block_size or size for group in found]
    least = sum(-(-(longest + ahead) // one) + 1 for one in sizes)
    hit, spare = math.lcm(*sizes), st.integers(0, 1 + least // 2)
    kinds = {group.kind for group in found}
    # The engine refuses other intervals where they would do nothing.
    intervals: tuple[int | None, ...] = (None, 0, 0)
    if (caching and GroupKind.STATE in kinds) or (
        GroupKind.SLIDING in kinds and GroupKind.STATE not in kinds
    ):
        intervals = (*intervals, hit, 2 * hit, 5 * hit)
    config = PoolConfig(
        num_blocks=1
        + (draw(st.integers(1 + least // 4, least)) if scarce else least + draw(spare)),
        block_size=size,
        max_num_seqs=seats,
        max_num_batched_tokens=seats + draw(st.integers(0, 40)),
        watermark=draw(st.sampled_from((0.0, 0.0, 0.05, 0.3))),
        enable_prefix_caching=draw(st.booleans()) if caching is None else caching,
        reserve_full_prompt=draw(st.booleans()),
        async_scheduling=draw(st.booleans()),
        lookahead_tokens=ahead,
        prefix_cache_retention_interval=draw(st.sampled_from(intervals)),
        groups=found,
    )
    return config, requests


def _assert_equal(lines: Sequence[str], real: RealRun, simulation: Simulation) -> None:
    for expected, found in zip(real.lines, lines, strict=False):
        assert expected == found, first_difference(expected, found)
    assert len(lines) == len(real.lines)
    assert list(simulation.free_queue) == real.free_queue()
    ended = {record.index for record in simulation.records}
    assert len(ended) == simulation.counts.requests
    assert not ended & set(real.aborted)


def _compare(config: PoolConfig, requests: list[Request]) -> Simulation:
    """Fail at the first step that the engine decides otherwise."""
    real = RealRun(config, requests)
    real.run()
    runs: list[Any] = [run_stepwise, *([run_batched] if can_batch(config) else [])]
    for run in runs:
        lines: list[str] = []
        simulation = run(requests, config, digest=StepDigest(lines.append))
        _assert_equal(lines, real, simulation)
        if run is run_batched:
            quiet = run_batched(requests, config)
            assert quiet.summary() == {
                name: value for name, value in simulation.summary().items() if name != "digest"
            }
    return simulation


def _compare_and_tell(config: PoolConfig, requests: list[Request]) -> None:
    """Compare; tell hypothesis what the case was good for (``--hypothesis-show-statistics``)."""
    simulation = _compare(config, requests)
    event(f"preempts: {simulation.counts.preemptions > 0}")
    event(f"finds a prefix: {simulation.counts.hit_tokens > 0}")
    event(f"finds it again after a preemption: {simulation.counts.rehit_tokens > 0}")
    event(f"evicts: {simulation.evicted_blocks > 0}")
    event(f"drops: {simulation.counts.dropped > 0}")
    event(f"ends some: {simulation.counts.requests > 0}")


_MANY = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.timeout(1200)
@_MANY
@given(_cases(st.just((FULL,)), caching=None))
def test_full_attention(case: tuple[PoolConfig, list[Request]]) -> None:
    _compare_and_tell(*case)


@pytest.mark.timeout(1200)
@_MANY
@given(_cases(_WINDOWED, caching=None))
def test_windows_and_hybrids(case: tuple[PoolConfig, list[Request]]) -> None:
    _compare_and_tell(*case)


@pytest.mark.timeout(1200)
@settings(parent=_MANY, max_examples=60)
@given(_cases(st.sampled_from(((FULL, _STATE), (_STATE, FULL, _sliding(9)))), caching=False))
def test_state_pages(case: tuple[PoolConfig, list[Request]]) -> None:
    _compare_and_tell(*case)


@pytest.mark.timeout(1200)
@settings(parent=_MANY, max_examples=400)
@given(_cases(_unequal(), caching=None))
def test_blocks_of_unequal_size(case: tuple[PoolConfig, list[Request]]) -> None:
    _compare_and_tell(*case)


@pytest.mark.timeout(1200)
@settings(parent=_MANY, max_examples=300)
@given(_cases(st.one_of(_WINDOWED, _unequal()), caching=None, scarce=True))
def test_requests_that_never_fit(case: tuple[PoolConfig, list[Request]]) -> None:
    """What we drop is what the engine tries for ever, and the others run as if it were aborted."""
    _compare_and_tell(*case)


@pytest.mark.timeout(1200)
@settings(parent=_MANY, max_examples=200)
@given(_cases(_unequal(), caching=None, scarce=True))
def test_what_is_left_out_at_once_never_ends(case: tuple[PoolConfig, list[Request]]) -> None:
    """Several groups: the engine cannot finish such a request with the pool to itself."""
    config, requests = case
    for request in requests:
        if not config.fits(request.prompt_tokens, request.output_tokens):
            real = RealRun(config, [request])
            real.run(hopeless=True)
            assert real.aborted == [0]


_CHUNKED = CacheGroup(kind=GroupKind.CHUNKED, window_tokens=16)
_CHUNKS = (
    (_CHUNKED,),
    (FULL, _CHUNKED),
    (_CHUNKED, FULL, _CHUNKED),
    (FULL, _CHUNKED, _sliding(9)),
    (CacheGroup(kind=GroupKind.CHUNKED, window_tokens=32), _CHUNKED),
)


@pytest.mark.timeout(1200)
@_MANY
@given(_cases(st.sampled_from(_CHUNKS), caching=None))
def test_chunks(case: tuple[PoolConfig, list[Request]]) -> None:
    _compare_and_tell(*case)


_STATES = (
    (_STATE,),
    (FULL, _STATE),
    (FULL, _STATE, _STATE),
    (_STATE, FULL, _sliding(9)),
    (_sliding(5), _STATE),
    (FULL, _EXPORTED),
    (_EXPORTED,),
    (FULL, _EXPORTED, _sliding(9)),
    (FULL, _EXPORTED, _STATE),
)


@pytest.mark.timeout(1200)
@_MANY
@given(_cases(st.sampled_from(_STATES), caching=True))
def test_states_at_the_ends_of_blocks(case: tuple[PoolConfig, list[Request]]) -> None:
    _compare_and_tell(*case)


@pytest.mark.parametrize("chunk", [7, 16, 24, 512])
@pytest.mark.parametrize("size", [5, 8, 16])
def test_hash_ids_stand_for_their_tokens(chunk: int, size: int) -> None:
    """Prefixes by chunk ids, the last one partial, at block sizes that do not divide the chunk."""
    shapes = (((1, 2, 3), 0), ((1, 2, 4), 3), ((1, 2, 3, 4), 2), ((9, 2, 3), 1), ((1, 2), 0))
    requests = [
        Request(
            arrival_ms=100 * place,
            prompt_tokens=len(ids) * chunk - short,
            output_tokens=4,
            hash_ids=ids,
            hash_tokens=chunk,
        )
        for place, (ids, short) in enumerate(shapes * 2)
    ]
    config = PoolConfig(num_blocks=900, block_size=size)
    _compare(config, requests)


@pytest.mark.parametrize("interval", [None, 0])
@pytest.mark.parametrize(
    ("model", "blocks"),
    [
        ("Gemma-4-31B-IT", 800),
        ("gemma-4-E2B", 800),
        ("MiMo-V2-Flash", 800),
        ("DeepSeek-V4-Flash", 500),
    ],
)
def test_models_with_blocks_of_unequal_size(model: str, blocks: int, interval: int | None) -> None:
    """The groups of real models, in a pool that is too small for all requests at once."""
    arrangement = VllmLayout().arrange(catalog_model(model), LayoutOptions())
    requests = [
        Request(
            arrival_ms=100 * place,
            prompt_tokens=1400 + 37 * place,
            output_tokens=60 + 11 * place,
            hash_ids=(1, 2 + place % 3, 5 + place % 4, 9 + place),
            hash_tokens=512,
        )
        for place in range(16)
    ]
    config = PoolConfig(
        num_blocks=blocks,
        block_size=arrangement.block_size,
        max_num_batched_tokens=512,
        reserve_full_prompt=False,
        prefix_cache_retention_interval=interval,
        groups=cache_groups(arrangement),
    )
    simulation = _compare(config, requests)
    assert simulation.counts.hit_tokens > 0
    assert simulation.counts.preemptions > 0
    assert simulation.evicted_blocks > 0
