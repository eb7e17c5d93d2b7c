"""A server watched on its own clock while requests run elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kvbench.errors import CellFailed
from kvbench_vllm.endpoint import Endpoint
from kvbench_vllm.scrape import Snapshot, scrape


@dataclass(slots=True, kw_only=True)
class Watch:
    """Readings of one server, in order.

    Attributes:
        started_s: Monotonic time of the start.
        snapshots: Every reading of ``/metrics``.
        memory_bytes: (seconds since the start, resident bytes) of the server's processes.
        gaps: Why readings are missing, one entry each.
    """

    started_s: float
    snapshots: list[Snapshot] = field(default_factory=list)
    memory_bytes: list[tuple[float, int]] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)


class Watcher:
    """Reads ``/metrics`` (and memory) every ``interval_s`` in a thread of its own.

    Use as a context manager; the first reading is taken on entry and the last on exit, so that
    counters always have a before and an after.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        interval_s: float,
        memory: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Watch ``endpoint``; ``memory`` returns the server's resident bytes, if known."""
        self.watch = Watch(started_s=time.monotonic())
        self._endpoint, self._interval_s, self._memory = endpoint, interval_s, memory
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._read()
        self._thread.start()
        return self.watch

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._read()

    def _run(self) -> None:
        due = self.watch.started_s
        while True:
            due += self._interval_s
            if self._ended.wait(max(0.0, due - time.monotonic())):
                return
            self._read()

    def _read(self) -> None:
        try:
            self.watch.snapshots.append(scrape(self._endpoint))
        except CellFailed as failure:
            self.watch.gaps.append(str(failure))
        resident_bytes = self._memory()
        if resident_bytes:
            self.watch.memory_bytes.append(
                (time.monotonic() - self.watch.started_s, resident_bytes)
            )
