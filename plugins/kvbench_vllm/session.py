"""One engine configuration of a suite: started when a cell first needs it, and only one way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from kvbench.engine import EngineConfig
from kvbench_vllm.server import Server, attach, serve

if TYPE_CHECKING:
    from kvbench_vllm.in_process import InProcessEngine


class VllmSession:
    """The live engine behind a configuration.

    A configuration runs in this process (stages ``size`` and ``allocate``) or as a server
    (stage ``measure``), never both at once: each would take the memory of the other.
    """

    def __init__(self, config: EngineConfig) -> None:
        """Remember ``config``; nothing starts yet."""
        self.config = config
        self._stack = ExitStack()
        self._engine: InProcessEngine | None = None
        self._server: Server | None = None

    def in_process(self) -> InProcessEngine:
        """The engine in this process, started when it is not there yet."""
        if self._engine is None:
            from kvbench_vllm.in_process import open_engine

            self.close()
            self._engine = self._stack.enter_context(open_engine(self.config))
        return self._engine

    def server(self) -> Server:
        """The server, started when it is not there yet, or the attached one."""
        if self._server is None:
            self.close()
            url = self.config.settings.get("url")
            self._server = (
                attach(str(url)) if url else self._stack.enter_context(serve(self.config))
            )
        return self._server

    def close(self) -> None:
        """Stop whatever runs."""
        self._engine = self._server = None
        self._stack.close()
        self._stack = ExitStack()


@contextmanager
def open_session(config: EngineConfig) -> Iterator[VllmSession]:
    """Yield the session of ``config`` and stop its engine afterwards."""
    session = VllmSession(config)
    try:
        yield session
    finally:
        session.close()
