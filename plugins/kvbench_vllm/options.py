"""What a suite may set for vLLM: the engine's own names, plus kvbench's where they are shared."""

from __future__ import annotations

from kvbench.engine import Option, Scope, Stage

_ENGINE = Scope.ENGINE

OPTIONS: tuple[Option, ...] = (
    Option(
        name="model",
        type="model",
        help="Model; a config.json without weights beside it runs with random weights.",
        required=True,
        scope=_ENGINE,
    ),
    Option(
        name="checkpoint",
        type="str",
        help="Folder or hub id of the weights, when not the model's own folder.",
        scope=_ENGINE,
    ),
    Option(
        name="revision",
        type="str",
        help="Revision of a hub checkpoint.",
        scope=_ENGINE,
    ),
    Option(
        name="load_format",
        type="str",
        help="auto reads weights, dummy makes random ones (default: auto where there are any).",
        choices=("auto", "dummy"),
        scope=_ENGINE,
    ),
    Option(
        name="dtype",
        type="str",
        help="Element type of weights and activations.",
        default="auto",
        scope=_ENGINE,
    ),
    Option(
        name="kv_dtype",
        type="str",
        help="Element type of the cache.",
        default="auto",
        scope=_ENGINE,
    ),
    Option(
        name="block_size",
        type="int",
        help="Tokens per block; the CPU engine takes multiples of 32.",
        minimum=1,
        scope=_ENGINE,
    ),
    Option(
        name="budget_bytes",
        type="int",
        help="Bytes for the cache (kv_cache_memory_bytes); without it vLLM profiles the device.",
        minimum=1,
        scope=_ENGINE,
    ),
    Option(
        name="gpu_memory_utilization",
        type="float",
        help="Share of the device vLLM may use when budget_bytes is not given.",
        minimum=0.0,
        scope=_ENGINE,
    ),
    Option(
        name="max_model_len",
        type="int",
        help="Longest request, in tokens.",
        minimum=1,
        scope=_ENGINE,
    ),
    Option(
        name="max_num_seqs",
        type="int",
        help="Most requests in one step.",
        minimum=1,
        scope=_ENGINE,
    ),
    Option(
        name="max_num_batched_tokens",
        type="int",
        help="Token budget of one step.",
        minimum=1,
        scope=_ENGINE,
    ),
    Option(
        name="enable_prefix_caching",
        type="bool",
        help="Keep full blocks of finished requests for reuse.",
        default=True,
        scope=_ENGINE,
    ),
    Option(
        name="enforce_eager",
        type="bool",
        help="No CUDA graphs, no compilation.",
        default=True,
        scope=_ENGINE,
    ),
    Option(
        name="tp",
        type="int",
        help="Tensor-parallel ranks.",
        default=1,
        minimum=1,
        scope=_ENGINE,
    ),
    Option(
        name="workload",
        type="workload",
        help="Requests to run.",
        stages=(Stage.ALLOCATE,),
    ),
    Option(
        name="step_ms",
        type="float",
        help="Milliseconds of the workload's clock that one engine step stands for.",
        default=50.0,
        minimum=0.001,
        stages=(Stage.ALLOCATE,),
    ),
    Option(
        name="limit",
        type="int",
        help="Requests of the workload to run, from its start.",
        minimum=1,
        stages=(Stage.ALLOCATE,),
    ),
    Option(
        name="context_tokens",
        type="int",
        help="Length at which concurrency is stated beside the engine's own maximum.",
        minimum=1,
        stages=(Stage.SIZE,),
    ),
)
