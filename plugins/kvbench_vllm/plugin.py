"""Hooks of the vLLM plugin. Nothing here imports vLLM, torch or an HTTP client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from kvbench import hookimpl
from kvbench.engine import (
    Cell,
    CellOutput,
    Direction,
    EngineConfig,
    EngineInfo,
    Evidence,
    Metric,
    Observer,
    ReportSection,
    Stage,
)
from kvbench.metrics import shared
from kvbench_vllm.installed import installed, probe, require
from kvbench_vllm.options import OPTIONS

if TYPE_CHECKING:
    from kvbench.explain.finding import Explanation
    from kvbench.layout import Layout
    from kvbench.model.spec import ModelSpec
    from kvbench.results import Results

_ENGINE = Evidence.ENGINE
_ENGINE_EXACT = (
    "block_size_tokens",
    "block_bytes",
    "pool_blocks",
    "pool_bytes",
    "capacity_tokens",
    "max_concurrency_requests",
    "weight_bytes",
    "used_blocks",
    "cached_blocks",
    "running_requests",
    "waiting_requests",
    "peak_used_blocks",
    "mean_used_blocks",
    "peak_used_bytes",
    "peak_usage_ratio",
    "peak_running_requests",
    "peak_waiting_requests",
    "hit_tokens",
    "query_tokens",
    "prefix_hit_ratio",
    "evicted_blocks",
    "preemptions_count",
    "steps_count",
    "requests_count",
)

_LOWER, _HIGHER, _NONE = Direction.LOWER, Direction.HIGHER, Direction.NONE
#: The engine's own metrics: name, unit, direction, meaning.
_OWN = (
    ("startup_s", "s", _LOWER, "Seconds the engine took to start, imports excluded."),
    ("profiled_activation_bytes", "bytes", _LOWER, "Peak activation memory the engine profiled."),
    ("profiled_graph_bytes", "bytes", _LOWER, "The engine's estimate of its CUDA graphs."),
    ("profiled_cache_bytes", "bytes", _HIGHER, "Bytes profiling left for the cache."),
    ("ttft_s", "s", _LOWER, "Seconds from sending a request to its first token."),
    ("latency_s", "s", _LOWER, "Seconds from sending a request to its last token."),
    ("inter_token_s", "s", _LOWER, "Mean seconds between a request's consecutive tokens."),
    ("output_tokens_per_s", "tokens_per_s", _HIGHER, "Output tokens of all requests a second."),
    ("request_tokens", "tokens", _NONE, "Prompt and output tokens of one request, as counted."),
    ("client_cpu_s", "s", _LOWER, "CPU seconds the client spent on one request."),
    ("prompt_tokens", "tokens", _NONE, "Prompt tokens the server processed."),
    ("generation_tokens", "tokens", _NONE, "Tokens the server generated."),
)


@hookimpl
def kvbench_engine() -> EngineInfo:
    """Say what is installed; the probe names the remedy when nothing usable is."""
    found = installed()
    return EngineInfo(
        name="vllm",
        version=found.version,
        distribution=found.distribution,
        summary="vLLM itself: the pool it makes, how it fills, how it serves.",
        evidence=frozenset({Evidence.ANALYTIC, Evidence.ENGINE, Evidence.DEVICE}),
        stages=frozenset(Stage),
        options=OPTIONS,
        probe=probe,
        exclusive=True,
    )


@hookimpl
def kvbench_metrics() -> Sequence[Metric]:
    """Register the engine's own accounting and what its process holds."""
    return (
        *(shared(name, _ENGINE, exact=True) for name in _ENGINE_EXACT),
        *(
            Metric(name=name, unit=unit, direction=direction, evidence=_ENGINE, meaning=meaning)
            for name, unit, direction, meaning in _OWN
        ),
        shared("usage_ratio", _ENGINE),
        Metric(
            name="predicted_peak_blocks",
            unit="blocks",
            direction=_NONE,
            evidence=Evidence.ANALYTIC,
            meaning="Blocks the requests need at full length if all of them run at once.",
            exact=True,
        ),
        shared("process_used_bytes", Evidence.DEVICE),
        shared("device_used_bytes", Evidence.DEVICE),
    )


@hookimpl
def kvbench_layouts() -> Sequence[Layout]:
    """Offer the ``vllm`` layout, which needs no vLLM."""
    from kvbench_vllm.layout import VllmLayout

    return (VllmLayout(),)


@hookimpl
def kvbench_explain(text: str, model: ModelSpec | None) -> Explanation | None:
    """Derive or contradict the figures of a start-up log."""
    from kvbench_vllm.start_log_explain import explain_start_log

    return explain_start_log(text, model)


@hookimpl
def kvbench_environment() -> Mapping[str, str]:
    """Record which distribution owns the module ``vllm``, and the torch beside it."""
    return installed().provenance()


@hookimpl
def kvbench_open(config: EngineConfig) -> AbstractContextManager[Any]:
    """Keep one engine per configuration: started by the first cell, shared by the others."""
    from kvbench_vllm.session import open_session

    return open_session(config)


@hookimpl
def kvbench_size(cell: Cell, session: Any) -> CellOutput:
    """Report the pool that vLLM made, in its own figures."""
    from kvbench_vllm.accounting import report_pool

    return report_pool(session)


@hookimpl
def kvbench_allocate(cell: Cell, session: Any) -> CellOutput:
    """Run the cell's workload step by step and report the state of vLLM's block pool."""
    from kvbench_vllm.stepping import run_workload

    return run_workload(cell, session)


@hookimpl
def kvbench_measure(cell: Cell, session: Any) -> CellOutput:
    """Send the cell's requests to a server and watch its metrics meanwhile."""
    require("httptools", "prometheus_client")
    from kvbench_vllm.measure import measure_cell

    return measure_cell(cell, session)


@hookimpl
def kvbench_observe(url: str) -> Observer | None:
    """Recognise a vLLM server by the names of its metrics."""
    require("prometheus_client")
    from kvbench_vllm.observer import observe

    return observe(url)


@hookimpl
def kvbench_report_sections(results: Results) -> Sequence[ReportSection]:
    """Reconcile vLLM's figures with the others, and explain what served ones mean."""
    from kvbench_vllm import chosen_settings, reconcile, report

    return (
        *reconcile.sections(results),
        *report.sections(results),
        *chosen_settings.sections(results),
    )
