"""A 15-point curve of hit ratio over memory: one pass here, 15 passes of a C++ peer.

Run ``python benchmarks/hit_curve_speed.py TRACE.jsonl`` with a Mooncake trace, where
``kvcache-simulator`` is installed (and a C++ compiler, which it calls on first use). Reading the
trace is left out on both sides; writing the peer's binary input is part of its call. Hit ratios
are those of the second half of the requests, and capacities stay below what the first half
fills, as the peer measures only caches that are full. It has no rule for the last token and
counts partial blocks, so its ratios differ by the share of those: 0.008 in blocks of 512, 0.0002
in blocks of 16.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kvbench.workload.request import Request
from kvbench.workload.traces import open_trace
from kvbench_pool.belady import OptimalCache
from kvbench_pool.lru_curve import LruCurve, capacities
from kvbench_pool.prefix_history import prefix_history

POINTS = 15
REPEATS = 3


def fastest(function: Callable[[], Any]) -> tuple[float, Any]:
    best, result = float("inf"), None
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = function()
        best = min(best, time.perf_counter() - start)
    return best, result


def ours(requests: Sequence[Request], block: int, sizes: Sequence[int]) -> list[float]:
    curve = LruCurve(prefix_history(requests, block), warmup=len(requests) // 2)
    return [curve.hit_ratio(size) for size in sizes]


def ours_with_optimum(requests: Sequence[Request], block: int, sizes: Sequence[int]) -> list[float]:
    history = prefix_history(requests, block)
    curve, cache = LruCurve(history), OptimalCache(history)
    return [curve.hit_ratio(size) for size in sizes] + [cache.hit_ratio(size) for size in sizes]


def peer_trace(requests: Sequence[Request], block: int) -> Any:
    """Spell a Mooncake trace in the peer's own structure, at any block that divides 512."""
    from kvcache_sim.trace import TraceData

    ids, tokens, starts, per_id = array("q"), array("q"), [0], 512 // block
    for request in requests:
        count = -(-request.prompt_tokens // block)
        spelt = [one * per_id + part for one in request.hash_ids for part in range(per_id)]
        ids.extend(spelt[:count])
        last = request.prompt_tokens - (count - 1) * block
        tokens.extend([block] * (count - 1) + [last])
        starts.append(len(ids))
    total = sum(request.prompt_tokens for request in requests)
    return TraceData(
        list(ids), list(tokens), starts, block, len(requests), len(set(ids)), total,
        total / len(requests), 0, 0,
    )  # fmt: skip


def peer(trace: Any, sizes: Sequence[int], policies: Sequence[str]) -> list[float]:
    from kvcache_sim.cpp_backend import run_cpp_sweep

    swept = run_cpp_sweep(
        trace,
        capacities=list(sizes),
        policies=list(policies),
        warmup_requests=trace.request_count // 2,
    )
    return [swept.results["lru", size].hitRate for size in sizes]


def main(path: Path) -> None:
    requests = list(open_trace(path))
    for block in (512, 16):
        sizes = capacities(prefix_history(requests, block).distinct_blocks // 4, POINTS)
        seconds, ratios = fastest(lambda b=block, s=sizes: ours(requests, b, s))
        print(f"block {block}: {len(requests)} requests, {len(sizes)} capacities")
        print(f"  kvbench LRU, one pass      {seconds:8.3f} s")
        both, _ = fastest(lambda b=block, s=sizes: ours_with_optimum(requests, b, s))
        print(f"  kvbench LRU and optimum    {both:8.3f} s")
        trace = peer_trace(requests, block)
        peer(trace, sizes[:1], ["lru"])
        theirs, found = fastest(lambda t=trace, s=sizes: peer(t, s, ["lru"]))
        print(f"  kvcache-simulator C++ LRU  {theirs:8.3f} s  ({theirs / seconds:.0f}x ours)")
        gap = max(abs(a - b) for a, b in zip(ratios, found, strict=True))
        print(f"  largest difference of the hit ratios {gap:.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
