"""What a cell of the pool engine does, one module per study."""

from __future__ import annotations

import importlib

from kvbench.engine import Cache, Cell, CellOutput
from kvbench.errors import CellFailed

_MODULES = {
    "replay": "replay_workload",
    "walkthrough": "walkthrough",
    "fork": "fork_prompt",
    "hit_curve": "hit_curve",
    "max_concurrency": "max_concurrency",
    "timeline": "timeline",
}


def run_study(cell: Cell) -> CellOutput:
    """Run the study that a cell's ``study`` option names.

    Raises:
        CellFailed: An option is missing, the pool is too small, or the cell wants a prefix cache
            that is not empty at the start.
    """
    if cell.cache is not Cache.COLD:
        raise CellFailed(
            "unsupported_cache",
            f"a simulated pool starts empty; protocol.cache is {cell.cache.value!r}",
        )
    name = _MODULES[str(cell.settings["study"])]
    output: CellOutput = importlib.import_module(f"kvbench_pool.studies.{name}").run(cell)
    return output
