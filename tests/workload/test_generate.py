"""Generators: seeds, lengths, arrivals, and the prefixes that they claim to share."""

from __future__ import annotations

import itertools
import math
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from kvbench.workload.load import open_workload, parse_workload
from kvbench.workload.request import Request
from kvbench.workload.seeds import derive_seed
from tests.workload.test_load import AZURE, CONSTANT, TABLES


def make(table: dict[str, object], seed: int = 0, **more: object) -> list[Request]:
    return list(open_workload(parse_workload("w", {**table, **more}, Path()), seed))


def tokens(request: Request) -> list[int]:
    """Spell out a prompt."""
    if request.prompt_ids is not None:
        return list(request.prompt_ids)
    size = request.hash_tokens
    return [request.hash_ids[at // size] * size + at % size for at in range(request.prompt_tokens)]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_seed_decides_everything(table: dict[str, object]) -> None:
    arrivals = {"arrival": "gamma", "rate_per_s": 2.0}
    first = make(table, 7, **arrivals)
    assert first == make(table, 7, **arrivals)
    assert first != make(table, 8, **arrivals)
    assert [one.arrival_ms for one in first] == sorted(one.arrival_ms for one in first)


def test_seeds_do_not_depend_on_the_process() -> None:
    code = "from kvbench.workload.seeds import derive_seed; print(derive_seed(3, 'a', 1))"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert {int(run.stdout) for run in runs} == {derive_seed(3, "a", 1)}


def test_streams_are_told_apart() -> None:
    assert len({derive_seed(1, "a", "b"), derive_seed(1, "ab"), derive_seed(2, "a", "b")}) == 3


def test_constant_requests() -> None:
    assert make(CONSTANT) == [Request(arrival_ms=0, prompt_tokens=5, output_tokens=2)] * 3


def test_log_normal_lengths_have_their_median_and_their_cut() -> None:
    table = TABLES["lognormal"] | {"requests": 4000, "prompt_max_tokens": 800}
    prompts = [one.prompt_tokens for one in make(table)]
    assert statistics.median(prompts) == pytest.approx(100, rel=0.08)
    logs = [math.log(one.output_tokens) for one in make(table)]
    assert statistics.stdev(logs) == pytest.approx(0.5, rel=0.08)
    assert min(prompts) >= 1
    assert max(prompts) == 800


def test_empirical_lengths_are_pairs_of_the_trace(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(AZURE + "2023-11-16 18:15:47,8,2\n")
    table = {"kind": "empirical", "path": "t.csv", "requests": 50}
    requests = list(open_workload(parse_workload("w", table, tmp_path), 0))
    assert {(one.prompt_tokens, one.output_tokens) for one in requests} == {(374, 44), (8, 2)}
    assert len(requests) == 50


@pytest.mark.parametrize("prefix_tokens", [1, 7, 96, 512, 1000, 1536])
def test_shared_prefixes_are_shared_to_the_token(prefix_tokens: int) -> None:
    requests = make(TABLES["shared_prefix"], prefix_tokens=prefix_tokens, prompt_sigma=0.5)
    heads = {tuple(tokens(one)[:prefix_tokens]) for one in requests}
    assert len(heads) == 3
    own = [set(tokens(one)[prefix_tokens:]) for one in requests]
    assert len(set().union(*own)) == sum(len(one) for one in own)
    assert not set().union(*own) & set().union(*map(set, heads))


def test_popular_prefixes_are_popular() -> None:
    requests = make(TABLES["shared_prefix"], requests=2000, zipf=1.0)
    counts = [sum(one.hash_ids[0] == head for one in requests) for head in (0, 3, 6)]
    assert counts[0] == pytest.approx(2000 * 6 / 11, rel=0.1)
    assert counts == sorted(counts, reverse=True)


def test_a_turn_repeats_all_that_was_said() -> None:
    requests = make(TABLES["multi_turn"], system_tokens=6, arrival="poisson", rate_per_s=1.0)
    assert len(requests) == 24
    spoken: dict[tuple[int, ...], int] = {}
    for one in requests:
        prompt = tuple(tokens(one))
        before = max((said for said in spoken if prompt[: len(said)] == said), key=len, default=())
        assert len(prompt) == (len(before) or 6) + 10
        spoken[(*prompt, *one.output_ids)] = 1  # type: ignore[misc]
    assert len({tuple(tokens(one)[:6]) for one in requests}) == 1
    assert len(spoken) == 24


def test_turns_of_a_conversation_wait_for_each_other() -> None:
    requests = make(TABLES["multi_turn"], conversations=1, think_s=5.0, turns=200)
    gaps = [b.arrival_ms - a.arrival_ms for a, b in itertools.pairwise(requests)]
    assert statistics.mean(gaps) == pytest.approx(5000, rel=0.25)


def test_children_fork_from_their_parents_whole_context() -> None:
    requests = make(TABLES["agent_tree"], arrival="poisson", rate_per_s=0.05)
    assert len(requests) == 3 * (1 + 2 + 4)
    for index, one in enumerate(requests):
        if one.parent is None:
            assert one.prompt_tokens == 20
            continue
        parent = requests[one.parent]
        assert one.parent < index
        context = [*tokens(parent), *parent.output_ids]  # type: ignore[misc]
        assert tokens(one)[: len(context)] == context
        assert one.prompt_tokens == len(context) + 5
        assert one.arrival_ms == parent.arrival_ms + 10_000


@pytest.mark.parametrize("arrival", ["uniform", "poisson", "gamma", "on_off"])
def test_arrivals_keep_their_rate(arrival: str) -> None:
    requests = make(CONSTANT, requests=6000, arrival=arrival, rate_per_s=20.0, on_s=1, off_s=3)
    assert requests[-1].arrival_ms == pytest.approx(300_000, rel=0.1)


@pytest.mark.parametrize(("arrival", "variation"), [("poisson", 1.0), ("gamma", 3.0)])
def test_gaps_vary_as_much_as_asked(arrival: str, variation: float) -> None:
    requests = make(CONSTANT, requests=8000, arrival=arrival, rate_per_s=5.0, arrival_cv=3.0)
    gaps = [b.arrival_ms - a.arrival_ms for a, b in itertools.pairwise(requests)]
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(variation, rel=0.15)


def test_nobody_arrives_in_a_pause() -> None:
    requests = make(CONSTANT, requests=2000, arrival="on_off", rate_per_s=50, on_s=1, off_s=3)
    assert all(one.arrival_ms % 4000 < 1000 for one in requests)


def test_generators_stream() -> None:
    spec = parse_workload("w", {**CONSTANT, "requests": 10**12}, Path())
    assert len(list(itertools.islice(open_workload(spec, 0), 5))) == 5
