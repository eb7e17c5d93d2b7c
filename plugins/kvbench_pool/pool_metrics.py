"""What the pool engine can observe: simulated and exact, beside a recorded engine's curve."""

from __future__ import annotations

from kvbench.engine import Direction, Evidence, Metric
from kvbench.metrics import shared

_LOWER, _HIGHER, _NONE = Direction.LOWER, Direction.HIGHER, Direction.NONE

_SHARED = (
    "fragmentation_ratio",
    "block_bytes",
    "block_size_tokens",
    "pool_blocks",
    "pool_bytes",
    "used_blocks",
    "peak_used_blocks",
    "mean_used_blocks",
    "peak_used_bytes",
    "cached_blocks",
    "running_requests",
    "waiting_requests",
    "peak_running_requests",
    "peak_waiting_requests",
    "usage_ratio",
    "peak_usage_ratio",
    "shared_saved_blocks",
    "shared_saved_bytes",
    "hit_tokens",
    "query_tokens",
    "prefix_hit_ratio",
    "evicted_blocks",
    "preemptions_count",
    "recomputed_tokens",
    "steps_count",
    "requests_count",
)

_REPLAY = (
    ("mean_used_bytes", "bytes", _LOWER, "Bytes of the blocks in use, averaged over the steps."),
    (
        "live_tokens",
        "tokens",
        _NONE,
        "Tokens that running requests hold in their blocks, over time; the vllm policy counts a "
        "shared token once per request.",
    ),
    ("null_blocks", "blocks", _LOWER, "Blocks that the engine keeps and never hands out."),
    ("live_ratio", "ratio", _HIGHER, "Share of the allocated slots that hold a token, averaged."),
    (
        "tail_waste_ratio",
        "ratio",
        _LOWER,
        "Share of the allocated slots that are empty at the end of paged sequences, averaged.",
    ),
    (
        "reserved_waste_ratio",
        "ratio",
        _LOWER,
        "Share of the allocated slots held for tokens that the request writes later, averaged.",
    ),
    (
        "padding_waste_ratio",
        "ratio",
        _LOWER,
        "Share of the allocated slots that their request never writes, averaged.",
    ),
    (
        "outside_waste_ratio",
        "ratio",
        _LOWER,
        "Share of the pool that was free but too scattered for the waiting request, averaged "
        "over the steps in which one waited.",
    ),
    (
        "mean_shared_saved_blocks",
        "blocks",
        _HIGHER,
        "Blocks not allocated because a prefix is shared, averaged over the steps.",
    ),
    ("peak_cached_blocks", "blocks", _NONE, "Most free blocks that held a reusable prefix."),
    ("dropped_requests_count", "count", _LOWER, "Requests that could never fit, left out."),
    ("mean_queue_s", "s", _LOWER, "Simulated wait before the first admission, per request."),
    ("blocked_steps_count", "count", _LOWER, "Steps in which the queue's head had to wait."),
    ("computed_tokens", "tokens", _LOWER, "Tokens computed, recomputed ones included."),
    (
        "recompute_hit_tokens",
        "tokens",
        _HIGHER,
        "Tokens that preempted requests found in the prefix cache on their return.",
    ),
    ("preemption_ratio", "ratio", _LOWER, "Preemptions per request."),
)

#: Latencies of the requests on a modelled clock, and what each is.
_LATENCIES = (
    ("queue", "seconds from arrival to the step that first computes something for it"),
    ("ttft", "seconds from arrival to its first token"),
    ("inter_token", "seconds per further output token"),
    ("latency", "seconds from arrival to its last token"),
)

_CLOCK = (
    ("simulated_s", "s", _LOWER, "Simulated seconds from the first arrival to the last token."),
    (
        "output_tokens_per_s",
        "tokens_per_s",
        _HIGHER,
        "Output tokens of all requests a simulated second.",
    ),
    (
        "tokens_per_s",
        "tokens_per_s",
        _HIGHER,
        "Prompt and output tokens of all requests a simulated second.",
    ),
    ("busy_ratio", "ratio", _NONE, "Share of the simulated seconds in which a step ran."),
    *(
        (
            f"p{share}_{name}_s",
            "s",
            _LOWER,
            f"Simulated {meaning}: {share} % of the requests take no longer.",
        )
        for name, meaning in _LATENCIES
        for share in (50, 90, 99)
    ),
)

