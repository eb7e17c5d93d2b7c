"""Every step of the real engine against the pool simulator, on the same requests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import pytest

from kvbench.workload.generate import GENERATORS
from kvbench.workload.kinds import with_defaults
from kvbench.workload.request import Request
from kvbench.workload.spec import WorkloadSpec
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.layout_groups import cache_groups
from kvbench_pool.vllm_policy.simulate import simulate
from kvbench_vllm.accounting import predicted
from kvbench_vllm.in_process import InProcessEngine
from kvbench_vllm.stepping import drive
from tests.engine.vllm.conftest import engine_of


def requests(kind: str, **params: object) -> list[Request]:
    spec = WorkloadSpec(name=kind, kind=kind, params=with_defaults(kind, params))
    return list(GENERATORS[kind](spec, 7))


SHARED = requests(
    "shared_prefix",
    requests=10,
    prefixes=2,
    prefix_tokens=200,
    prompt_tokens=60,
    prompt_sigma=0.6,
    output_tokens=12,
    rate_per_s=8,
)
LONG = requests(
    "lognormal",
    requests=10,
    prompt_median_tokens=180,
    prompt_sigma=0.7,
    output_median_tokens=40,
    output_sigma=0.5,
    rate_per_s=10,
)
TURNS = requests(
    "multi_turn",
    conversations=3,
    turns=3,
    system_tokens=64,
    prompt_tokens=40,
    output_tokens=10,
    think_s=1,
    rate_per_s=2,
)
#: Two equal prompts that end inside a block go on differently.
TWINS = [
    Request(arrival_ms=0, prompt_tokens=70, output_tokens=60, hash_ids=(1, 2, 3), hash_tokens=32),
    Request(arrival_ms=0, prompt_tokens=70, output_tokens=60, hash_ids=(1, 2, 3), hash_tokens=32),
    Request(
        arrival_ms=900.5,
        prompt_tokens=70,
        output_tokens=5,
        hash_ids=(1, 2, 3),
        hash_tokens=32,
        salt="apart",
    ),
]


@dataclass(frozen=True)
class Case:
    """An engine and the blocks it gets; ``retention`` is vLLM's own default unless stated."""

    model: str
    blocks: int
    block_size: int = 32
    caching: bool = True
    retention: int | None = None


#: Pools that are too small for the requests.
SMALL = Case("tiny-llama-gqa", 34)
SMALL_HYBRID = Case("tiny-granite-hybrid", 9, block_size=256, caching=False)

CASES = [
    Case("tiny-llama-gqa", 128),
    SMALL,
    Case("tiny-llama-gqa", 34, caching=False),
    Case("tiny-llama-mha", 18, block_size=64),
    Case("tiny-mistral-window", 40),
    Case("tiny-mistral-window", 40, retention=32),
    Case("tiny-gemma3", 72),
    Case("tiny-gemma3", 72, retention=96),
    Case("tiny-deepseek-mla", 66, block_size=16),
    # One block of each state group a sequence.
    Case("tiny-granite-hybrid", 22, block_size=256, caching=False),
    SMALL_HYBRID,
    Case("tiny-qwen3-next", 22, block_size=128, caching=False),
    # States are kept at the ends of blocks.
    Case("tiny-qwen3-next", 22, block_size=128),
    Case("tiny-qwen3-next", 22, block_size=128, retention=128),
]


def simulated(engine: InProcessEngine, workload: list[Request], step_ms: float) -> list[object]:
    scheduler = engine.engine.vllm_config.scheduler_config
    config = PoolConfig(
        num_blocks=engine.block_pool.num_gpu_blocks,
        block_size=engine.cache_config.block_size,
        max_num_seqs=scheduler.max_num_seqs,
        max_num_batched_tokens=scheduler.max_num_batched_tokens,
        enable_prefix_caching=bool(engine.cache_config.enable_prefix_caching),
        prefix_cache_retention_interval=engine.cache_config.prefix_cache_retention_interval,
        groups=cache_groups(predicted(engine)),
        step_ms=step_ms,
    )
    simulation = simulate(workload, config)
    names = ("used_blocks", "cached_free_blocks", "running", "waiting")
    series = [simulation.series.points(name) for name in names]
    assert simulation.series.steps <= 512, "a longer run keeps peaks only"
    counts = simulation.counts
    steps = [tuple(point.value for point in points) for points in zip(*series, strict=True)]
    totals = (counts.hit_tokens, counts.preemptions, simulation.evicted_blocks)
    return [totals, [point.step for point in series[0]], steps]


def reported(engine: InProcessEngine, workload: list[Request], step_ms: float) -> list[object]:
    assert engine.llm.reset_prefix_cache()
    record = drive(engine, workload, step_ms)
    totals = (sum(record.cached_tokens.values()), record.preemptions, record.evicted_blocks)
    generated = [record.output_tokens[str(index)] for index in range(len(workload))]
    assert generated == [request.output_tokens for request in workload]
    steps = [
        (step.used_blocks, step.cached_blocks, step.running, step.waiting) for step in record.steps
    ]
    return [totals, [step.number for step in record.steps], steps]


@cache
def runs_of(case: Case) -> list[tuple[list[object], list[object]]]:
    """What an engine reports and what the simulator says, for each workload.

    Starting an engine takes most of the time, so every test of a case looks at the same runs.
    """
    settings = {
        "block_size": case.block_size,
        "enable_prefix_caching": case.caching,
        "prefix_cache_retention_interval": case.retention,
    }
    with engine_of(case.model, **settings, blocks=case.blocks) as engine:
        assert engine.block_pool.num_gpu_blocks == case.blocks
        return [
            (reported(engine, workload, 50.0), simulated(engine, workload, 50.0))
            for workload in (SHARED, LONG, TURNS, TWINS)
        ]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_step_is_the_simulated_one(case):
    for found, expected in runs_of(case):
        assert found == expected


def test_a_small_pool_of_a_state_hybrid_preempts():
    """The comparison would show less if every state found room."""
    (hit_tokens, preemptions, _), _, steps = runs_of(SMALL_HYBRID)[0][0]
    assert (hit_tokens, preemptions > 0) == (0, True)
    # A running request holds three states and at least one block of the attention layer.
    assert all(used >= 4 * running for used, _, running, _ in steps)


def test_the_cases_evict_preempt_and_share():
    """The comparison would show nothing if nothing happened."""
    hit_tokens, preemptions, evicted = runs_of(SMALL)[0][0][0]
    assert hit_tokens > 0
    assert preemptions > 0
    assert evicted > 0
