"""A live vLLM in the worker process itself, where its block pool can be watched step by step."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvbench.engine import EngineConfig, Scalar
from kvbench.errors import CellFailed
from kvbench.model.spec import ModelSpec
from kvbench_vllm.failures import translated
from kvbench_vllm.memory import process_bytes

#: kvbench's names of cache element types -> vLLM's.
KV_DTYPES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "int8": "int8_per_token_head",
    "int4": "int4_per_token_head",
}
#: Options that go to vLLM under the same name.
_SAME_NAME = (
    "revision",
    "block_size",
    "gpu_memory_utilization",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "enable_prefix_caching",
    "prefix_cache_retention_interval",
    "async_scheduling",
    "enforce_eager",
)
_ENVIRONMENT = {
    # The scheduler and the pool are only reachable when the engine core lives in this process.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessEngine:
    """A running vLLM.

    Attributes:
        llm: The ``vllm.LLM``.
        model: Spec of the model it runs.
        settings: Engine options of the suite.
        startup_s: Wall seconds from the call to a usable engine, imports excluded.
        process_before_bytes: Resident bytes of this process just before the start.
    """

    llm: Any
    model: ModelSpec | None
    settings: Mapping[str, Scalar]
    startup_s: float
    process_before_bytes: int

    @property
    def engine(self) -> Any:
        """The ``LLMEngine``: ``add_request``, ``step``."""
        return self.llm.llm_engine

    @property
    def core(self) -> Any:
        """The ``EngineCore`` inside this process."""
        return self.engine.engine_core.engine_core

    @property
    def scheduler(self) -> Any:
        """The scheduler: ``running``, ``waiting``, ``requests``."""
        return self.core.scheduler

    @property
    def block_pool(self) -> Any:
        """The block pool: free count, blocks with reference counts and hashes."""
        return self.scheduler.kv_cache_manager.block_pool

    @property
    def cache(self) -> Any:
        """The resolved ``KVCacheConfig``: blocks, groups, tensors."""
        return self.scheduler.kv_cache_manager.kv_cache_config

    @property
    def cache_config(self) -> Any:
        """The resolved ``CacheConfig``: what vLLM itself logs and exports."""
        return self.engine.vllm_config.cache_config


@contextmanager
def open_engine(config: EngineConfig) -> Iterator[InProcessEngine]:
    """Start vLLM with the suite's engine options and stop it afterwards.

    Raises:
        EngineUnavailable: vLLM cannot be imported or started on this machine.
        CellFailed: vLLM refuses these options; ``reason`` is the stable code.
    """
    os.environ.update(_ENVIRONMENT)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with translated(config):
        from vllm import LLM

        from kvbench_vllm.stated_outputs import StatedOutputs

        before, start = process_bytes(), time.perf_counter()
        llm = LLM(**engine_arguments(config), logits_processors=[StatedOutputs])
        startup_s = time.perf_counter() - start
    try:
        yield InProcessEngine(
            llm=llm,
            model=config.model,
            settings=config.settings,
            startup_s=startup_s,
            process_before_bytes=before,
        )
    finally:
        _stop(llm)


def engine_arguments(config: EngineConfig) -> dict[str, Any]:
    """Translate the suite's options into arguments of ``vllm.LLM``."""
    settings = config.settings
    arguments: dict[str, Any] = {
        name: settings[name] for name in _SAME_NAME if settings.get(name) is not None
    }
    checkpoint = _checkpoint(config)
    arguments |= {
        "model": checkpoint,
        "load_format": settings.get("load_format") or _load_format(checkpoint),
        "skip_tokenizer_init": True,
        "dtype": KV_DTYPES.get(str(settings["dtype"]), settings["dtype"]),
        "kv_cache_dtype": KV_DTYPES.get(str(settings["kv_dtype"]), settings["kv_dtype"]),
        "tensor_parallel_size": settings["tp"],
        "disable_log_stats": False,
        "seed": 0,
    }
    if settings.get("budget_bytes") is not None:
        arguments["kv_cache_memory_bytes"] = settings["budget_bytes"]
    if settings.get("context_tokens") is not None:
        arguments.setdefault("max_model_len", settings["context_tokens"])
    return arguments


def _checkpoint(config: EngineConfig) -> str:
    stated = str(config.settings.get("checkpoint") or "")
    if stated.startswith(("/", "./", "../")) and not Path(stated).is_dir():
        # vLLM would take it for a malformed hub id, or try to reach the hub.
        raise CellFailed("checkpoint_missing", f"engine {config.engine!r}: no folder {stated}")
    if stated:
        return stated
    source = Path(config.model.source) if config.model else Path()
    return str(source.parent if source.suffix == ".json" else source)


def _load_format(checkpoint: str) -> str:
    folder = Path(checkpoint)
    has_weights = not folder.is_dir() or any(folder.glob("*.safetensors"))
    return "auto" if has_weights else "dummy"


def _stop(llm: Any) -> None:
    from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

    llm.llm_engine.engine_core.shutdown()
    cleanup_dist_env_and_memory()
    gc.collect()
