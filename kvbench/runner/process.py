"""The parent's end of a worker process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from kvbench.runner.messages import Start, Task

#: How long an engine may take to shut down before its worker is killed.
CLOSE_GRACE_S = 10.0

_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from kvbench.runner.worker import main; main(int(sys.argv[1]))"
)


class WorkerProcess:
    """A worker with its own session and process group, so that it leaves nothing behind.

    Attributes:
        connection: Where its replies arrive.
        log_path: Where its output goes.
    """

    def __init__(self, start: Start, log_path: Path) -> None:
        ours, theirs = socket.socketpair()
        self.log_path = log_path
        with theirs, log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(theirs.fileno()), json.dumps(sys.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"},
            )
        self.connection: Connection[Any, Any] = Connection(ours.detach())
        self._send(start)

    def send(self, batch: tuple[Task, ...]) -> None:
        """Ask for the repeats of ``batch``, in order."""
        self._send(batch)

    def receive(self) -> list[Any]:
        """Return the replies that have arrived."""
        replies = []
        with contextlib.suppress(EOFError, OSError):
            while self.connection.poll():
                replies.append(self.connection.recv())
        return replies

    def exit_code(self) -> int | None:
        """Exit code of a dead worker (negative: signal), ``None`` while it lives."""
        return self._process.poll()

    def close(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Let the engine shut down, then make sure that nothing of the worker is left."""
        self._send(None)
        self._end(grace_s)

    def stop(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Interrupt what runs, let the engine shut down, then make sure of it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        self._end(grace_s)

    def _send(self, message: Any) -> None:
        # A worker that has died is noticed by its exit code, not here.
        with contextlib.suppress(OSError):
            self.connection.send(message)

    def _end(self, grace_s: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_s)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.connection.close()
