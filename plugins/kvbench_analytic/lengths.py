"""A workload's lengths, all at once: what paging wastes on real requests."""

from __future__ import annotations

from collections import Counter

from kvbench.layout import Arrangement
from kvbench.model.sizing import size_at
from kvbench.workload.load import open_workload
from kvbench.workload.spec import WorkloadSpec

#: Lengths of workloads seen by this worker: many cells share one.
_KNOWN: dict[tuple[str, int], Counter[int]] = {}


def workload_totals(
    workload: WorkloadSpec, seed: int, arrangement: Arrangement
) -> dict[str, float]:
    """Sum logical and paged bytes over the requests at their full lengths.

    The last sampled token is never fed back, so a request ends with prompt + output - 1
    tokens in the cache.
    """
    logical = paged = 0
    for tokens, count in final_lengths(workload, seed).items():
        logical += count * size_at(arrangement.costs, tokens).logical_bytes
        paged += count * arrangement.paged_bytes(tokens)
    return {
        "workload_logical_bytes": logical,
        "workload_paged_bytes": paged,
        "workload_fragmentation_ratio": 1 - logical / paged if paged else 0.0,
    }


def final_lengths(workload: WorkloadSpec, seed: int) -> dict[int, int]:
    """Cached tokens at the end of each request -> number of such requests."""
    key = (repr(workload), seed)
    if key not in _KNOWN:
        requests = open_workload(workload, seed)
        _KNOWN[key] = Counter(
            request.prompt_tokens + request.output_tokens - 1 for request in requests
        )
    return _KNOWN[key]