#: Part of the pool -> what its slots hold. The shares of all parts sum to 1.
_PARTS = {
    "live": "hold a token, in blocks of one request",
    "shared": "hold a token, in blocks that several requests hold",
    "tail": "are empty behind the last token of a sequence",
    "reserved": "are held empty for speculative tokens",
    "state": "belong to pages with a state of fixed size",
    "cached": "are in free blocks with a reusable prefix",
    "free": "are in other free blocks",
    "null": "belong to the block that is never handed out",
}

_SPLIT = (
    *(
        (f"part_{part}_ratio", "ratio", _NONE, f"Share of the pool's slots that {what}, averaged.")
        for part, what in _PARTS.items()
    ),
    *(
        (f"part_{part}_blocks", "blocks", _NONE, f"Slots over time, in blocks, that {what}.")
        for part, what in _PARTS.items()
    ),
    (
        "state_pages_ratio",
        "ratio",
        _NONE,
        "Share of the allocated slots in pages with a state of fixed size, averaged.",
    ),
    (
        "mean_null_entries_count",
        "count",
        _NONE,
        "Entries of block tables before a window that name the null block, averaged.",
    ),
)

_FORK = (
    ("fork_used_blocks", "blocks", _LOWER, "Blocks in use right after the forks."),
    ("fork_used_bytes", "bytes", _LOWER, "Bytes in use right after the forks."),
    ("unshared_used_blocks", "blocks", _LOWER, "Blocks that copies of the prompt would take."),
    ("unshared_used_bytes", "bytes", _LOWER, "Bytes that copies of the prompt would take."),
    (
        "divergent_append_blocks",
        "blocks",
        _LOWER,
        "Blocks that the first child's first own token takes, copies included.",
    ),
    (
        "divergent_append_bytes",
        "bytes",
        _LOWER,
        "Bytes that the first child's first own token takes: new blocks, block size, bytes per "
        "token multiplied.",
    ),
    ("copied_blocks", "blocks", _LOWER, "Blocks copied because a shared one was written."),
)

_WALK = (("final_used_blocks", "blocks", _LOWER, "Blocks in use after the last operation."),)

_CURVE = (
    (
        "curve_capacity_blocks",
        "blocks",
        _NONE,
        "Capacities of the curve; sample i of each curve metric belongs to sample i of this.",
    ),
    ("curve_capacity_bytes", "bytes", _NONE, "The same capacities in bytes."),
    (
        "lru_hit_ratio",
        "ratio",
        _HIGHER,
        "Share of prompt tokens found by an LRU prefix cache of this capacity, nothing pinned.",
    ),
    (
        "optimal_hit_ratio",
        "ratio",
        _HIGHER,
        "Share of prompt tokens found when the future is known (Belady): no policy has more.",
    ),
    ("infinite_hit_ratio", "ratio", _HIGHER, "Share of prompt tokens found without any limit."),
    ("working_set_blocks", "blocks", _NONE, "Distinct prefix blocks of the whole workload."),
)

_CONCURRENCY = (
    (
        "admissible_concurrency_requests",
        "requests",
        _HIGHER,
        "Highest max_num_seqs found that keeps preemptions per request within the limit.",
    ),
    ("tried_concurrency_requests", "requests", _NONE, "Values of max_num_seqs that were tried."),
    ("tried_preemption_ratio", "ratio", _NONE, "Preemptions per request at each of them."),
)


_TIMELINE = (
    (
        "mean_error_ratio",
        "ratio",
        _LOWER,
        "Mean absolute error of the simulated usage each second.",
    ),
    ("max_error_ratio", "ratio", _LOWER, "Largest error of the simulated usage in any second."),
)

_RECORDED = Metric(
    name="recorded_usage_ratio",
    unit="ratio",
    direction=_NONE,
    evidence=Evidence.ENGINE,
    meaning="Used share of the pool as a recorded run's engine logged it, over time.",
    exact=True,
)


def _own(name: str, unit: str, direction: Direction, meaning: str) -> Metric:
    return Metric(
        name=name,
        unit=unit,
        direction=direction,
        evidence=Evidence.SIMULATED,
        meaning=meaning,
        exact=True,
    )


METRICS: tuple[Metric, ...] = (
    *(shared(name, Evidence.SIMULATED, exact=True) for name in _SHARED),
    *(
        _own(*row)
        for row in (*_REPLAY, *_SPLIT, *_CLOCK, *_FORK, *_WALK, *_CURVE, *_CONCURRENCY, *_TIMELINE)
    ),
    _RECORDED,
)
