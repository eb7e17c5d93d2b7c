"""Every memory policy: invariants on any workload, and its own rules on worked examples."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvbench.workload.request import Request
from kvbench_pool.occupancy import Occupancy
from kvbench_pool.policies import POLICIES, Job, PoolShape
from kvbench_pool.policies.base import MemoryPolicy
from kvbench_pool.policies.forked import Forked
from kvbench_pool.policies.radix import Radix
from kvbench_pool.policies.reserved import Buddy, Contiguous, Reserving
from kvbench_pool.prefix_tree import Node
from kvbench_pool.replay import Replay, SchedulerLimits


class CheckedOccupancy(Occupancy):
    """Checks the policy's invariants at every visited step."""

    def visit(self, step: int, policy: MemoryPolicy, running: int, waiting: int) -> None:
        check(policy, self.slots)
        super().visit(step, policy, running, waiting)


def check(policy: MemoryPolicy, slots: int) -> None:
    assert 0 <= policy.live_slots <= policy.allocated_slots
    assert policy.allocated_slots + policy.cached_slots <= slots
    assert policy.unshared_slots >= 0
    assert policy.promised_slots <= policy.allocated_slots
    if isinstance(policy, Radix):
        check_radix(policy)
    elif isinstance(policy, Reserving):
        check_pieces(policy, slots)
    elif isinstance(policy, Forked):
        check_forked(policy)


def nodes(root: Node | None) -> list[Node]:
    found = [] if root is None else list(root.children.values())
    for node in found:
        found.extend(node.children.values())
    return found


def check_radix(policy: Radix) -> None:
    """Counters against a count of the tree and of what running jobs hold."""
    tree = nodes(policy._tree.root)
    holdings = policy._holdings.values()
    locks = Counter(node for one in holdings for node in one.node.path())
    assert all(node.locks == locks[node] for node in tree)
    assert all(node.pages > 0 for node in tree)
    assert sum(node.pages for node in tree if node.locks) == policy._locked
    assert sum(node.pages for node in tree if not node.locks) == policy._evictable
    private = sum(one.private for one in holdings)
    assert policy._free + private + policy._locked + policy._evictable == policy._total


def check_pieces(policy: Reserving, slots: int) -> None:
    """No two pieces overlap, and free and held pieces make up the pool."""
    held = sorted(policy._pieces.values())
    for (start, size), (following, _) in itertools.pairwise(held):
        assert start + size <= following
    assert sum(size for _, size in held) == policy.allocated_slots
    if isinstance(policy, Contiguous):
        assert sum(policy._sizes) + policy.allocated_slots == slots
    if isinstance(policy, Buddy):
        free = sum(size * len(starts) for size, starts in policy._free.items())
        assert free + policy.allocated_slots == slots


def check_forked(policy: Forked) -> None:
    """References equal the occurrences in the tables of running and parked sequences."""
    manager = policy._manager
    tables = [manager.block_table(seq) for seq in manager.sequences()]
    assert manager.ref_counts() == Counter(block for table in tables for block in table)
    running = [seq for seq in manager.sequences() if seq not in policy._parked]
    held = Counter(block for seq in running for block in manager.block_table(seq))
    assert policy._holders == held


