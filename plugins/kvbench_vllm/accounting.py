"""The pool that vLLM made, in the engine's own figures, checked against what was asked."""

from __future__ import annotations

from typing import Any

from kvbench.engine import CellOutput, Evidence, Observation, Scalar
from kvbench.errors import KvbenchError
from kvbench.layout import Arrangement, LayoutOptions
from kvbench_vllm.in_process import InProcessEngine
from kvbench_vllm.memory import device_bytes, process_bytes
from kvbench_vllm.session import VllmSession


def report_pool(session: VllmSession) -> CellOutput:
    """Return block size, blocks, bytes, tokens and concurrency as vLLM reports them.

    The output is invalid when one block costs other bytes than the ``vllm`` layout predicts
    for the asked element type: vLLM then stores something else than was asked.
    """
    engine = session.in_process()
    effective = effective_settings(engine)
    problem = _bytes_problem(engine, effective)
    return CellOutput(
        observations=(*_engine_figures(engine), *_memory_figures(engine)),
        effective=effective,
        invalid="kv_bytes_differ" if problem else "",
        invalid_message=problem,
        assumptions=(
            f"vLLM started in {engine.startup_s:.1f} s; "
            f"weights: {'random' if _is_random(engine) else 'from the checkpoint'}.",
        ),
    )


def _engine_figures(engine: InProcessEngine) -> list[Observation]:
    config, cache = engine.cache_config, engine.cache
    values: dict[str, Any] = {
        "block_size_tokens": config.block_size,
        "block_bytes": block_bytes(engine),
        "pool_blocks": cache.num_blocks,
        "pool_bytes": cache.num_blocks * block_bytes(engine),
        "capacity_tokens": config.kv_cache_size_tokens,
        "max_concurrency_requests": config.kv_cache_max_concurrency,
        "startup_s": engine.startup_s,
        **_profile(engine),
    }
    return [
        Observation(metric=name, value=value, evidence=Evidence.ENGINE)
        for name, value in values.items()
        if value is not None
    ]


def _profile(engine: InProcessEngine) -> dict[str, int]:
    """What vLLM measured while it profiled a GPU; its CPU worker measures nothing."""
    worker = engine.core.model_executor.driver_worker.worker
    found = {
        "weight_bytes": getattr(_runner(engine), "model_memory_usage", None),
        "profiled_activation_bytes": getattr(worker, "peak_activation_memory", None),
        "profiled_graph_bytes": getattr(worker, "cudagraph_memory_estimate", None),
        "profiled_cache_bytes": getattr(worker, "available_kv_cache_memory_bytes", None),
    }
    return {metric: int(value) for metric, value in found.items() if value is not None}


def _memory_figures(engine: InProcessEngine) -> list[Observation]:
    values = {
        "process_used_bytes": process_bytes() - engine.process_before_bytes,
        "device_used_bytes": device_bytes(),
    }
    return [
        Observation(metric=name, value=value, evidence=Evidence.DEVICE)
        for name, value in values.items()
        if value
    ]


def block_bytes(engine: InProcessEngine) -> int:
    """Bytes one block id costs: the backing allocation over the blocks, aliases counted once.

    The tensors of hybrid groups alias the same bytes, so their sizes must not be summed;
    distinct storages are told apart by address.
    """
    storages: dict[int, int] = {}
    for tensor in _tensors(engine):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values()) // int(engine.cache.num_blocks)


def _tensors(engine: InProcessEngine) -> list[Any]:
    found: list[Any] = []
    for cache in _runner(engine).kv_caches:
        found.extend(cache if isinstance(cache, list | tuple) else [cache])
    return found


def _runner(engine: InProcessEngine) -> Any:
    return engine.core.model_executor.driver_worker.worker.model_runner


def effective_settings(engine: InProcessEngine) -> dict[str, Scalar]:
    """Settings after vLLM resolved its own defaults."""
    config, model = engine.cache_config, engine.engine.vllm_config.model_config
    scheduler = engine.engine.vllm_config.scheduler_config
    groups = [
        f"{type(group.kv_cache_spec).__name__} x{len(group.layer_names)} "
        f"block {group.kv_cache_spec.block_size} page {group.kv_cache_spec.page_size_bytes}"
        for group in engine.cache.kv_cache_groups
    ]
    effective: dict[str, Scalar] = {
        "block_size": config.block_size,
        "kv_dtype": str(config.cache_dtype),
        "dtype": str(model.dtype).removeprefix("torch."),
        "max_model_len": model.max_model_len,
        "max_num_seqs": scheduler.max_num_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "enable_prefix_caching": bool(config.enable_prefix_caching),
        "async_scheduling": bool(scheduler.async_scheduling),
        "scheduler": type(engine.scheduler).__name__,
        "groups": "; ".join(groups),
    }
    interval = getattr(config, "prefix_cache_retention_interval", None)
    if interval is not None:
        effective["prefix_cache_retention_interval"] = interval
    return effective


def predicted(engine: InProcessEngine) -> Arrangement | None:
    """The ``vllm`` layout of the model at the engine's effective block size."""
    from kvbench_vllm.layout import VllmLayout

    if engine.model is None:
        return None
    options = LayoutOptions(
        block_size=engine.cache_config.block_size,
        kv_dtype=str(engine.settings["kv_dtype"]),
        tp=int(engine.settings["tp"]),
        engine=_layout_options(engine),
    )
    return VllmLayout().arrange(engine.model, options)


def _layout_options(engine: InProcessEngine) -> dict[str, object]:
    scheduler = engine.engine.vllm_config.scheduler_config
    return {
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "async_scheduling": bool(scheduler.async_scheduling),
        "enable_prefix_caching": bool(engine.cache_config.enable_prefix_caching),
        "max_model_len": engine.engine.vllm_config.model_config.max_model_len,
    }


def _bytes_problem(engine: InProcessEngine, effective: dict[str, Scalar]) -> str:
    try:
        arrangement = predicted(engine)
    except KvbenchError as error:
        return f"no prediction to check the engine's bytes against: {error}"
    found = block_bytes(engine)
    if arrangement is None or arrangement.bytes_per_block == found:
        return ""
    return (
        f"one block of {effective['block_size']} tokens takes {found} bytes, "
        f"{arrangement.bytes_per_block} were predicted for kv_dtype "
        f"{engine.settings['kv_dtype']!r}: the engine stores something else than was asked"
    )


def _is_random(engine: InProcessEngine) -> bool:
    return str(engine.engine.vllm_config.load_config.load_format) == "dummy"
