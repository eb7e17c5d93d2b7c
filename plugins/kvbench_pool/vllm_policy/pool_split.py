"""What every slot of a pool is used for, step by step: parts that sum to the pool exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.step_series import COLUMNS, marked, marked_step

#: Parts of a pool, in slots. A block has as many as the groups' block sizes have as their least
#: common multiple: a slot of one token each where all sizes are equal, several slots per token in
#: a group whose block holds fewer. A state page counts as a block. Requests hold the first five.
PARTS = (
    "live",
    "shared",
    "tail",
    "reserved",
    "state",
    "cached",
    "free",
    "null",
)
_COLUMNS = ("step", *PARTS, "null_entries", "saved_blocks")
_STEP = 0
_PARTS = slice(1, 1 + len(PARTS))
# The parts that some request holds come first.
_USED = slice(1, 1 + PARTS.index("cached"))
_BATCH = 16384 * len(_COLUMNS)

Matrix = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSplit:
    """Use of a pool's slots at one moment.

    Attributes:
        live: Slots with a token, in blocks of one request.
        shared: Slots with a token, in blocks that several requests hold, each block once.
        tail: Empty slots behind the last token of a sequence.
        reserved: Empty slots held for speculative tokens.
        state: Slots of the pages that hold a state of fixed size.
        cached: Slots of free blocks whose prefix can still be found.
        free: Slots of the other free blocks.
        null: Slots of the null block.
        null_entries: Entries of block tables that name the null block; they take no slots.
        saved_blocks: Entries that name a block once more than the first time.
    """

    live: int
    shared: int
    tail: int
    reserved: int
    state: int
    cached: int
    free: int
    null: int
    null_entries: int
    saved_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPoint:
    """A kept moment: the slots of every one of ``PARTS``."""

    step: int
    slots: tuple[int, ...]


class SplitSeries:
    """Takes a split per step; keeps exact means and a bounded series of whole moments.

    Each stretch of steps is represented by its first moment with the most slots in use, so that
    the parts of every kept point sum to the pool and the peak is exact.

    Attributes:
        busy_steps: Steps in which blocks were in use.
    """

    def __init__(self, limit: int = 512) -> None:
        self._limit = limit
        self._width = 1
        self._kept: Matrix = np.empty((0, len(_COLUMNS)), dtype=np.int64)
        self._sums = np.zeros(len(_COLUMNS))
        self._shares = np.zeros(_USED.stop - _USED.start)
        self._pending: list[int] = []
        self.busy_steps = 0
        self._saved_peak = 0

    def add(self, step: int, split: PoolSplit) -> None:
        """Note a step; steps increase."""
        self._pending += (
            step,
            split.live,
            split.shared,
            split.tail,
            split.reserved,
            split.state,
            split.cached,
            split.free,
            split.null,
            split.null_entries,
            split.saved_blocks,
        )
        if len(self._pending) >= _BATCH:
            self._settle()

    def _settle(self) -> None:
        if not self._pending:
            return
        rows: Matrix = np.array(self._pending, dtype=np.int64).reshape(-1, len(_COLUMNS))
        self._pending.clear()
        self.add_rows(rows)

    def add_rows(self, rows: Matrix) -> None:
        """Note steps at once, one row each: the step, then the fields of ``PoolSplit``."""
        self._saved_peak = max(self._saved_peak, int(rows[:, -1].max()))
        used = _used(rows)
        busy, used = rows[used > 0], used[used > 0]
        self.busy_steps += len(busy)
        self._sums += busy.sum(axis=0)
        self._shares += (busy[:, _USED] / used[:, None]).sum(axis=0)
        self._kept = np.concatenate((self._kept, rows))
        first, last = int(self._kept[0, _STEP]), int(self._kept[-1, _STEP])
        while last // self._width - first // self._width >= self._limit:
            self._width *= 2
        self._kept = _fullest(self._kept, self._width)

    @property
    def saved_peak(self) -> int:
        """Most saved blocks in any step."""
        self._settle()
        return self._saved_peak

    def mean_slots(self) -> dict[str, float]:
        """Return the slots of every part, averaged over the busy steps."""
        self._settle()
        means = self._sums[_PARTS] / max(1, self.busy_steps)
        return dict(zip(PARTS, means.tolist(), strict=True))

    def mean_shares(self) -> dict[str, float]:
        """Return each held part's share of all held slots, averaged over the busy steps."""
        self._settle()
        means = self._shares / max(1, self.busy_steps)
        return dict(zip(PARTS[: len(means)], means.tolist(), strict=True))

    @property
    def mean_null_entries(self) -> float:
        """Entries of block tables that name the null block, averaged over the busy steps."""
        return self._mean("null_entries")

    @property
    def mean_saved_blocks(self) -> float:
        """Blocks not allocated because they are shared, averaged over the busy steps."""
        return self._mean("saved_blocks")

    def _mean(self, column: str) -> float:
        self._settle()
        return float(self._sums[_COLUMNS.index(column)]) / max(1, self.busy_steps)

    def points(self) -> tuple[SplitPoint, ...]:
        """Return the kept moments in the order of their steps."""
        self._settle()
        return tuple(
            SplitPoint(step=row[_STEP], slots=tuple(row[_PARTS])) for row in self._kept.tolist()
        )


def full_attention_splits(rows: Matrix, config: PoolConfig) -> Matrix:
    """Return the splits of steps of one full-attention group, as ``SplitSeries`` takes them.

    Args:
        rows: Steps in the columns of ``StepSeries``.
        config: Pool and scheduler.
    """
    of = dict(zip(COLUMNS, rows.T, strict=True))
    size, used, cached = config.block_size, of["used_blocks"], of["cached_free_blocks"]
    tokens = of["live_tokens"] + of["idle_tokens"]
    entries = of["table_blocks"] + of["idle_blocks"]
    # Entries that name a block once more than the first time; shared blocks are full.
    again, shared = entries - used, of["shared_blocks"]
    reserved = of["running"] * config.lookahead_tokens
    nothing = np.zeros_like(used)
    columns = (
        of["step"],
        tokens - (again + shared) * size,
        shared * size,
        entries * size - tokens - reserved,
        reserved,
        nothing,
        cached * size,
        (config.usable_blocks - used - cached) * size,
        nothing + size,
        nothing,
        again,
    )
    return np.stack(columns, axis=1)


def _used(rows: Matrix) -> Matrix:
    used: Matrix = rows[:, _USED].sum(axis=1)
    return used


def _fullest(rows: Matrix, width: int) -> Matrix:
    """Reduce rows, ordered by step, to the first fullest one per stretch of ``width`` steps."""
    steps = rows[:, _STEP]
    starts = np.flatnonzero(np.diff(steps // width, prepend=-1))
    fullest = np.maximum.reduceat(marked(_used(rows), steps), starts)
    kept: Matrix = rows[np.searchsorted(steps, marked_step(fullest))]
    return kept
