"""The worker process: one plugin, one live engine, one repeat of a cell after another.

Started by ``kvbench.runner.process``. Everything heavy is imported here and nowhere else.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from kvbench.engine import Cell
from kvbench.plugins import Plugin, load_source
from kvbench.runner.failure import failure_of, start_failure_of
from kvbench.runner.messages import Failure, Opened, Reply, Start, Task
from kvbench.runner.observe import Units, record_of

#: What an orphaned worker gets to shut its engine down before it is killed.
ORPHAN_GRACE_S = 10.0


class _Terminated(BaseException):
    """SIGTERM arrived: unwind, so that the engine's context manager can shut it down."""


def main(descriptor: int) -> None:
    """Serve the parent at the other end of the socket ``descriptor`` until told to stop."""
    signal.signal(signal.SIGTERM, _terminate)
    os.set_inheritable(descriptor, False)
    connection: Connection[Any, Any] = Connection(descriptor)
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, inbox), daemon=True).start()
    with contextlib.suppress(_Terminated, BrokenPipeError):
        _serve(connection, inbox)


def perform(plugin: Plugin, cell: Cell, session: Any, task: Task, units: Units) -> Reply:
    """Run one repeat of a cell; an exception becomes a ``Failure``."""
    started_at_us, start = time.time_ns() // 1000, time.perf_counter()
    try:
        output = plugin.call(cell, session)
        record = record_of(
            output,
            units,
            phase=task.phase,
            repeat=task.repeat,
            started_at_us=started_at_us,
            wall_s=time.perf_counter() - start,
        )
    except (Exception, SystemExit) as error:
        failure = failure_of(error, time.perf_counter() - start)
        return Reply(task=task, result=failure, log_bytes=_log_bytes())
    return Reply(task=task, result=record, log_bytes=_log_bytes())


@contextlib.contextmanager
def session_of(plugin: Plugin, start: Start) -> Iterator[Any]:
    """The live engine of a configuration; ``None`` when the plugin needs none."""
    manager = plugin.open(start.config)
    with contextlib.nullcontext() if manager is None else manager as session:
        yield session


def units_of(plugin: Plugin) -> Units:
    """Units of everything the plugin registered."""
    return {(metric.name, str(metric.evidence)): metric.unit for metric in plugin.metrics}


def _serve(connection: Connection[Any, Any], inbox: queue.SimpleQueue[Any]) -> None:
    start: Start = inbox.get()
    began = time.perf_counter()
    opened = False
    try:
        plugin = load_source(start.source, start.config.plugin)
        with session_of(plugin, start) as session:
            opened = True
            setup_s = time.perf_counter() - began
            connection.send(Opened(setup_s=setup_s, log_bytes=_log_bytes()))
            _work(connection, inbox, plugin, session, start)
    except (Exception, SystemExit) as error:
        if opened:
            raise
        connection.send(start_failure_of(error, time.perf_counter() - began))


def _work(
    connection: Connection[Any, Any],
    inbox: queue.SimpleQueue[Any],
    plugin: Plugin,
    session: Any,
    start: Start,
) -> None:
    units = units_of(plugin)
    while (batch := inbox.get()) is not None:
        for task in batch:
            reply = perform(plugin, start.cells[task.index], session, task, units)
            connection.send(reply)
            if isinstance(reply.result, Failure) and reply.result.poisoned:
                return


def _log_bytes() -> int:
    try:
        return os.fstat(1).st_size
    except OSError:
        return 0


def _listen(connection: Connection[Any, Any], inbox: queue.SimpleQueue[Any]) -> None:
    """Pass messages on; when the parent is gone, shut down, and then make sure of it."""
    try:
        while True:
            inbox.put(connection.recv())
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(ORPHAN_GRACE_S)
        os.killpg(0, signal.SIGKILL)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _Terminated
