"""Under which conditions a budget is made: the device, the ranks, and what the engine was told."""

from __future__ import annotations

from dataclasses import dataclass

from kvbench.device.spec import DeviceSpec
from kvbench.errors import DeviceError

_GIB = 2**30
#: (device memory from, tokens of one step, sequences of one step) of an API server.
_DEFAULTS = ((160 * _GIB, 16384, 1024), (70 * _GIB, 8192, 1024), (0, 2048, 256))
_LATEST = (0, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What the terms of a budget depend on.

    Attributes:
        device: The accelerator; all ranks have the same.
        utilization: Share of the device's memory that the engine may use.
        tp: Tensor-parallel ranks.
        pp: Pipeline stages.
        tokens: Tokens one step may schedule (``max_num_batched_tokens``).
        sequences: Requests one step may schedule (``max_num_seqs``).
        eager: No graphs are captured.
        version: Release of the engine whose accounting is mirrored, as (major, minor).
    """

    device: DeviceSpec
    utilization: float = 0.92
    tp: int = 1
    pp: int = 1
    tokens: int = 8192
    sequences: int = 1024
    eager: bool = False
    version: tuple[int, int] = _LATEST

    def __post_init__(self) -> None:
        if not 0 < self.utilization <= 1:
            raise DeviceError(f"utilization is above 0 and at most 1, got {self.utilization}")
        for name in ("tp", "pp", "tokens", "sequences"):
            if getattr(self, name) < 1:
                raise DeviceError(f"{name} is at least 1, got {getattr(self, name)}")


def step_defaults(device: DeviceSpec) -> tuple[int, int]:
    """Tokens and sequences of one step that an API server on ``device`` starts with.

    The board's memory decides; the A100 keeps the smaller defaults whatever its memory.
    """
    memory = max(device.memory_bytes, device.board_bytes)
    if device.name.startswith("a100"):
        memory = 0
    for least, tokens, sequences in _DEFAULTS:
        if memory >= least:
            return tokens, sequences
    return _DEFAULTS[-1][1:]


def parse_version(text: str) -> tuple[int, int]:
    """Read ``0.19.0`` or ``0.19`` as (0, 19).

    Raises:
        DeviceError: Not a version.
    """
    parts = text.strip().removeprefix("v").split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts[:2]):
        raise DeviceError(f"expected a version such as 0.32.0, got {text!r}")
    return int(parts[0]), int(parts[1])
