"""Time a kernel by replaying a graph over more data than the last-level cache holds.

The captured graph launches the kernel once on each of several buffers whose bytes together are at
least four times the L2 cache, so that no launch finds its data there and no launch pays the
host's latency. One sample is one replay divided by its launches. Clocks are left alone and
watched instead.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

#: Rotated bytes over bytes of the L2 cache.
L2_MULTIPLE = 4

#: Relative limits beyond which a timing is flagged.
MAX_SPREAD, MAX_CLOCK_DRIFT = 0.10, 0.05


class Runtime(Protocol):
    """What timing needs of a device; ``torch_runtime.CudaRuntime`` is the real one."""

    def capture(self, launches: Sequence[Callable[[], None]]) -> Callable[[], float]:
        """Capture ``launches`` into one graph; the result replays it and returns its seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Samples of one kernel.

    Attributes:
        seconds: One value per replay: seconds of one launch.
    """

    seconds: tuple[float, ...]

    @property
    def median_s(self) -> float:
        """Median of the samples."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """95th minus 5th percentile over the median, 0 for fewer than two samples."""
        if len(self.seconds) < 2:
            return 0.0
        cuts = statistics.quantiles(self.seconds, n=20, method="inclusive")
        return (cuts[-1] - cuts[0]) / self.median_s


def rotation(bytes_per_launch: int, l2_bytes: int) -> int:
    """Buffers needed so that all together are at least ``L2_MULTIPLE`` times the L2 cache."""
    return max(1, -(-L2_MULTIPLE * l2_bytes // max(1, bytes_per_launch)))


def time_launches(runtime: Runtime, launches: Sequence[Callable[[], None]], replays: int) -> Timing:
    """Time ``launches``, one per buffer.

    Args:
        runtime: Device.
        launches: The same kernel on different buffers.
        replays: Samples to take, after one replay that is thrown away.
    """
    replay = runtime.capture(launches)
    replay()
    return Timing(seconds=tuple(replay() / len(launches) for _ in range(replays)))


def doubts(
    timing: Timing,
    clocks_hz: tuple[int | None, int | None],
    moved_bytes: int,
    peak_bytes_per_s: float,
) -> tuple[str, ...]:
    """Sentences about what makes a timing suspect.

    Args:
        timing: The samples.
        clocks_hz: Multiprocessor clock before and after, ``None`` when not known.
        moved_bytes: Bytes one launch has to move.
        peak_bytes_per_s: The datasheet's bandwidth, 0 when not known.
    """
    found = []
    if timing.spread > MAX_SPREAD:
        found.append(f"samples spread by {timing.spread:.0%} of their median (p5 to p95)")
    before, after = clocks_hz
    if before and after and abs(after - before) > MAX_CLOCK_DRIFT * before:
        found.append(f"the clock moved from {before / 1e6:.0f} to {after / 1e6:.0f} MHz")
    if peak_bytes_per_s and moved_bytes / timing.median_s > peak_bytes_per_s:
        found.append("faster than the datasheet's bandwidth: cached data, or miscounted bytes")
    return tuple(found)
