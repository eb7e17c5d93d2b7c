"""A workload through vLLM's own loop, one step at a time, with the pool's state in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kvbench.engine import Cache, Cell, CellOutput, Evidence, Observation
from kvbench.errors import CellFailed
from kvbench.workload.request import Request
from kvbench_vllm.accounting import block_bytes, effective_settings
from kvbench_vllm.in_process import InProcessEngine
from kvbench_vllm.prompts import cache_salt, output_token_ids, prompt_token_ids, workload_requests
from kvbench_vllm.session import VllmSession

#: Counting free blocks that still hold a prefix looks at every block of the pool.
_COUNT_CACHED_UP_TO_BLOCKS = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """State of scheduler and pool while one step is computed.

    Attributes:
        number: Place on the workload's clock.
        used_blocks: Blocks of running requests, after ``schedule`` handed out this step's.
        cached_blocks: Free blocks that still hold a prefix, ``None`` for very large pools.
        running: Requests that run in the step.
        waiting: Requests that waited when it was scheduled.
    """

    number: int
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
    output_tokens: dict[str, int] = field(default_factory=dict)
    evicted_blocks: int = 0
    preemptions: int = 0
    clock: int = 0


def run_workload(cell: Cell, session: VllmSession) -> CellOutput:
    """Run the cell's workload; every figure is the engine's own.

    Raises:
        CellFailed: The cell has no workload, or a request can never fit.
    """
    requests = workload_requests(cell)
    engine = session.in_process()
    _check_lengths(requests, engine)
    step_ms = float(cell.settings["step_ms"])
    invalid, message = _prepare(cell, engine, requests, step_ms)
    record = drive(engine, requests, step_ms)
    return CellOutput(
        observations=tuple(_observations(record, engine, step_ms)),
        effective=effective_settings(engine),
        assumptions=(
            f"One engine step per {step_ms:g} ms of arrivals; outputs have their stated length.",
        ),
        invalid=invalid,
        invalid_message=message,
    )


def drive(engine: InProcessEngine, requests: Sequence[Request], step_ms: float) -> Record:
    """Feed ``requests`` by their arrival step and step the engine until none is left.

    Request i joins at the first step that starts no earlier than its arrival (in whole ms);
    with nothing to do the clock jumps to the next arrival.
    """
    record = Record()
    pending = [(int(-(-int(one.arrival_ms) // step_ms)), one) for one in requests]
    position = 0
    with _watched(engine, record):
        while position < len(pending) or engine.engine.has_unfinished_requests():
            if not engine.engine.has_unfinished_requests():
                record.clock = max(record.clock, pending[position][0])
            while position < len(pending) and pending[position][0] <= record.clock:
                _add(engine, str(position), pending[position][1], record)
                position += 1
            _note_outputs(record, engine.engine.step())
            record.clock += 1
    return record


def _add(engine: InProcessEngine, name: str, request: Request, record: Record) -> None:
    from vllm import SamplingParams

    from kvbench_vllm.stated_outputs import OUTPUT_IDS

    vocabulary = engine.engine.vllm_config.model_config.get_vocab_size()
    tokens = prompt_token_ids(request, name, vocabulary)
    record.prompt_tokens[name] = len(tokens)
    sampling = SamplingParams(
        max_tokens=request.output_tokens,
        ignore_eos=True,
        detokenize=False,
        temperature=0.0,
        extra_args={OUTPUT_IDS: output_token_ids(request, name, vocabulary)},
    )
    prompt: dict[str, Any] = {"prompt_token_ids": tokens}
    if salt := cache_salt(request):
        prompt["cache_salt"] = salt
    engine.engine.add_request(name, prompt, sampling)


def _note_outputs(record: Record, outputs: Sequence[Any]) -> None:
    for output in outputs:
        if output.num_cached_tokens is not None:
            record.cached_tokens.setdefault(output.request_id, output.num_cached_tokens)
        record.output_tokens[output.request_id] = len(output.outputs[0].token_ids)


def _cached_free_blocks(pool: Any) -> int | None:
    if pool.num_gpu_blocks > _COUNT_CACHED_UP_TO_BLOCKS:
        return None
    cached = [block for block in pool.blocks if not block.ref_cnt and block.block_hash is not None]
    return len(cached)


@contextmanager
def _watched(engine: InProcessEngine, record: Record) -> Iterator[None]:
    """Listen in on schedule, evictions and preemptions without changing what happens."""
    pool, scheduler = engine.block_pool, engine.scheduler
    schedule = scheduler.schedule
    evict, preempt = pool._maybe_evict_cached_block, scheduler._preempt_request

    def scheduling(*args: Any, **kwargs: Any) -> Any:
        waiting = len(scheduler.waiting)
        decided = schedule(*args, **kwargs)
        record.steps.append(
            Step(
                number=record.clock,
                used_blocks=pool.num_gpu_blocks - 1 - pool.get_num_free_blocks(),
                cached_blocks=_cached_free_blocks(pool),
                running=len(scheduler.running),
                waiting=waiting,
            )
        )
        return decided

    def evicting(block: Any) -> Any:
        evicted = evict(block)
        record.evicted_blocks += bool(evicted)
        return evicted

    def preempting(*args: Any, **kwargs: Any) -> Any:
        record.preemptions += 1
        return preempt(*args, **kwargs)

    pool._maybe_evict_cached_block = evicting
    scheduler.schedule, scheduler._preempt_request = scheduling, preempting
    try:
        yield
    finally:
        del pool._maybe_evict_cached_block, scheduler._preempt_request, scheduler.schedule


def _observations(record: Record, engine: InProcessEngine, step_ms: float) -> Iterator[Observation]:
    totals = {**_memory_figures(record, engine), **_scheduler_figures(record)}
    for name, value in totals.items():
        yield Observation(metric=name, value=value, evidence=Evidence.ENGINE)
    for name, prompt_tokens in record.prompt_tokens.items():
        tokens = prompt_tokens + record.output_tokens[name]
        yield Observation(metric="request_tokens", value=tokens, evidence=Evidence.ENGINE)
    yield from _series(record.steps, step_ms)


def _memory_figures(record: Record, engine: InProcessEngine) -> dict[str, float]:
    used = [step.used_blocks for step in record.steps if step.used_blocks]
    peak, per_block = max(used, default=0), block_bytes(engine)
    return {
        "pool_blocks": engine.block_pool.num_gpu_blocks,
        "block_bytes": per_block,
        "block_size_tokens": engine.cache_config.block_size,
        "peak_used_blocks": peak,
        "mean_used_blocks": sum(used) / max(1, len(used)),
        "peak_used_bytes": peak * per_block,
        "peak_usage_ratio": peak / (engine.block_pool.num_gpu_blocks - 1),
        "evicted_blocks": record.evicted_blocks,
    }


def _scheduler_figures(record: Record) -> dict[str, float]:
    hits, queries = sum(record.cached_tokens.values()), sum(record.prompt_tokens.values())
    return {
        "peak_running_requests": max((step.running for step in record.steps), default=0),
        "peak_waiting_requests": max((step.waiting for step in record.steps), default=0),
        "hit_tokens": hits,
        "query_tokens": queries,
        "prefix_hit_ratio": hits / max(1, queries),
        "preemptions_count": record.preemptions,
        "steps_count": len(record.steps),
        "requests_count": len(record.prompt_tokens),
    }


def _series(steps: Sequence[Step], step_ms: float) -> Iterator[Observation]:
    for step in steps:
        values = {
            "used_blocks": step.used_blocks,
            "cached_blocks": step.cached_blocks,
            "running_requests": step.running,
            "waiting_requests": step.waiting,
        }
        for name, value in values.items():
            if value is not None:
                yield Observation(
                    metric=name,
                    value=value,
                    evidence=Evidence.ENGINE,
                    t_offset_s=step.number * step_ms / 1000,
                )


def _prepare(
    cell: Cell, engine: InProcessEngine, requests: Sequence[Request], step_ms: float
) -> tuple[str, str]:
    """Bring the prefix cache into the state the cell asks for; say why when that failed."""
    if cell.cache is Cache.WARM:
        return "", ""
    emptied = bool(engine.llm.reset_prefix_cache())
    if not emptied or _cached_free_blocks(engine.block_pool):
        return "cache_not_cold", "the prefix cache could not be emptied before the run"
    if cell.cache is Cache.PRIMED:
        drive(engine, requests, step_ms)
        if not _cached_free_blocks(engine.block_pool):
            return "cache_not_primed", "the priming run left no reusable block in the cache"
    return "", ""


def _check_lengths(requests: Sequence[Request], engine: InProcessEngine) -> None:
    longest = engine.engine.vllm_config.model_config.max_model_len
    for index, request in enumerate(requests):
        if request.prompt_tokens + request.output_tokens > longest:
            raise CellFailed(
                "context_exceeds_model",
                f"request {index} needs {request.prompt_tokens + request.output_tokens} tokens, "
                f"the engine takes {longest}: raise max_model_len or limit the workload",
            )
