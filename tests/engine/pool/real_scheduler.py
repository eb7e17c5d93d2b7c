"""vLLM's own scheduler and cache manager, driven without a model, device or worker."""

from __future__ import annotations

import functools
import json
import math
import os
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")

import numpy as np
import torch
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    VllmConfig,
)
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
    SlidingWindowSpec,
)
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request as EngineRequest
from vllm.v1.request import RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from kvbench.workload.request import MultimodalItem, Request
from kvbench_pool.digest import scheduled_part
from kvbench_pool.vllm_policy.config import CacheGroup, GroupKind, PoolConfig

_MAX_LEN = 1 << 18
_MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 32000,
    "max_position_embeddings": _MAX_LEN,
    "torch_dtype": "bfloat16",
}


@functools.cache
def _engine_config() -> VllmConfig:
    """Build the engine's configuration once; every case sets its own few fields."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(_MODEL))
        model = ModelConfig(
            model=folder,
            tokenizer=folder,
            skip_tokenizer_init=True,
            dtype="bfloat16",
            max_model_len=_MAX_LEN,
        )
        scheduler = SchedulerConfig(
            max_num_seqs=4,
            max_num_batched_tokens=64,
            max_model_len=_MAX_LEN,
            is_encoder_decoder=False,
            enable_chunked_prefill=True,
        )
        return VllmConfig(
            model_config=model,
            scheduler_config=scheduler,
            cache_config=CacheConfig(block_size=16, enable_prefix_caching=True),
            parallel_config=ParallelConfig(),
            device_config=DeviceConfig("cpu"),
        )


def _spec(group: CacheGroup, config: PoolConfig) -> Any:
    block_size = group.block_size or config.block_size
    sizes: dict[str, Any] = {"block_size": block_size, "num_kv_heads": 1, "head_size": 1}
    if group.kind is GroupKind.SLIDING:
        return SlidingWindowSpec(sliding_window=group.window_tokens, dtype=torch.float32, **sizes)
    if group.kind is GroupKind.CHUNKED:
        return ChunkedLocalAttentionSpec(
            attention_chunk_size=group.window_tokens, dtype=torch.float32, **sizes
        )
    if group.kind is GroupKind.STATE and config.enable_prefix_caching:
        return MambaSpec(
            block_size=block_size,
            shapes=((1,),),
            dtypes=(torch.float32,),
            mamba_cache_mode="align",
            num_prefill_checkpoint_blocks=int(group.exports_states),
            prefill_checkpoint_alignment=1 if group.exports_states else None,
        )
    if group.kind is GroupKind.STATE:
        # One page for any length: what the engine does without prefix caching.
        return MambaSpec(block_size=_MAX_LEN, shapes=((1,),), dtypes=(torch.float32,))
    return FullAttentionSpec(dtype=torch.float32, **sizes)


def make_scheduler(config: PoolConfig) -> Scheduler:
    """Return the engine's scheduler over a pool of exactly ``config.num_blocks`` blocks."""
    engine = _engine_config()
    engine.scheduler_config.max_num_seqs = config.max_num_seqs
    engine.scheduler_config.max_num_batched_tokens = config.max_num_batched_tokens
    engine.scheduler_config.enable_chunked_prefill = True
    engine.scheduler_config.watermark = config.watermark
    engine.scheduler_config.scheduler_reserve_full_isl = config.reserve_full_prompt
    engine.cache_config.block_size = config.block_size
    engine.cache_config.enable_prefix_caching = config.enable_prefix_caching
    engine.cache_config.num_gpu_blocks = config.num_blocks
    engine.cache_config.mamba_cache_mode = "align" if config.keeps_states else "none"
    register_all_kvcache_specs(engine)
    groups = [
        KVCacheGroupSpec([f"layer{place}"], _spec(group, config))
        for place, group in enumerate(config.groups)
    ]
    is_fixed = config.has_state and not config.keeps_states
    kind = AsyncScheduler if config.async_scheduling else Scheduler
    scheduler = kind(
        vllm_config=engine,
        kv_cache_config=KVCacheConfig(
            num_blocks=config.num_blocks,
            kv_cache_tensors=[],
            kv_cache_groups=groups,
            prefix_cache_retention_interval=config.prefix_cache_retention_interval,
        ),
        structured_output_manager=StructuredOutputManager(engine),
        block_size=math.lcm(config.scheduler_block_size, _MAX_LEN if is_fixed else 1),
        hash_block_size=config.hash_block_size,
        log_stats=False,
    )
    scheduler.num_lookahead_tokens = config.lookahead_tokens
    init_none_hash(sha256)
    return scheduler


