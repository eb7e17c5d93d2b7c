"""Memory of the engine's process and device, as the operating system and driver see it."""

from __future__ import annotations

import os
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


def group_bytes(group: int) -> int | None:
    """Resident bytes of all processes of a process group, ``None`` where unknown.

    Pages that the processes share are counted once for each of them.
    """
    pages = sum(_resident_pages(entry) for entry in _group_members(group))
    return pages * os.sysconf("SC_PAGE_SIZE") or None


def _group_members(group: int) -> list[Path]:
    return [entry for entry in Path("/proc").glob("[0-9]*") if _group_of(entry) == group]


def _group_of(process: Path) -> int | None:
    try:
        # The command name is in parentheses and may hold spaces; pgrp is the third after it.
        fields = (process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return int(fields[2])
    except (OSError, ValueError, IndexError):
        return None


def _resident_pages(process: Path) -> int:
    try:
        return int((process / "statm").read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0