@st.composite
def workloads(draw: st.DrawFn) -> list[Request]:
    """Small workloads with shared prefixes (token ids) and earlier requests as parents."""
    requests: list[Request] = []
    arrival = 0.0
    for index in range(draw(st.integers(1, 14))):
        arrival += draw(st.sampled_from([0.0, 0.0, 50.0, 1000.0]))
        parent = draw(st.none() | st.integers(0, index - 1)) if index else None
        prompt = draw(st.lists(st.integers(0, 1), min_size=1, max_size=14))
        output = draw(st.integers(1, 9))
        outputs = [1000 + 100 * index + at for at in range(output)]
        if parent is not None:
            before = requests[parent]
            prompt = [*before.prompt_ids, *before.output_ids, *prompt]  # type: ignore[misc]
        requests.append(
            Request(
                arrival_ms=arrival,
                prompt_tokens=len(prompt),
                output_tokens=output,
                prompt_ids=prompt,
                output_ids=outputs,
                parent=parent,
            )
        )
    return requests


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=60, deadline=None, database=None)
@given(
    requests=workloads(),
    num_blocks=st.integers(4, 40),
    block_size=st.integers(1, 5),
    reserve=st.sampled_from(["max", "final"]),
    max_model_len=st.integers(8, 60),
    seats=st.integers(1, 8),
    budget=st.integers(8, 40),
)
def test_any_workload_runs_to_its_end_and_leaves_nothing_held(
    name: str,
    requests: list[Request],
    num_blocks: int,
    block_size: int,
    reserve: str,
    max_model_len: int,
    seats: int,
    budget: int,
) -> None:
    shape = PoolShape(
        num_blocks=num_blocks, block_size=block_size, max_model_len=max_model_len, reserve=reserve
    )
    policy = POLICIES[name](shape)
    limits = SchedulerLimits(max_num_seqs=seats, max_num_batched_tokens=budget)
    occupancy = CheckedOccupancy(block_size)
    occupancy.slots = shape.slots  # type: ignore[attr-defined]
    replay = Replay(policy, limits, occupancy)
    replay.run(requests)
    totals = replay.totals
    fitting = [one for at, one in enumerate(requests) if POLICIES[name](shape).fits(_job(one, at))]
    assert (totals.requests, totals.dropped) == (len(fitting), len(requests) - len(fitting))
    written = sum(one.prompt_tokens + one.output_tokens - 1 for one in fitting)
    assert totals.scheduled_tokens == written - totals.hit_tokens + totals.recomputed_tokens
    assert totals.query_tokens == sum(one.prompt_tokens for one in fitting)
    assert (policy.allocated_slots, policy.live_slots, policy.promised_slots) == (0, 0, 0)
    assert policy.unshared_slots == 0
    check(policy, shape.slots)


def _job(request: Request, index: int = 0) -> Job:
    return Job(index=index, request=request, known=request.prompt_tokens)


def _request(prompt: int, output: int, **more: object) -> Request:
    return Request(arrival_ms=0, prompt_tokens=prompt, output_tokens=output, **more)  # type: ignore[arg-type]


def _shape(num_blocks: int, block_size: int = 4, longest: int = 16, **more: str) -> PoolShape:
    return PoolShape(num_blocks=num_blocks, block_size=block_size, max_model_len=longest, **more)


def test_contiguous_cannot_use_memory_that_lies_apart() -> None:
    policy = Contiguous(_shape(3, reserve="final"))
    small = [_job(_request(3, 2), index) for index in range(3)]
    assert [policy.admit(job) for job in small] == [0, 0, 0]
    policy.release(small[0])
    policy.release(small[2])
    wide = _job(_request(6, 1), 3)
    assert policy.admit(wide) is None
    assert policy.wasted_outside(wide) == 8
    policy.release(small[1])
    assert policy.admit(wide) == 0


def test_contiguous_takes_the_best_fit() -> None:
    policy = Contiguous(_shape(6, reserve="final"))
    jobs = [_job(_request(tokens, 1), index) for index, tokens in enumerate([8, 2, 4, 10])]
    for job in jobs:
        assert policy.admit(job) == 0
    policy.release(jobs[0])
    policy.release(jobs[2])
    again = _job(_request(4, 1), 9)
    policy.admit(again)
    assert policy._pieces[9] == (10, 4)


def test_static_slots_are_as_long_as_the_longest_sequence() -> None:
    policy = POLICIES["static"](_shape(9))
    jobs = [_job(_request(1, 1), index) for index in range(3)]
    assert [policy.admit(job) for job in jobs] == [0, 0, None]
    assert policy.allocated_slots == 32
    assert not policy.fits(_job(_request(12, 6)))


def test_buddies_round_up_and_merge_again() -> None:
    policy = Buddy(_shape(4, reserve="final"))
    jobs = [_job(_request(tokens, 1), index) for index, tokens in enumerate([5, 3, 4])]
    assert [policy.admit(job) for job in jobs] == [0, 0, 0]
    assert [policy._pieces[index] for index in range(3)] == [(0, 8), (8, 4), (12, 4)]
    assert (policy.allocated_slots, policy.promised_slots) == (16, 12)
    for job in jobs:
        policy.release(job)
    assert policy._free == {16: {0}, 8: set(), 4: set(), 2: set(), 1: set()}


