"""How many requests may run at once before preemption costs more than accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvbench.engine import Cell, CellOutput
from kvbench_pool.observe import simulated, simulated_list
from kvbench_pool.settings import memory_of, setting
from kvbench_pool.studies.replay_workload import clock_assumptions, preemption_ratios
from kvbench_pool.text_table import text_table


@dataclass(frozen=True, slots=True)
class Trial:
    """One replay of the search."""

    max_num_seqs: int
    preemption_ratio: float


def run(cell: Cell) -> CellOutput:
    """Search for the highest ``max_num_seqs`` within the accepted preemptions.

    The cell's own ``max_num_seqs`` is the highest value that is tried.

    Raises:
        CellFailed: An option is missing or out of place.
        TraceError: The workload's trace cannot be read.
    """
    memory = memory_of(cell)
    limit = setting(cell, "max_preemption_ratio", float)
    ratio_of = preemption_ratios(cell, memory)
    trials: list[Trial] = []

    def accepted(seats: int) -> bool:
        trials.append(Trial(seats, ratio_of(seats)))
        return trials[-1].preemption_ratio <= limit

    best = highest(accepted, setting(cell, "max_num_seqs", int))
    at_best = [trial.preemption_ratio for trial in trials if trial.max_num_seqs == best]
    trials.sort(key=lambda trial: trial.max_num_seqs)
    values = {"admissible_concurrency_requests": float(best), "pool_blocks": memory.num_blocks}
    return CellOutput(
        observations=(
            *simulated(values | ({"preemption_ratio": at_best[0]} if at_best else {})),
            *simulated_list("tried_concurrency_requests", [one.max_num_seqs for one in trials]),
            *simulated_list("tried_preemption_ratio", [one.preemption_ratio for one in trials]),
        ),
        effective={
            "policy": setting(cell, "policy", str),
            "block_size": memory.block_size,
            "pool_blocks": memory.num_blocks,
        },
        assumptions=(
            *memory.assumptions,
            *clock_assumptions(cell),
            f"At most {limit:g} preemptions per request are accepted; the search doubles and "
            "bisects, as if more seats never meant fewer preemptions.",
        ),
        artifacts={"tried concurrency": _table(trials)},
    )


def highest(accepted: Callable[[int], bool], most: int) -> int:
    """Return the highest accepted value from 0 to ``most``, by doubling and bisection."""
    low, high = 0, 1
    while high <= most and accepted(high):
        low, high = high, high * 2
    if high > most:
        if low == most or accepted(most):
            return most
        high = most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepted(middle) else (low, middle)
    return low


def _table(trials: list[Trial]) -> str:
    rows = [[str(one.max_num_seqs), f"{one.preemption_ratio:.4f}"] for one in trials]
    return text_table(["max_num_seqs", "preemptions per request"], rows)
