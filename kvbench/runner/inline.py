"""``isolation = inline``: the engine in the process of the run itself."""

from __future__ import annotations

import contextlib
import time
from multiprocessing.connection import Connection
from typing import Any

from kvbench.runner.executor import Control
from kvbench.runner.failure import start_failure_of
from kvbench.runner.group import Group
from kvbench.runner.messages import Failure, Start
from kvbench.runner.worker import perform, session_of, units_of


class InlineLane:
    """Runs a group in this process: no start-up cost, but no time limits and no isolation.

    A failed cell closes the engine and the next one opens it again, as a worker would.
    """

    def __init__(self, group: Group, control: Control) -> None:
        self.group = group
        self.connection: Connection[Any, Any] | None = None
        first = group.planned[0]
        self._plugin = control.plugins.get(first.config.plugin)
        cells = tuple(planned.cell for planned in group.planned)
        self._start = Start(source=self._plugin.source, config=first.config, cells=cells)
        self._stack = contextlib.ExitStack()
        self._session: Any = None
        self._is_open = False

    def advance(self) -> bool:
        """Run one batch; whether the group has come to its end."""
        batch = self.group.next_batch()
        if not batch:
            self.stop()
            return True
        if not self._is_open and not self._open():
            return False
        for task in batch:
            reply = perform(
                self._plugin,
                self._start.cells[task.index],
                self._session,
                task,
                units_of(self._plugin),
            )
            if not isinstance(reply.result, Failure):
                self.group.finished_repeat(task, reply.result)
                continue
            self.group.failed(task, reply.result)
            if reply.result.poisoned:
                self.stop()
            break
        return False

    def stop(self) -> None:
        """Close the engine."""
        self._is_open = False
        self._stack.close()

    def _open(self) -> bool:
        began = time.perf_counter()
        try:
            self._session = self._stack.enter_context(session_of(self._plugin, self._start))
        except (Exception, SystemExit) as error:
            self.group.refused(start_failure_of(error, time.perf_counter() - began))
            return False
        self._is_open = True
        self.group.worker_started(time.perf_counter() - began)
        return True
