"""The two ceilings that a measured bandwidth is held against, measured in the same run.

Copy reads and writes; decode almost only reads, so the read-only ceiling is the one it can
approach, and more than 100 % of copy is possible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from kvbench_triton.kernels.transfer import stream_copy, stream_read
from kvbench_triton.timing import L2_MULTIPLE, Runtime, rotation, time_launches

#: Bytes of one buffer; large enough that launch and tail do not count.
BUFFER_BYTES = 512 * 2**20
_WORDS, _TILES = 2048, 16
_REPLAYS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """Measured bandwidths of a device, bytes per second.

    Attributes:
        copy_bytes_per_s: Bytes read plus bytes written.
        read_bytes_per_s: Bytes read.
    """

    copy_bytes_per_s: float
    read_bytes_per_s: float


def measure_ceilings(
    runtime: Runtime, device: str, l2_bytes: int, buffer_bytes: int = BUFFER_BYTES
) -> Ceilings:
    """Measure both on buffers that together exceed four times the L2 cache."""
    count = max(2, rotation(buffer_bytes, l2_bytes))
    buffers = [
        torch.zeros(buffer_bytes // 4, dtype=torch.int32, device=device) for _ in range(count)
    ]
    assert count * buffer_bytes >= L2_MULTIPLE * l2_bytes
    copies = [copy_launch(buffers[i - 1], buffers[i]) for i in range(count)]
    reads = [read_launch(buffer) for buffer in buffers]
    copy_s = time_launches(runtime, copies, _REPLAYS).median_s
    read_s = time_launches(runtime, reads, _REPLAYS).median_s
    return Ceilings(
        copy_bytes_per_s=2 * buffer_bytes / copy_s, read_bytes_per_s=buffer_bytes / read_s
    )


def copy_launch(destination: torch.Tensor, source: torch.Tensor) -> Callable[[], None]:
    """A launch that copies ``source`` [words] int32 to ``destination``."""
    words = source.numel()
    grid = (-(-words // _WORDS),)
    return lambda: stream_copy[grid](destination, source, words, WORDS=_WORDS)


def read_launch(source: torch.Tensor) -> Callable[[], None]:
    """A launch that reads ``source`` [words] int32 and keeps one sum per program."""
    words = source.numel()
    grid = (-(-words // (_WORDS * _TILES)),)
    sums = torch.empty(grid, dtype=torch.int32, device=source.device)
    return lambda: stream_read[grid](sums, source, words, WORDS=_WORDS, TILES=_TILES)