def output_token(request: Request, index: int, place: int) -> int:
    """Return the ``place``-th sampled token; tokens that nobody states are nobody else's."""
    if request.output_ids is not None:
        return request.output_ids[place]
    return (1 << 30) + (index << 14) + place


def prompt_tokens(request: Request, index: int) -> list[int]:
    """Return a prompt's tokens; a request that states none shares them with nobody."""
    if request.prompt_ids is not None:
        return list(request.prompt_ids)
    if request.hash_ids:
        chunk = np.arange(request.hash_tokens)
        spelt = np.array(request.hash_ids)[:, None] * request.hash_tokens + chunk
        tokens: list[int] = spelt.ravel()[: request.prompt_tokens].tolist()
        return tokens
    return [(1 << 40) + (index << 20) + place for place in range(request.prompt_tokens)]


class _EncodedRequest(EngineRequest):
    """A request whose items are encoded already: the encoder's own budget is not simulated."""

    has_encoder_inputs = False


def _feature(item: MultimodalItem) -> MultiModalFeatureSpec:
    return MultiModalFeatureSpec(
        data=None,
        modality="image",
        identifier=item.identifier,
        mm_position=PlaceholderRange(offset=item.offset_tokens, length=item.tokens),
    )


class RealRun:
    """Drives the engine's scheduler over a workload on a clock of steps.

    Args:
        config: Pool and scheduler.
        requests: The workload, in order of arrival.
        most_steps: Steps within which the engine must come to an end.

    Attributes:
        scheduler: The engine's scheduler.
        lines: One record per step, as ``kvbench_pool.digest`` defines it.
        aborted: Requests that the engine would have tried for ever.
    """

    def __init__(
        self, config: PoolConfig, requests: Sequence[Request], *, most_steps: int = 20_000
    ) -> None:
        self._config = config
        self._requests = requests
        self._most_steps = most_steps
        self.scheduler = make_scheduler(config)
        self._managers = self.scheduler.kv_cache_manager.coordinator.single_type_managers
        self._pool = self.scheduler.kv_cache_manager.block_pool
        self._hasher = get_request_block_hasher(config.hash_block_size, sha256)
        self._flying: deque[tuple[Any, list[list[int]]]] = deque()
        self._reported: dict[str, list[int]] = {}
        self._preempted: list[int] = []
        self._reached: dict[int, int] = {}
        self._tried_alone: dict[int, list[int]] = {}
        self.aborted: list[int] = []
        self._watch_preemption()
        self.lines: list[str] = []
        self._step = 0

    def _watch_preemption(self) -> None:
        original = self.scheduler._preempt_request

        def preempt(request: Any, *args: Any, **kwargs: Any) -> Any:
            self._preempted.append(int(request.request_id))
            self._reached[int(request.request_id)] = request.num_computed_tokens
            self._reported.pop(request.request_id, None)
            return original(request, *args, **kwargs)

        self.scheduler._preempt_request = preempt  # type: ignore[method-assign]

    def run(self, *, hopeless: bool = False) -> None:
        """Run all requests to their ends; ``hopeless`` ones too, which the simulator leaves out."""
        coming = deque(
            (self._config.arrival_step(request.arrival_ms), index)
            for index, request in enumerate(self._requests)
            if hopeless or self._config.fits(request.prompt_tokens, request.output_tokens)
        )
        scheduler = self.scheduler
        while coming or scheduler.requests or self._flying:
            if not scheduler.requests and not self._flying:
                self._step = max(self._step, coming[0][0])
            while coming and coming[0][0] <= self._step:
                scheduler.add_request(self.engine_request(coming.popleft()[1]))
            if self._flying and not scheduler.requests:
                self._settle()
                continue
            self._one_step()
            self._step += 1
            assert len(self.lines) < self._most_steps, "the engine makes no progress"

    def engine_request(self, index: int) -> EngineRequest:
        """Return the engine's own request for one of the workload, its blocks hashed."""
        request = self._requests[index]
        lora = None
        if request.lora:
            lora = LoRARequest(request.lora, 1 + len(request.lora), f"/{request.lora}")
        return _EncodedRequest(
            request_id=str(index),
            prompt_token_ids=prompt_tokens(request, index),
            sampling_params=SamplingParams(
                ignore_eos=True, max_tokens=request.output_tokens, temperature=0.0
            ),
            pooling_params=None,
            arrival_time=float(index),
            cache_salt=request.salt or None,
            lora_request=lora,
            mm_features=[_feature(item) for item in request.multimodal],
            block_hasher=self._hasher,
        )

    def _one_step(self) -> None:
        output = self.scheduler.schedule()
        free = self._pool.get_num_free_blocks()
        parts = ";".join(self._parts(output))
        if not self.scheduler.running:
            self._abort_if_stuck()
        self._flying.append((output, list(self._sampled(output))))
        preempted, self._preempted[:] = list(self._preempted), []
        ended: list[int] = []
        if len(self._flying) > (1 if self._config.async_scheduling else 0):
            ended = self._settle()
        self.lines.append(
            f"{self._step}|{free}|{parts}"
            f"|P:{','.join(map(str, preempted))}|F:{','.join(map(str, ended))}"
        )

    def _abort_if_stuck(self) -> None:
        """Abort what the engine would try for ever, as a client does that gives up.

        That is a request that is not admitted to an empty pool, or that fails alone three times
        without coming further.
        """
        if self._preempted:
            name = self._preempted[-1]
            if self._may_come_further(name):
                return
        else:
            in_flight = any(output.num_scheduled_tokens for output, _ in self._flying)
            if in_flight or not self.scheduler.waiting:
                return
            name = int(self.scheduler.waiting.peek_request().request_id)
        self.aborted.append(name)
        self.scheduler.finish_requests(str(name), RequestStatus.FINISHED_ABORTED)

    def _may_come_further(self, name: int) -> bool:
        tried = self._tried_alone.setdefault(name, [])
        if tried and self._reached[name] > max(tried):
            tried.clear()
        tried.append(self._reached[name])
        return len(tried) < 3

    def _parts(self, output: Any) -> Iterator[str]:
        cached = output.scheduled_cached_reqs
        computed = {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs}
        computed |= dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        for name, tokens in output.num_scheduled_tokens.items():
            reported = self._reported.get(name, [0] * len(self._managers))
            tables = [
                [block.block_id for block in manager.req_to_blocks[name]]
                for manager in self._managers
            ]
            new = [table[known:] for table, known in zip(tables, reported, strict=True)]
            self._reported[name] = [len(table) for table in tables]
            yield scheduled_part(int(name), tokens, computed[name], new)

    def _sampled(self, output: Any) -> Iterator[list[int]]:
        for name in output.num_scheduled_tokens:
            request = self.scheduler.requests[name]
            place = request.num_output_tokens
            if self._config.async_scheduling:
                emits = not request.is_prefill_chunk
                place += request.num_output_placeholders - 1
            else:
                emits = request.num_computed_tokens >= request.num_tokens
            index = int(name)
            yield [output_token(self._requests[index], index, place)] if emits else []

    def _settle(self) -> list[int]:
        output, sampled = self._flying.popleft()
        names = list(output.num_scheduled_tokens)
        before = {name for name in names if name in self.scheduler.requests}
        self.scheduler.update_from_output(
            output,
            ModelRunnerOutput(
                req_ids=names,
                req_id_to_index={name: place for place, name in enumerate(names)},
                sampled_token_ids=sampled,
                logprobs=None,
                prompt_logprobs_dict={},
                pooler_output=[],
            ),
        )
        ended = [name for name in names if name in before and name not in self.scheduler.requests]
        for name in ended:
            self._reported.pop(name, None)
        return [int(name) for name in ended]

    def free_queue(self) -> list[int]:
        """Return the free blocks in the engine's order."""
        return [block.block_id for block in self._pool.free_block_queue.get_all_free_blocks()]