def test_a_buddy_pool_that_is_no_power_of_two_is_used_whole() -> None:
    policy = Buddy(_shape(5, reserve="final"))
    assert policy.admit(_job(_request(16, 1), 0)) == 0
    assert policy.admit(_job(_request(4, 1), 1)) == 0
    assert policy.allocated_slots == 20
    assert not policy.fits(_job(_request(17, 1), 2))


def _ids(*tokens: int) -> Request:
    return _request(len(tokens), 1, prompt_ids=list(tokens))


def _finish(policy: MemoryPolicy, job: Job) -> None:
    found = policy.admit(job)
    assert found is not None
    job.computed = job.known
    policy.wrote(job.known - found)
    policy.computed(job)
    policy.release(job)


def test_radix_finds_a_finished_prefix_page_by_page() -> None:
    policy = Radix(_shape(8, block_size=2))
    _finish(policy, _job(_ids(1, 2, 3, 4, 5, 6), 0))
    assert policy.cached_slots == 6
    assert policy.admit(_job(_ids(1, 2, 3, 4, 9, 9), 1)) == 4
    assert policy.admit(_job(_ids(1, 9, 3, 4, 9, 9), 2)) == 0


def test_radix_computes_the_last_token_of_a_full_hit() -> None:
    policy = Radix(_shape(8, block_size=2))
    _finish(policy, _job(_ids(1, 2, 3, 4), 0))
    assert policy.admit(_job(_ids(1, 2, 3, 4), 1)) == 2


def test_radix_with_pages_of_one_token_shares_to_the_token() -> None:
    policy = Radix(_shape(16, block_size=1))
    _finish(policy, _job(_ids(1, 2, 3, 4, 5), 0))
    assert policy.admit(_job(_ids(1, 2, 3, 7, 8), 1)) == 3


def test_radix_evicts_the_leaf_used_least_recently() -> None:
    policy = Radix(_shape(5, block_size=2))
    _finish(policy, _job(_ids(1, 1, 2, 2), 0))
    _finish(policy, _job(_ids(1, 1, 3, 3), 1))
    assert policy.cached_slots == 6
    _finish(policy, _job(_ids(1, 1, 2, 2, 9), 2))
    assert policy.evicted_slots == 0
    _finish(policy, _job(_ids(7, 7, 8, 8, 9, 9), 3))
    assert policy.evicted_slots == 2
    assert policy.admit(_job(_ids(1, 1, 2, 2, 9), 4)) == 4
    assert policy.admit(_job(_ids(1, 1, 3, 3, 9), 5)) == 2


def test_radix_locks_what_running_requests_read() -> None:
    policy = Radix(_shape(4, block_size=2))
    _finish(policy, _job(_ids(1, 1, 2, 2, 3), 0))
    reader = _job(_ids(1, 1, 2, 2, 4), 1)
    assert policy.admit(reader) == 4
    assert policy.admit(_job(_ids(8, 8, 9, 9), 2)) is None
    assert policy.admit(_job(_ids(8, 8), 3)) == 0


def test_a_child_forks_from_its_finished_parent() -> None:
    policy = Forked(_shape(8))
    parent = _job(_request(6, 1), 0)
    _finish(policy, parent)
    assert policy.cached_slots == 8
    child = _job(_request(7, 1, parent=0), 1)
    assert policy.admit(child) == 6
    policy.wrote(1)
    child.computed = 7
    assert policy._manager.copied_blocks == 1
    assert (policy.allocated_slots, policy.live_slots, policy.cached_slots) == (8, 7, 4)
    sibling = _job(_request(7, 1, parent=0), 2)
    assert policy.admit(sibling) == 6
    assert policy.unshared_slots == 4


def test_parked_parents_make_way() -> None:
    policy = Forked(_shape(3))
    _finish(policy, _job(_request(8, 1), 0))
    assert policy.admit(_job(_request(8, 1), 1)) == 0
    assert policy.evicted_slots == 8
    assert policy.admit(_job(_request(9, 1, parent=0), 2)) is None
