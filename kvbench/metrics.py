"""Metric names that several engines share, so that their numbers stand side by side.

A plugin registers ``shared("paged_bytes", Evidence.ANALYTIC)`` and adds metrics of its own.
"""

from __future__ import annotations

from kvbench.engine import Direction, Evidence, Metric

_LOWER, _HIGHER, _NONE = Direction.LOWER, Direction.HIGHER, Direction.NONE

#: name -> (unit, direction, meaning). Per request and per rank unless the name or meaning differs.
SHARED: dict[str, tuple[str, Direction, str]] = {
    "slope_bytes_per_token": (
        "bytes_per_token",
        _LOWER,
        "Logical cache bytes that one further token costs at this length.",
    ),
    "intercept_bytes": ("bytes", _LOWER, "Logical bytes of a request beyond slope times tokens."),
    "logical_bytes": ("bytes", _LOWER, "Bytes that must be resident for one request's tokens."),
    "paged_bytes": ("bytes", _LOWER, "Logical bytes of one request rounded up to whole blocks."),
    "admission_bytes": (
        "bytes",
        _LOWER,
        "Bytes of blocks that must be free before one request is admitted.",
    ),
    "tail_waste_bytes": ("bytes", _LOWER, "Unused bytes in one request's last blocks."),
    "fragmentation_ratio": ("ratio", _LOWER, "Unused share of the slots in the allocated blocks."),
    "request_blocks": ("blocks", _LOWER, "Blocks that one request holds at its full length."),
    "block_bytes": ("bytes", _NONE, "Pool bytes that one block id costs, all layers together."),
    "block_size_tokens": ("tokens", _NONE, "Tokens per block."),
    "pool_blocks": ("blocks", _HIGHER, "Blocks in the pool, reserved null blocks included."),
    "pool_bytes": ("bytes", _NONE, "Bytes of the pool's blocks."),
    "capacity_tokens": ("tokens", _HIGHER, "Tokens of full-length requests the pool holds."),
    "max_concurrency_requests": (
        "requests",
        _HIGHER,
        "Requests of this length that the pool holds at once.",
    ),
    "max_context_tokens": (
        "tokens",
        _HIGHER,
        "Longest context at which the asked number of requests fits.",
    ),
    "weight_bytes": ("bytes", _LOWER, "Bytes of the model's weights on one rank."),
    "used_blocks": ("blocks", _NONE, "Blocks in use, over time."),
    "peak_used_blocks": ("blocks", _LOWER, "Most blocks in use at any moment."),
    "mean_used_blocks": ("blocks", _LOWER, "Blocks in use, averaged over the run's steps."),
    "peak_used_bytes": ("bytes", _LOWER, "Bytes of the most blocks in use at any moment."),
    "cached_blocks": ("blocks", _NONE, "Free blocks that still hold a reusable prefix, over time."),
    "running_requests": ("requests", _NONE, "Requests that are being computed, over time."),
    "waiting_requests": ("requests", _NONE, "Requests that wait for admission, over time."),
    "peak_running_requests": ("requests", _HIGHER, "Most requests running at any moment."),
    "peak_waiting_requests": ("requests", _LOWER, "Most requests waiting at any moment."),
    "usage_ratio": ("ratio", _NONE, "Used share of the pool's usable blocks, over time."),
    "peak_usage_ratio": ("ratio", _LOWER, "Largest used share of the pool's usable blocks."),
    "shared_saved_blocks": ("blocks", _HIGHER, "Blocks not allocated because a prefix is shared."),
    "shared_saved_bytes": ("bytes", _HIGHER, "Bytes not allocated because a prefix is shared."),
    "hit_tokens": ("tokens", _HIGHER, "Prompt tokens found in the prefix cache."),
    "query_tokens": ("tokens", _NONE, "Prompt tokens looked up in the prefix cache."),
    "prefix_hit_ratio": ("ratio", _HIGHER, "Share of looked-up prompt tokens found in the cache."),
    "evicted_blocks": ("blocks", _LOWER, "Cached blocks that lost their content."),
    "preemptions_count": ("count", _LOWER, "Times a running request lost its blocks."),
    "recomputed_tokens": ("tokens", _LOWER, "Tokens computed again after a preemption."),
    "steps_count": ("count", _LOWER, "Scheduler steps that the workload took."),
    "requests_count": ("count", _NONE, "Requests of the workload that were run."),
    "device_used_bytes": ("bytes", _LOWER, "Memory in use on the device."),
    "process_used_bytes": ("bytes", _LOWER, "Memory that the engine's process holds."),
}


def shared(name: str, evidence: Evidence, *, exact: bool = False) -> Metric:
    """Return the shared metric ``name`` registered for one kind of evidence.

    Raises:
        KeyError: ``name`` is not a shared metric.
    """
    unit, direction, meaning = SHARED[name]
    return Metric(
        name=name, unit=unit, direction=direction, evidence=evidence, meaning=meaning, exact=exact
    )
