"""One group on one worker process: time limits, crashes, retirement, logs."""

from __future__ import annotations

import dataclasses
import signal
import time
from collections import deque
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from kvbench.results.schema import LOGS_FOLDER, Status
from kvbench.runner.executor import Control
from kvbench.runner.failure import clean
from kvbench.runner.group import Group
from kvbench.runner.messages import Failure, Opened, Reply, Start, Task
from kvbench.runner.process import WorkerProcess

#: Least time that an engine gets to start, whatever the limit of one repeat is.
OPEN_TIMEOUT_S = 600.0

#: How long a worker that did not answer in time may take to shut down.
HUNG_GRACE_S = 2.0

#: Bytes of a worker's output that go into the log of a failed cell.
MAX_OUTPUT_BYTES = 65_536


class Lane(Protocol):
    """A group that is being run."""

    @property
    def group(self) -> Group:
        """The group."""

    @property
    def connection(self) -> Connection[Any, Any] | None:
        """What becomes readable when there is something to take, ``None`` when there is now."""

    def advance(self) -> bool:
        """Take what has arrived, ask for more; whether the group has come to its end."""

    def stop(self) -> None:
        """End everything that belongs to the lane."""


class ProcessLane:
    """Runs a group on a worker process, replacing the worker when a cell has poisoned it."""

    def __init__(self, group: Group, control: Control) -> None:
        self.group = group
        self._control = control
        self._tasks: deque[Task] = deque()
        self._worker: WorkerProcess | None = None
        self._opened = False
        self._deadline = 0.0
        self._log_mark = 0
        self._log = control.run_dir / LOGS_FOLDER / f"{_log_name(group)}.log"

    @property
    def connection(self) -> Connection[Any, Any] | None:
        """Where the worker's replies arrive, ``None`` without a worker."""
        return self._worker.connection if self._worker else None

    def advance(self) -> bool:
        """Take replies, notice death and time limits, send the next batch."""
        if self._worker is not None:
            self._listen(self._worker)
        if self._tasks or (self._worker is not None and not self._opened):
            return False
        batch = self.group.next_batch()
        if not batch:
            self._retire()
            return True
        self._give(batch)
        return False

    def stop(self) -> None:
        """Interrupt the worker and make sure that nothing of it is left."""
        if self._worker is not None:
            self._worker.stop()
        self._forget()

    def _give(self, batch: tuple[Task, ...]) -> None:
        if self._worker is None:
            self._start_worker()
            return
        self._tasks.extend(batch)
        self._worker.send(batch)
        self._next_task()

    def _start_worker(self) -> None:
        first = self.group.planned[0]
        plugin = self._control.plugins.get(first.config.plugin)
        if not plugin.source:
            words = "the plugin cannot be imported by name; use isolation = 'inline'"
            self.group.refused(_failed("engine_start", words))
            return
        engine_log = self._log.with_suffix(".engine.log")
        start = Start(
            source=plugin.source,
            config=dataclasses.replace(first.config, log_path=engine_log),
            cells=tuple(planned.cell for planned in self.group.planned),
        )
        self._worker = WorkerProcess(start, self._log)
        self._log_mark = self._log.stat().st_size
        limit_s = max(OPEN_TIMEOUT_S, first.protocol.timeout_s)
        self._deadline = time.monotonic() + limit_s

    def _listen(self, worker: WorkerProcess) -> None:
        # The exit code comes first: whatever a dead worker said has arrived by then.
        exit_code = worker.exit_code()
        for message in worker.receive():
            self._take(message)
        if self._worker is None:
            return
        if not self._busy():
            if exit_code is not None:
                self._retire()
        elif exit_code is not None:
            self._lost(_exit_failure(exit_code, self._output()))
        elif time.monotonic() > self._deadline:
            self._lost(self._timeout())

    def _busy(self) -> bool:
        return bool(self._tasks) or not self._opened

    def _take(self, message: Any) -> None:
        if isinstance(message, Opened):
            self._opened = True
            self._log_mark = message.log_bytes
            self.group.worker_started(message.setup_s)
        elif isinstance(message, Failure):
            self._lost(message)
        else:
            self._take_reply(message)

    def _take_reply(self, reply: Reply) -> None:
        task, result = self._tasks.popleft(), reply.result
        if isinstance(result, Failure):
            log = self._failure_log(task, result, reply.log_bytes)
            self.group.failed(task, result, log)
        else:
            printed = reply.log_bytes > self._log_mark
            self.group.finished_repeat(task, result, _relative(self._log) if printed else "")
        self._log_mark = reply.log_bytes
        if isinstance(result, Failure) and result.poisoned:
            self._retire()
        else:
            self._next_task()

    def _next_task(self) -> None:
        if self._tasks:
            self._deadline = time.monotonic() + self.group.timeout_s(self._tasks[0])

    def _lost(self, failure: Failure) -> None:
        """The worker is gone or going: blame the repeat in flight, or the engine's start."""
        if self._worker is not None and failure.status is Status.TIMEOUT:
            self._worker.stop(HUNG_GRACE_S)
        if self._opened:
            task = self._tasks.popleft()
            self.group.failed(task, failure, self._failure_log(task, failure))
        else:
            if failure.reason == "worker_crashed":
                failure = dataclasses.replace(failure, reason="engine_start")
            log = self._write_log(self._log.name, failure.details)
            self.group.refused(failure, log)
        self._retire()

    def _timeout(self) -> Failure:
        if not self._opened:
            limit_s = max(OPEN_TIMEOUT_S, self.group.planned[0].protocol.timeout_s)
            return _failed("engine_start", f"the engine did not start within {limit_s:g} s")
        limit_s = self.group.timeout_s(self._tasks[0])
        return Failure(
            status=Status.TIMEOUT,
            reason="timeout",
            error=f"no answer within {limit_s:g} s",
            wall_s=limit_s,
        )

    def _retire(self) -> None:
        if self._worker is not None:
            self._worker.close()
        self._forget()

    def _forget(self) -> None:
        self._worker = None
        self._opened = False
        self._tasks.clear()
        if self._log.exists() and not self._log.stat().st_size:
            self._log.unlink()

    def _output(self, until: int | None = None) -> str:
        """What the worker printed since the repeat in flight began, its end at most."""
        if not self._log.exists():
            return ""
        end = self._log.stat().st_size if until is None else until
        begin = max(self._log_mark, end - MAX_OUTPUT_BYTES)
        with self._log.open("rb") as file:
            file.seek(begin)
            return clean(file.read(max(0, end - begin)).decode("utf-8", "replace"))

    def _failure_log(self, task: Task, failure: Failure, until: int | None = None) -> str:
        cell_id = self.group.planned[task.index].cell.cell_id
        return self._write_log(f"{cell_id[:16]}.log", self._output(until) + failure.details)

    def _write_log(self, name: str, text: str) -> str:
        path = self._log.with_name(name)
        if text:
            with path.open("a", encoding="utf-8") as file:
                file.write(text if text.endswith("\n") else f"{text}\n")
        return _relative(path) if path.exists() else ""


def _log_name(group: Group) -> str:
    first = group.planned[0]
    if len(group.planned) == 1:
        return f"{first.cell.engine}-{first.cell.cell_id[:12]}"
    return f"{first.cell.engine}-{first.config_id[:12]}"


def _relative(path: Path) -> str:
    return f"{LOGS_FOLDER}/{path.name}"


def _failed(reason: str, error: str) -> Failure:
    return Failure(status=Status.FAILED, reason=reason, error=error)


def _exit_failure(exit_code: int, output: str) -> Failure:
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = " (out of host memory?)" if exit_code == -signal.SIGKILL else ""
        words = f"the worker was killed by {name}{hint}"
    else:
        words = f"the worker ended with exit code {exit_code}"
    last = _last_words(output)
    return _failed("worker_crashed", f"{words}; it last said: {last}" if last else words)


def _last_words(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith("Fatal Python error")]
    return (fatal or lines or [""])[-1]
