"""Simulate a workload under vLLM's policy, by the fastest way that knows the configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvbench.workload.request import Request
from kvbench_pool.digest import StepDigest
from kvbench_pool.vllm_policy.batched import Batched
from kvbench_pool.vllm_policy.config import FULL, PoolConfig
from kvbench_pool.vllm_policy.prefix_keys import NumberedPrefixes
from kvbench_pool.vllm_policy.simulation import RequestRecord, Simulation
from kvbench_pool.vllm_policy.stepwise import run_stepwise


def can_batch(config: PoolConfig) -> bool:
    """Whether ``Batched`` knows everything that a configuration asks for."""
    plain = config.groups == (FULL,) and not config.async_scheduling
    return plain and config.step_time is None


def simulate(
    requests: Iterable[Request],
    config: PoolConfig,
    *,
    digest: StepDigest | None = None,
    sink: Callable[[RequestRecord], None] | None = None,
    numbered: NumberedPrefixes | None = None,
) -> Simulation:
    """Simulate a pool and its scheduler.

    Args:
        requests: The workload, in order of arrival; read once, as far as the clock needs.
        config: Pool and scheduler.
        digest: Takes in every step's decisions; a digest costs several times the simulation.
        sink: Takes each request's record when it ends, instead of the result's ``records``, so
            that a workload of any length needs bounded memory.
        numbered: Prefix keys of these very requests, for several simulations of one workload.

    Raises:
        TraceError: The workload's trace cannot be read.
    """
    run = run_batched if can_batch(config) else run_stepwise
    return run(requests, config, digest=digest, sink=sink, numbered=numbered)


def run_batched(
    requests: Iterable[Request],
    config: PoolConfig,
    *,
    digest: StepDigest | None = None,
    sink: Callable[[RequestRecord], None] | None = None,
    numbered: NumberedPrefixes | None = None,
) -> Simulation:
    """Simulate in batches what ``can_batch``.

    Args:
        requests: As for ``simulate``.
        config: Pool and scheduler.
        digest: As for ``simulate``.
        sink: As for ``simulate``.
        numbered: As for ``simulate``.

    Raises:
        TraceError: The workload's trace cannot be read.
    """
    records: list[RequestRecord] = []
    batched = Batched(config, digest, sink or records.append, numbered)
    batched.run(requests)
    return Simulation(
        config=config,
        counts=batched.counts,
        series=batched.notes.series,
        split=batched.notes.split,
        records=tuple(records),
        last_step=batched.step - 1,
        evicted_blocks=batched.free.evicted,
        free_queue=tuple(batched.free.queue()),
        digest=digest.hex if digest else "",
    )
