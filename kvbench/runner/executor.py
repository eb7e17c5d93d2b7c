"""The small interface behind ``--executor``: who runs the groups of a plan, and where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kvbench.errors import KvbenchError
from kvbench.names import did_you_mean
from kvbench.plugins import Plugins
from kvbench.runner.group import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What an executor needs from the run.

    Attributes:
        plugins: The plugins of the parent process.
        run_dir: The run's folder; logs go into ``logs/``.
        jobs: Groups that may run at the same time; exclusive ones never do.
        stopped: Whether the user asked to stop; asked several times a second.
        tick: Called several times a second (journal, progress).
    """

    plugins: Plugins
    run_dir: Path
    jobs: int
    stopped: Callable[[], bool]
    tick: Callable[[], None]


class Executor(Protocol):
    """Runs groups: asks each for its next tasks and tells it what became of them.

    An executor for a cluster implements this one method: it ships a group's configuration and
    cells (plain data) to wherever the engine is, and feeds the answers back.
    """

    def execute(self, groups: Sequence[Group], control: Control) -> None:
        """Run every group to its end, or return early when ``control.stopped()``.

        No process that it started may be left when it returns or raises.
        """


def find_executor(name: str) -> Executor:
    """Return an executor by name.

    Raises:
        KvbenchError: There is none of that name.
    """
    from kvbench.runner.local import LocalExecutor

    executors: dict[str, Callable[[], Executor]] = {"local": LocalExecutor}
    if name not in executors:
        raise KvbenchError(f"no executor {name!r}{did_you_mean(name, executors)}")
    return executors[name]()
