"""A recorded run's requests on their own timeline, against the cache usage its engine logged."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from kvbench.engine import Cell, CellOutput, Evidence, Observation
from kvbench.errors import CellFailed, TraceError
from kvbench_pool.observe import simulated
from kvbench_pool.settings import memory_of, setting
from kvbench_pool.studies.requests import workload_of

#: Simulated moments per second of the recorded curve.
TICKS_PER_S = 20

_ASSUMPTIONS = (
    "A request holds the blocks of its whole prompt from its first scheduling on, and its tokens "
    "come evenly until the last one; prefixes are not shared.",
    "Preempted requests return in order, when they fit or before a new request is scheduled.",
)


@dataclass(slots=True)
class Recorded:
    """One request of a recorded run; times are seconds since the run's start."""

    prompt_tokens: int
    output_tokens: int
    scheduled_s: float
    first_s: float
    last_s: float
    generated: float = 0.0

    def blocks(self, block_size: int) -> int:
        """Return the blocks that hold the prompt and every generated token but the last."""
        return -(-(self.prompt_tokens + max(0, int(self.generated) - 1)) // block_size)

    def advance(self, before_s: float, now_s: float) -> None:
        """Spread the tokens still to come over the time that is left."""
        if now_s < self.first_s:
            return
        start = max(before_s, self.first_s)
        self.generated = max(1.0, self.generated)
        if start < self.last_s:
            share = min(1.0, (now_s - start) / (self.last_s - start))
            self.generated += (self.output_tokens - self.generated) * share


class Timeline:
    """The pool of a recorded run, tick by tick.

    Attributes:
        preemptions: Requests that lost their blocks so far.
    """

    def __init__(
        self, requests: list[Recorded], capacity: int, block_size: int, *, aware: bool
    ) -> None:
        self._coming = sorted(requests, key=lambda one: -one.scheduled_s)
        self._running: list[Recorded] = []
        self._preempted: list[Recorded] = []
        self._capacity, self._block_size, self._aware = capacity, block_size, aware
        self.preemptions = 0

    def used_blocks(self, tick: int) -> int:
        """Advance by one tick to ``tick``; return the blocks in use."""
        before, now = (tick - 1) / TICKS_PER_S, tick / TICKS_PER_S
        while self._coming and self._coming[-1].scheduled_s <= now:
            self._running += [*self._preempted, self._coming.pop()]
            self._preempted = []
        for one in self._running:
            one.advance(before, now)
        self._running = [one for one in self._running if now < one.last_s]
        self._preempted = [one for one in self._preempted if now < one.last_s]
        used = sum(one.blocks(self._block_size) for one in self._running)
        return self._fit(used) if self._aware else used

    def _fit(self, used: int) -> int:
        while self._preempted:
            need = self._preempted[0].blocks(self._block_size)
            if used + need > self._capacity:
                break
            self._running.append(self._preempted.pop(0))
            used += need
        while used > self._capacity and len(self._running) > 1:
            youngest = self._running.pop()
            self._preempted.insert(0, youngest)
            used -= youngest.blocks(self._block_size)
            self.preemptions += 1
        return used


def run(cell: Cell) -> CellOutput:
    """Replay the recorded requests; ``timeseries.csv`` is read beside the workload's trace.

    Raises:
        CellFailed: The cell has no recorded run.
        TraceError: A file of the run cannot be read.
    """
    path = workload_of(cell).path
    if path is None:
        raise CellFailed("option_missing", "study 'timeline' needs a workload of kind 'trace'")
    memory, curve = memory_of(cell), read_curve(path.with_name("timeseries.csv"))
    capacity = memory.num_blocks - 1  # vLLM's null block
    aware = setting(cell, "preemption_aware", bool)
    timeline = Timeline(read_requests(path), capacity, memory.block_size, aware=aware)
    last = round(max(curve) * TICKS_PER_S)
    used = {n / TICKS_PER_S: timeline.used_blocks(n) / capacity for n in range(1, last + 1)}
    errors = [abs(used[second] - ratio) for second, ratio in curve.items()]
    figures = {
        "mean_error_ratio": sum(errors) / len(errors),
        "max_error_ratio": max(errors),
        "preemptions_count": timeline.preemptions,
        "pool_blocks": memory.num_blocks,
    }
    return CellOutput(
        observations=(
            *simulated(figures),
            *_series("usage_ratio", {t: used[t] for t in curve}, Evidence.SIMULATED),
            *_series("recorded_usage_ratio", curve, Evidence.ENGINE),
        ),
        effective={"block_size": memory.block_size, "preemption_aware": aware},
        assumptions=_ASSUMPTIONS if aware else _ASSUMPTIONS[:1],
    )


def _series(metric: str, points: dict[float, float], evidence: Evidence) -> list[Observation]:
    return [
        Observation(metric=metric, value=value, evidence=evidence, t_offset_s=second)
        for second, value in points.items()
    ]


def read_requests(path: Path) -> list[Recorded]:
    """Read the requests of a recorded run.

    Raises:
        TraceError: A column is missing or no number.
    """
    names = ("scheduled_s", "first_token_s", "last_token_s")
    return [
        Recorded(int(row["ContextTokens"]), int(row["GeneratedTokens"]), *times)
        for row, times in _rows(path, names)
    ]


def read_curve(path: Path) -> dict[float, float]:
    """Read the used share of the pool by whole seconds.

    Raises:
        TraceError: The file is missing, or a column is missing or no number.
    """
    return {times[0]: times[1] / 100 for _, times in _rows(path, ("t", "kv_cache_pct"))}


def _rows(path: Path, names: tuple[str, ...]) -> list[tuple[dict[str, str], list[float]]]:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return [(row, [float(row[name]) for name in names]) for row in csv.DictReader(lines)]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{path}: {error}; expected columns {', '.join(names)}") from None
