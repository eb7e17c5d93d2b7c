"""Facts of vLLM that can be checked by hand, each taken from vLLM itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from kvbench.workload.request import Request
from kvbench_pool.vllm_policy.cache_manager import CacheManager
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.job import Job
from kvbench_pool.vllm_policy.prefix_keys import PrefixKeys
from tests.conftest import shared_path
from tests.pool_vllm.decision_log import FOLDER


class Bench:
    """A cache manager, and jobs whose prompts are given as token ids."""

    def __init__(self, num_blocks: int, **options: Any) -> None:
        self.config = PoolConfig(num_blocks=num_blocks, **options)
        self.cache = CacheManager(self.config)
        self._keys = PrefixKeys(self.config.hash_block_size)
        self._made = 0

    def job(self, tokens: Sequence[int], *, salt: str = "", lora: str = "") -> Job:
        """Return a new job."""
        request = Request(
            arrival_ms=0,
            prompt_tokens=len(tokens),
            output_tokens=1,
            prompt_ids=tokens,
            salt=salt,
            lora=lora,
        )
        keys = self._keys.public(request).tolist()
        self._made += 1
        return Job(
            index=self._made,
            prompt_tokens=len(tokens),
            output_tokens=1,
            keys=keys,
            arrive_step=0,
            known=len(tokens),
        )

    def hit(self, job: Job) -> int:
        """Tokens found for a job."""
        return self.cache.found_tokens(self.cache.find(job))

    def admit(self, job: Job, *, others: bool = False) -> list[int] | None:
        """Admit a job with its whole prompt; return its table."""
        found = self.cache.find(job)
        rest = job.known - self.cache.found_tokens(found)
        if not self.cache.admit(job, rest, found, others=others):
            return None
        return list(self.cache.table(job)[0])

    @property
    def free(self) -> list[int]:
        """The free queue."""
        return self.cache.pool.free_queue()


@pytest.fixture(scope="module")
def facts() -> list[dict[str, Any]]:
    lines = shared_path(f"{FOLDER}/semantics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def _fact(facts: list[dict[str, Any]], start: str) -> dict[str, Any]:
    return next(fact for fact in facts if fact["name"].startswith(start))


def test_null_block_is_never_handed_out(facts: list[dict[str, Any]]) -> None:
    fact = _fact(facts, "null_block")
    bench = Bench(20)
    assert bench.free == fact["free"]
    assert bench.config.usable_blocks == fact["usable"]


def test_only_full_blocks_are_findable_and_an_unfindable_tail_goes_to_the_front(
    facts: list[dict[str, Any]],
) -> None:
    bench, tokens = Bench(20), range(40)
    job = bench.job(tokens)
    assert bench.admit(job) == _fact(facts, "prompt40_blocks")["table"]
    registered = [next(iter(blocks)) for blocks in bench.cache.pool.by_key.values()]
    assert registered == _fact(facts, "prompt40_blocks")["hashed"]
    bench.cache.release(job)
    assert bench.free == _fact(facts, "free_order")["free"]
    again, fact = bench.job(tokens), _fact(facts, "rehit40")
    assert bench.hit(again) == fact["cached"]
    assert bench.admit(again) == fact["table"]
    assert bench.free == fact["free"]


def test_a_prompt_found_whole_computes_its_last_block_again(facts: list[dict[str, Any]]) -> None:
    fact = _fact(facts, "full hit on an aligned prompt")
    bench = Bench(20)
    first = bench.job(range(32))
    bench.admit(first)
    bench.cache.release(first)
    again = bench.job(range(32))
    assert bench.hit(again) == fact["cached"]
    assert bench.admit(again) == fact["table"]
    assert {str(block): bench.cache.pool.holders(block) for block in fact["table"]} == fact[
        "copies"
    ]
    assert bench.cache.pool.num_cached == fact["map_len"]


def test_a_prompt_is_shared_within_the_step_that_admits_it(facts: list[dict[str, Any]]) -> None:
    fact = _fact(facts, "same step sharing")
    bench = Bench(20)
    first, second = bench.job(range(60)), bench.job(range(60))
    assert bench.admit(first) == fact["first"]
    assert bench.hit(second) == fact["second_cached"]
    assert bench.admit(second) == fact["second"]


@pytest.mark.parametrize("name", ["salt", "lora"])
def test_salts_and_adapters_keep_prefixes_apart(name: str, facts: list[dict[str, Any]]) -> None:
    start = {"salt": "cache_salt", "lora": "lora name"}[name]
    same = _fact(facts, start)[{"salt": "same_salt", "lora": "same"}[name]]
    bench = Bench(40)
    bench.admit(bench.job(range(60), **{name: "one"}))
    assert bench.hit(bench.job(range(60), **{name: "other"})) == 0
    assert bench.hit(bench.job(range(60))) == 0
    assert bench.hit(bench.job(range(60), **{name: "one"})) == same


def test_lookahead_takes_slots_and_registers_none(facts: list[dict[str, Any]]) -> None:
    cases = [fact for fact in facts if fact["name"] == "lookahead"]
    assert len(cases) == 4
    for fact in cases:
        bench = Bench(20, lookahead_tokens=fact["lookahead"])
        table = bench.admit(bench.job(range(fact["tokens"])))
        assert table is not None
        assert len(table) == fact["blocks"]
        assert bench.cache.pool.num_cached == fact["hashed"]


def test_eviction_on_hand_out_takes_the_oldest_tail_first(facts: list[dict[str, Any]]) -> None:
    fact = _fact(facts, "evict on hand-out")
    bench = Bench(6)
    old = bench.job(range(80))
    bench.admit(old)
    bench.cache.release(old)
    assert bench.free == fact["queue_before"]
    assert bench.admit(bench.job(range(100, 132))) == fact["new_table"]
    again = bench.job(range(80))
    assert bench.hit(again) == fact["old_chain_hit_after"]
    assert bench.admit(again) is fact["retry_table"] is None


def test_watermark_counts_only_while_others_run(facts: list[dict[str, Any]]) -> None:
    fact = _fact(facts, "watermark")
    bench = Bench(10, watermark=0.2)
    assert bench.config.watermark_blocks == fact["watermark_blocks"]
    bench.admit(bench.job(range(64)))
    assert len(bench.free) == fact["free"]
    asking = bench.job(range(100, 100 + 16 * fact["need"]))
    assert bench.admit(asking, others=True) is fact["with_running"] is None
    assert bench.admit(asking, others=False) == fact["without_running"]


def test_without_caching_everything_returns_to_the_front(facts: list[dict[str, Any]]) -> None:
    fact = _fact(facts, "no prefix caching")
    bench = Bench(20, enable_prefix_caching=False)
    a, b = bench.job(range(64)), bench.job(range(64))
    assert bench.admit(a) == fact["a"]
    assert bench.admit(b) == fact["b"]
    bench.cache.release(a)
    assert bench.free[:8] == fact["after_a"]
    bench.cache.release(b)
    assert bench.free[:10] == fact["after_b"]
