"""A workload through vLLM's own loop, one step at a time, with the pool's state after each."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kvbench.engine import Cache, Cell, CellOutput, Evidence, Observation
from kvbench.errors import CellFailed
from kvbench.workload.load import open_workload
from kvbench.workload.request import Request
from kvbench.workload.spec import WorkloadSpec
from kvbench_vllm.accounting import block_bytes, effective_settings
from kvbench_vllm.in_process import InProcessEngine
from kvbench_vllm.session import VllmSession

#: Counting free blocks that still hold a prefix looks at every block of the pool.
_COUNT_CACHED_UP_TO_BLOCKS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """State of the pool after ``schedule`` and ``update_from_output`` of one step."""

    used_blocks: int
    cached_blocks: int | None
    running: int
    waiting: int


@dataclass(slots=True, kw_only=True)
class Record:
    """What one run of a workload left behind."""

    steps: list[Step] = field(default_factory=list)
    cached_tokens: dict[str, int] = field(default_factory=dict)
    prompt_tokens: dict[str, int] = field(default_factory=dict)
    evicted_blocks: int = 0
    preemptions: int = 0


def run_workload(cell: Cell, session: VllmSession) -> CellOutput:
    """Run the cell's workload; every figure is the engine's own.

    Raises:
        CellFailed: The cell has no workload, or a request can never fit.
    """
    if cell.workload is None:
        raise CellFailed("no_workload", "stage allocate needs a workload")
    engine = session.in_process()
    requests = workload_requests(cell, cell.workload)
    _check_lengths(requests, engine)
    cold = _start_state(cell, engine)
    record = drive(engine, requests, float(cell.settings["step_ms"]))
    return CellOutput(
        observations=tuple(_observations(record, engine)),
        effective=effective_settings(engine),
        assumptions=(f"One engine step per {cell.settings['step_ms']} ms of arrivals.",),
        invalid="" if cold else "cache_not_cold",
        invalid_message="" if cold else "the prefix cache could not be emptied before the run",
    )


def workload_requests(cell: Cell, workload: WorkloadSpec) -> list[Request]:
    """The workload's requests, up to the cell's ``limit``."""
    limit = cell.settings.get("limit")
    requests = open_workload(workload, int(cell.settings["workload_seed"]))
    return list(requests if limit is None else islice(requests, int(limit)))


def drive(engine: InProcessEngine, requests: Sequence[Request], step_ms: float) -> Record:
    """Feed ``requests`` by their arrival step and step the engine until none is left.

    Request i joins at step ``ceil(arrival_ms / step_ms)``; with nothing to do the clock jumps
    to the next arrival. Outputs are forced to the stated length.
    """
    record = Record()
    pending = [(math.ceil(request.arrival_ms / step_ms), request) for request in requests]
    step = position = 0
    with _watched(engine, record):
        while position < len(pending) or engine.engine.has_unfinished_requests():
            if not engine.engine.has_unfinished_requests():
                step = max(step, pending[position][0])
            while position < len(pending) and pending[position][0] <= step:
                _add(engine, str(position), pending[position][1], record)
                position += 1
            _note(record, engine.engine.step(), engine)
            step += 1
    return record


def prompt_token_ids(request: Request, name: str, vocabulary: int) -> list[int]:
    """Token ids with the request's prefix identity, inside the model's vocabulary.

    Equal hash ids give equal tokens; different ones differ with near certainty over a block.
    A request without identity gets tokens that only its ``name`` decides.
    """
    if request.prompt_ids is not None:
        return [int(token) % vocabulary for token in request.prompt_ids]
    tokens: list[int] = []
    for position, hash_id in enumerate(request.hash_ids):
        count = min(request.hash_tokens, request.prompt_tokens - position * request.hash_tokens)
        tokens += tokens_of(f"{hash_id}", count, vocabulary)
    if not request.hash_ids:
        tokens = tokens_of(f"request {name}", request.prompt_tokens, vocabulary)
    return tokens


def tokens_of(identity: str, count: int, vocabulary: int) -> list[int]:
    """``count`` token ids below ``vocabulary`` that only ``identity`` decides."""
    stream = hashlib.shake_256(identity.encode()).digest(4 * count)
    return [
        int.from_bytes(stream[4 * index : 4 * index + 4], "little") % vocabulary
        for index in range(count)
    ]


def _add(engine: InProcessEngine, name: str, request: Request, record: Record) -> None:
    from vllm import SamplingParams

    vocabulary = engine.engine.vllm_config.model_config.get_vocab_size()
    tokens = prompt_token_ids(request, name, vocabulary)
    record.prompt_tokens[name] = len(tokens)
    sampling = SamplingParams(
        max_tokens=request.output_tokens, ignore_eos=True, detokenize=False, temperature=0.0
    )
    prompt: dict[str, Any] = {"prompt_token_ids": tokens}
    if request.salt:
        prompt["cache_salt"] = request.salt
    engine.engine.add_request(name, prompt, sampling)


def _note(record: Record, outputs: Sequence[Any], engine: InProcessEngine) -> None:
    for output in outputs:
        if output.num_cached_tokens is not None:
            record.cached_tokens.setdefault(output.request_id, output.num_cached_tokens)
    record.steps.append(_state(engine))


def _state(engine: InProcessEngine) -> Step:
    pool, scheduler = engine.block_pool, engine.scheduler
    return Step(
        used_blocks=pool.num_gpu_blocks - 1 - pool.get_num_free_blocks(),
        cached_blocks=_cached_free_blocks(pool),
        running=len(scheduler.running),
        waiting=len(scheduler.waiting),
    )


def _cached_free_blocks(pool: Any) -> int | None:
    if pool.num_gpu_blocks > _COUNT_CACHED_UP_TO_BLOCKS:
        return None
    cached = [block for block in pool.blocks if not block.ref_cnt and block.block_hash is not None]
    return len(cached)


@contextmanager
def _watched(engine: InProcessEngine, record: Record) -> Iterator[None]:
    """Count evictions and preemptions by listening in, without changing what happens."""
    pool, scheduler = engine.block_pool, engine.scheduler
    evict, preempt = pool._maybe_evict_cached_block, scheduler._preempt_request

    def evicting(block: Any) -> Any:
        evicted = evict(block)
        record.evicted_blocks += bool(evicted)
        return evicted

    def preempting(*args: Any, **kwargs: Any) -> Any:
        record.preemptions += 1
        return preempt(*args, **kwargs)

    pool._maybe_evict_cached_block, scheduler._preempt_request = evicting, preempting
    try:
        yield
    finally:
        del pool._maybe_evict_cached_block, scheduler._preempt_request


def _observations(record: Record, engine: InProcessEngine) -> Iterator[Observation]:
    used = [step.used_blocks for step in record.steps]
    hits, queries = sum(record.cached_tokens.values()), sum(record.prompt_tokens.values())
    totals: dict[str, float] = {
        "peak_used_blocks": max(used, default=0),
        "mean_used_blocks": sum(used) / max(1, len(used)),
        "peak_used_bytes": max(used, default=0) * block_bytes(engine),
        "peak_usage_ratio": max(used, default=0) / (engine.block_pool.num_gpu_blocks - 1),
        "peak_running_requests": max((step.running for step in record.steps), default=0),
        "peak_waiting_requests": max((step.waiting for step in record.steps), default=0),
        "hit_tokens": hits,
        "query_tokens": queries,
        "prefix_hit_ratio": hits / max(1, queries),
        "evicted_blocks": record.evicted_blocks,
        "preemptions_count": record.preemptions,
        "steps_count": len(record.steps),
        "requests_count": len(record.prompt_tokens),
    }
    for name, value in totals.items():
        yield Observation(metric=name, value=value, evidence=Evidence.ENGINE)
    yield from _series(record.steps)


def _series(steps: Sequence[Step]) -> Iterator[Observation]:
    for index, step in enumerate(steps):
        values = {
            "used_blocks": step.used_blocks,
            "cached_blocks": step.cached_blocks,
            "running_requests": step.running,
            "waiting_requests": step.waiting,
        }
        for name, value in values.items():
            if value is not None:
                yield Observation(
                    metric=name, value=value, evidence=Evidence.ENGINE, t_offset_s=float(index)
                )


def _start_state(cell: Cell, engine: InProcessEngine) -> bool:
    if cell.cache is not Cache.COLD:
        return True
    return bool(engine.llm.reset_prefix_cache()) and _cached_free_blocks(engine.block_pool) in (
        0,
        None,
    )


def _check_lengths(requests: Sequence[Request], engine: InProcessEngine) -> None:
    longest = engine.engine.vllm_config.model_config.max_model_len
    for index, request in enumerate(requests):
        if request.prompt_tokens + request.output_tokens > longest:
            raise CellFailed(
                "context_exceeds_model",
                f"request {index} needs {request.prompt_tokens + request.output_tokens} tokens, "
                f"the engine takes {longest}: raise max_model_len or limit the workload",
            )
