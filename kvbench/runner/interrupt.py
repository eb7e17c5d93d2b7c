"""Ctrl-C and SIGTERM ask a run to stop; they do not tear it apart."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """While entered, remembers that the user asked to stop.

    Outside the main thread, where Python handles no signals, it never says so.
    """

    def __init__(self) -> None:
        self.asked = False
        self._previous: dict[signal.Signals, Callable[..., Any] | int | None] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._ask) for number in _SIGNALS}
        return self

    def __exit__(self, *exc_info: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
