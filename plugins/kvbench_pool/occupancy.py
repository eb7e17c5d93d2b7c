"""What a pool's slots were used for over a replay: exact means and peaks, bounded series."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvbench_pool.policies.base import MemoryPolicy
from kvbench_pool.series import BoundedSeries


@dataclass(slots=True)
class _Mean:
    total: float = 0.0
    steps: int = 0

    def add(self, value: float, steps: int) -> None:
        self.total += value
        self.steps += steps

    @property
    def value(self) -> float:
        return self.total / self.steps if self.steps else 0.0


@dataclass(slots=True)
class Occupancy:
    """Accumulates a replay step by step; between two visits only the live tokens change.

    Means are over the steps in which something was allocated, as in vLLM's own figures.
    """

    block_size: int
    used: BoundedSeries = field(default_factory=BoundedSeries)
    live: BoundedSeries = field(default_factory=BoundedSeries)
    cached: BoundedSeries = field(default_factory=BoundedSeries)
    running: BoundedSeries = field(default_factory=BoundedSeries)
    waiting: BoundedSeries = field(default_factory=BoundedSeries)
    peak_used_slots: int = 0
    peak_cached_slots: int = 0
    peak_saved_slots: int = 0
    peak_running: int = 0
    peak_waiting: int = 0
    mean_used_slots: _Mean = field(default_factory=_Mean)
    mean_live_ratio: _Mean = field(default_factory=_Mean)
    mean_reserved_ratio: _Mean = field(default_factory=_Mean)
    mean_padding_ratio: _Mean = field(default_factory=_Mean)
    mean_saved_slots: _Mean = field(default_factory=_Mean)

    def visit(self, step: int, policy: MemoryPolicy, running: int, waiting: int) -> None:
        """Note one step: memory and running requests after its scheduling, the queue before."""
        used, cached, saved = policy.allocated_slots, policy.cached_slots, policy.unshared_slots
        self.peak_used_slots = max(self.peak_used_slots, used)
        self.peak_cached_slots = max(self.peak_cached_slots, cached)
        self.peak_saved_slots = max(self.peak_saved_slots, saved)
        self.peak_running = max(self.peak_running, running)
        self.peak_waiting = max(self.peak_waiting, waiting)
        self.used.add(step, used / self.block_size)
        self.live.add(step, policy.live_slots)
        self.cached.add(step, cached / self.block_size)
        self.running.add(step, running)
        self.waiting.add(step, waiting)

    def dwell(self, policy: MemoryPolicy, steps: int, growth: int) -> None:
        """Count ``steps`` steps of unchanged memory; each but the first writes ``growth`` tokens.

        The policy's live slots are those of the first of the steps.
        """
        used = policy.allocated_slots
        if not used:
            return
        live = steps * policy.live_slots + growth * steps * (steps - 1) // 2
        promised = policy.promised_slots * steps
        self.mean_used_slots.add(used * steps, steps)
        self.mean_saved_slots.add(policy.unshared_slots * steps, steps)
        self.mean_live_ratio.add(live / used, steps)
        if promised:
            self.mean_reserved_ratio.add((promised - live) / used, steps)
            self.mean_padding_ratio.add((used * steps - promised) / used, steps)
