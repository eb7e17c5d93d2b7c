"""CPU seconds of a call, and a line that shows some of them with their spread.

CPU seconds of the process, since other jobs on the machine change them less than wall seconds.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

ROUNDS = 5


def cpu_seconds(call: Callable[[], Any], rounds: int = ROUNDS) -> list[float]:
    """Return the CPU seconds of some rounds, after one to warm up."""
    call()
    return [_once(call) for _ in range(rounds)]


def _once(call: Callable[[], Any]) -> float:
    gc.collect()
    start = time.process_time()
    call()
    return time.process_time() - start


def show(name: str, seconds: Sequence[float], requests: int) -> float:
    """Print the median and the spread of some rounds; return the median."""
    middle = statistics.median(seconds)
    spread = f"{min(seconds):.3f}–{max(seconds):.3f}, n = {len(seconds)}"
    print(f"  {name:<42}{middle:9.3f} s  ({spread})  {requests / middle:9.0f} requests/s")
    return middle
