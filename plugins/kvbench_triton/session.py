"""The live engine: one backend, its ceilings and its driver handle, each opened when needed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from kvbench.engine import EngineConfig
from kvbench_triton.backend import AUTO, Backend, open_backend
from kvbench_triton.nvml import Nvml

if TYPE_CHECKING:
    from kvbench_triton.ceilings import Ceilings
    from kvbench_triton.timing import Runtime


class Session:
    """What cells of one configuration share.

    Nothing is imported or measured before a stage asks, so that predictions work without torch.
    """

    def __init__(self, backend_name: str) -> None:
        self._backend_name = backend_name

    @cached_property
    def backend(self) -> Backend:
        """The backend.

        Raises:
            EngineUnavailable: It cannot run here.
        """
        return open_backend(self._backend_name)

    def require_backend(self) -> None:
        """Refuse before anything heavy is imported.

        Raises:
            EngineUnavailable: The backend cannot run here.
        """
        assert self.backend

    @cached_property
    def nvml(self) -> Nvml:
        """The driver's view of the device."""
        return Nvml(self.backend.uuid)

    @cached_property
    def runtime(self) -> Runtime:
        """The device's graphs and events."""
        from kvbench_triton.cuda_runtime import CudaRuntime

        return CudaRuntime()

    @cached_property
    def ceilings(self) -> Ceilings:
        """Copy and read-only bandwidth, measured once per session."""
        from kvbench_triton.ceilings import measure_ceilings

        return measure_ceilings(self.runtime, self.backend.device, self.backend.l2_bytes)


@contextlib.contextmanager
def open_session(config: EngineConfig) -> Iterator[Session]:
    """Yield a session that has touched nothing yet; free the device's memory afterwards."""
    session = Session(str(config.settings.get("backend", AUTO)))
    yield session
    release()


def release() -> None:
    """Give the allocator's cached memory back, if torch was ever loaded."""
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
