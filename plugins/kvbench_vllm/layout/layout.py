"""Puts the parts together: model spec and options in, arrangement of the fullest rank out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from kvbench.errors import ModelError
from kvbench.layout import LayoutOptions
from kvbench.model.sizing import pipeline_owners
from kvbench.model.spec import ModelSpec
from kvbench_vllm.layout.arrangement import VERSION, VllmArrangement, public_group
from kvbench_vllm.layout.groups import CacheGroup, make_groups
from kvbench_vllm.layout.options import OPTION_KINDS, engine_options
from kvbench_vllm.layout.refusals import (
    check_cache_dtype,
    check_model,
    check_tensor_parallel,
    uses_transformers_backend,
)
from kvbench_vllm.layout.spec import CacheSpec
from kvbench_vllm.layout.worker import (
    Worker,
    attention_block_size,
    block_rule,
    block_size,
    cache_spec,
    make_worker,
)

#: Families whose attention modules are built before their recurrent ones.
_ATTENTION_FIRST = frozenset({"zamba2", "zamba"})


class VllmLayout:
    """Arranges model specs as vLLM 0.32.0 does on an H100."""

    name = "vllm"
    mirrors = VERSION
    option_kinds = OPTION_KINDS

    def arrange(self, model: ModelSpec, options: LayoutOptions) -> VllmArrangement:
        """Arrange ``model`` on the rank whose blocks are widest.

        Raises:
            ModelError: vLLM would refuse the model, the ranks or the cache type.
        """
        engine = engine_options(options)
        _check_numbers(options)
        check_model(model)
        check_tensor_parallel(model, options.tp)
        worker = make_worker(model, options, engine)
        check_cache_dtype(model, worker.element.name, bits=worker.element.bits)
        size = block_size(worker)
        caches = _caches(worker, size)
        groups = make_groups(caches, block_outermost=model.model_type == "deepseek_v4")
        return _arrangement(worker, options, size, groups, caches)


def _check_numbers(options: LayoutOptions) -> None:
    if options.tp < 1 or options.pp < 1:
        raise ModelError(f"tp and pp are at least 1, got tp={options.tp}, pp={options.pp}")
    size = options.block_size
    if size is not None and (size < 16 or size % 16):
        raise ModelError(f"vLLM's attention kernels need a block size of 16, 32, …, got {size}")


def _caches(worker: Worker, size: int) -> list[tuple[CacheSpec, int]]:
    model = worker.model
    owners = model.decoder_layers or range(len(model.layers))
    made: dict[int, CacheSpec | None] = {}
    found = []
    for layer, owner in zip(model.layers, owners, strict=True):
        if id(layer) not in made:
            made[id(layer)] = cache_spec(worker, layer, size)
        spec = made[id(layer)]
        if spec is not None:
            found.append((spec, owner))
    if worker.options.disable_hybrid_kv_cache_manager:
        found = _promoted(found)
    if model.model_type in _ATTENTION_FIRST:
        found.sort(key=lambda cache: cache[0].kind == "state")
    return found


def _promoted(caches: list[tuple[CacheSpec, int]]) -> list[tuple[CacheSpec, int]]:
    """Windowed caches kept in full, when there are full ones beside them.

    Raises:
        ModelError: Other kinds remain, which vLLM cannot keep in one group.
    """
    kinds = {spec.kind for spec, _ in caches}
    if not kinds & {"full", "mla"} or not kinds & {"sliding", "chunked"}:
        return caches
    if kinds - {"full", "mla", "sliding", "chunked"}:
        raise ModelError("vLLM cannot disable its hybrid cache manager for a model with state")
    promoted = {id(spec): replace(spec, kind="full", window=None) for spec, _ in caches}
    return [
        (spec if spec.kind in ("full", "mla") else promoted[id(spec)], owner)
        for spec, owner in caches
    ]


def _arrangement(
    worker: Worker,
    options: LayoutOptions,
    size: int,
    groups: tuple[CacheGroup, ...],
    caches: list[tuple[CacheSpec, int]],
) -> VllmArrangement:
    stages = pipeline_owners(worker.model, options.pp)
    widths = [_stage_width(groups, stage) for stage in stages]
    widest = widths.index(max(widths))
    stage = stages[widest]
    on_rank = tuple(
        [
            CacheGroup(caches=members, mixed=group.mixed)
            for group in groups
            if (members := _members(group, stage))
        ]
    )
    engine = worker.options
    return VllmArrangement(
        groups=tuple([public_group(group, worker) for group in on_rank]),
        block_size=size,
        bytes_per_block=widths[widest],
        caches=_counted(caches, stage),
        block_rule=block_rule(worker, attention_block_size(worker)),
        tp=options.tp,
        kv_dtype=worker.element.name,
        assumptions=_assumptions(worker, options),
        tokens_in_flight=engine.tokens_in_flight(options.pp),
        encoder_tokens=engine.max_num_batched_tokens,
        max_model_len=worker.max_model_len,
        blocks_override=engine.num_gpu_blocks_override,
    )


def _counted(caches: list[tuple[CacheSpec, int]], stage: range) -> dict[CacheSpec, int]:
    by_identity = Counter([id(spec) for spec, owner in caches if owner in stage])
    objects = {id(spec): spec for spec, _ in caches}
    counts: dict[CacheSpec, int] = {}
    for key, count in by_identity.items():
        counts[objects[key]] = counts.get(objects[key], 0) + count
    return counts


def _members(group: CacheGroup, stage: range) -> tuple[tuple[CacheSpec, int], ...]:
    return tuple([member for member in group.caches if member[1] in stage])


def _stage_width(groups: tuple[CacheGroup, ...], stage: range) -> int:
    return max([sum([s.page_bytes for s, _ in _members(group, stage)]) for group in groups] or [0])


def _assumptions(worker: Worker, options: LayoutOptions) -> tuple[str, ...]:
    engine = worker.options
    notes = [
        *worker.model.assumptions,
        f"{VERSION} as its API server starts it on an H100",
        f"max_num_batched_tokens {engine.max_num_batched_tokens}, "
        f"{engine.tokens_in_flight(options.pp)} tokens in flight",
    ]
    if uses_transformers_backend(worker.model):
        notes.append(f"{worker.model.architecture} runs through vLLM's Transformers backend")
    if worker.dtype != worker.model.dtype:
        notes.append(f"the {worker.model.dtype} model runs in {worker.dtype}")
    if worker.element.scale:
        notes.append(f"cache dtype {worker.element.name}: {worker.element.scale}")
    if worker.model.max_context_tokens is None and engine.max_model_len is None:
        notes.append(f"the model states no longest context: {worker.max_model_len} tokens")
    return tuple(notes)
