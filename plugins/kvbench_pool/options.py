"""What a suite may set for the pool engine."""

from __future__ import annotations

from kvbench.engine import Option

#: What a cell does; each has a module in ``kvbench_pool.studies``.
STUDIES = ("replay", "walkthrough", "fork", "hit_curve", "max_concurrency", "timeline")

#: Memory policies; the classes are in ``kvbench_pool.policies``, except for ``vllm``.
POLICY_NAMES = ("vllm", "radix", "fork", "no_sharing", "contiguous", "buddy", "static")

#: How long a step lasts; the models are in ``kvbench_pool.step_time``.
STEP_TIMES = ("logical", "roofline", "measured")

#: Element types in which a roofline can compute with weights.
COMPUTE_DTYPES = ("bf16", "fp8")

_WHAT: tuple[Option, ...] = (
    Option(
        name="study",
        type="str",
        help="replay a workload, walk through a script of operations, fork a prompt, trace the "
        "curve of hit ratio over memory, search for the highest concurrency, or hold a recorded "
        "run's timeline against its measured cache usage.",
        default="replay",
        choices=STUDIES,
    ),
    Option(
        name="policy",
        type="str",
        help="Who holds which memory, and what is shared.",
        default="vllm",
        choices=POLICY_NAMES,
    ),
    Option(name="model", type="model", help="Model whose cache fills the blocks."),
    Option(name="workload", type="workload", help="Requests to replay."),
    Option(
        name="rate_scale",
        type="float",
        help="How many times as fast as the workload states its requests arrive.",
        default=1.0,
        minimum=0.000001,
    ),
)

_MEMORY: tuple[Option, ...] = (
    Option(name="pool_blocks", type="int", help="Blocks in the pool.", minimum=1),
    Option(
        name="budget_bytes",
        type="int",
        help="Bytes for the pool on one rank, instead of pool_blocks; without either the pool is "
        "what the device leaves for the cache.",
        minimum=0,
    ),
    Option(
        name="utilization",
        type="float",
        help="Share of the device's memory the engine may use, when the pool is what it leaves.",
        default=0.92,
        minimum=0.01,
    ),
    Option(
        name="block_size",
        type="int",
        help="Tokens per block (the page of the radix policy); without it the layout chooses.",
        minimum=1,
    ),
    Option(name="kv_dtype", type="str", help="Element type of the cache.", default="auto"),
    Option(
        name="layout",
        type="str",
        help="How the pool is arranged: paged, or a layout of an engine plugin; without it vllm "
        "for the vllm policy, paged for the others.",
    ),
    Option(name="tp", type="int", help="Tensor-parallel ranks.", default=1, minimum=1),
    Option(name="pp", type="int", help="Pipeline-parallel stages.", default=1, minimum=1),
    Option(
        name="max_model_len",
        type="int",
        help="Longest sequence in tokens that a preallocating policy provides for; without it "
        "the model's longest context.",
        minimum=1,
    ),
    Option(
        name="reserve",
        type="str",
        help="What contiguous and buddy reserve for a request: max_model_len, or its own final "
        "length as if it were known.",
        default="max",
        choices=("max", "final"),
    ),
)

_SCHEDULER: tuple[Option, ...] = (
    Option(name="max_num_seqs", type="int", help="Most requests running.", default=256, minimum=1),
    Option(
        name="max_num_batched_tokens",
        type="int",
        help="Token budget of one scheduler step.",
        default=8192,
        minimum=1,
    ),
    Option(
        name="step_ms",
        type="float",
        help="Milliseconds of one logical step, by which arrivals become steps.",
        default=50.0,
        minimum=0.001,
    ),
    Option(
        name="enable_prefix_caching",
        type="bool",
        help="Share and keep full prefix blocks, and states at the ends of blocks (vllm policy); "
        "without it as vLLM would: not for models with recurrent state.",
    ),
    Option(
        name="prefix_cache_retention_interval",
        type="int",
        help="Tokens between the kept prefixes of windows and states (vllm policy); the block size "
        "keeps them all, 0 as in vLLM only where prompts ended or parted.",
        default=0,
        minimum=0,
    ),
    Option(
        name="watermark",
        type="float",
        help="Share of the blocks kept free at admission (vllm policy).",
        default=0.0,
        minimum=0,
    ),
    Option(
        name="scheduler_reserve_full_isl",
        type="bool",
        help="Admit a request only if its whole prompt fits (vllm policy).",
        default=True,
    ),
    Option(
        name="async_scheduling",
        type="bool",
        help="Schedule a step before the one before it is known (vllm policy).",
        default=False,
    ),
    Option(
        name="num_lookahead_tokens",
        type="int",
        help="Slots held for speculative tokens (vllm policy).",
        default=0,
        minimum=0,
    ),
)

