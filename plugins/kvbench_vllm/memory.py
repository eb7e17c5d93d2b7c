"""Memory of the engine's process and device, as the operating system and driver see it."""

from __future__ import annotations

from pathlib import Path


def process_bytes() -> int:
    """Resident bytes of this process (``VmRSS`` of ``/proc/self/status``), 0 where unknown."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
    except OSError:
        return 0
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def device_bytes() -> int | None:
    """Bytes in use on the current CUDA device, ``None`` without one."""
    import torch

    if not torch.cuda.is_available():
        return None
    free_bytes, total_bytes = torch.cuda.mem_get_info()
    return int(total_bytes - free_bytes)