_STUDY: tuple[Option, ...] = (
    Option(
        name="script",
        type="str",
        help="Operations of a walkthrough, as in 'allocate A 6; fork A B; append B 1; free A'.",
    ),
    Option(
        name="context_tokens",
        type="int",
        help="Tokens of the prompt that is forked (fork study).",
        minimum=1,
        monotonic=True,
    ),
    Option(
        name="forks",
        type="int",
        help="Children of that prompt (fork study).",
        default=1,
        minimum=1,
        monotonic=True,
    ),
    Option(
        name="new_tokens",
        type="int",
        help="Tokens that every child writes after the fork (fork study).",
        default=1,
        minimum=1,
        monotonic=True,
    ),
    Option(
        name="curve_points",
        type="int",
        help="Capacities of the curve, each half of the next (hit_curve study).",
        default=15,
        minimum=1,
    ),
    Option(
        name="max_preemption_ratio",
        type="float",
        help="Most preemptions per request that the search accepts (max_concurrency study).",
        default=0.01,
        minimum=0,
    ),
)

_STEP_TIME: tuple[Option, ...] = (
    Option(
        name="step_time",
        type="str",
        help="How long a step lasts: logical (step_ms each), roofline (of device and model) or "
        "measured (by stated constants); the last two give simulated seconds.",
        default="logical",
        choices=STEP_TIMES,
    ),
    Option(
        name="device",
        type="device",
        help="Device of one rank: its memory is the budget of a pool that "
        "is not stated, its speed that of roofline steps.",
    ),
    Option(
        name="compute_dtype",
        type="str",
        help="Element type of products with the weights, which decides the peak (roofline).",
        default="bf16",
        choices=COMPUTE_DTYPES,
    ),
    Option(
        name="compute_efficiency",
        type="float",
        help="Share of the device's peak FLOP/s that is reached, up to 1 (roofline).",
        default=0.6,
        minimum=0.001,
    ),
    Option(
        name="bandwidth_efficiency",
        type="float",
        help="Share of the device's peak bandwidth that is reached, up to 1 (roofline).",
        default=0.8,
        minimum=0.001,
    ),
    Option(
        name="step_overhead_ms",
        type="float",
        help="Milliseconds of a step beside arithmetic and memory traffic (roofline).",
        default=2.0,
        minimum=0,
    ),
    Option(name="step_base_s", type="float", help="Seconds of any step (measured).", minimum=0),
    Option(
        name="prefill_token_s",
        type="float",
        help="Seconds per token of a chunk of several tokens (measured).",
        minimum=0,
    ),
    Option(
        name="decode_request_s",
        type="float",
        help="Seconds per request that computes a single token (measured).",
        minimum=0,
    ),
    Option(
        name="context_token_s",
        type="float",
        help="Seconds per cached token that attention reads (measured).",
        minimum=0,
    ),
)

_TIMELINE: tuple[Option, ...] = (
    Option(
        name="preemption_aware",
        type="bool",
        help="Preempt the youngest request where the recorded timeline overfills the pool "
        "(timeline study).",
        default=True,
    ),
)

OPTIONS: tuple[Option, ...] = (
    *_WHAT,
    *_MEMORY,
    *_SCHEDULER,
    *_STEP_TIME,
    *_STUDY,
    *_TIMELINE,
)
