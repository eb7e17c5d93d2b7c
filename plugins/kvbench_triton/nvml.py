"""What the NVIDIA driver says about a device, through its own library and ctypes.

No Python package is needed on a GPU machine. Anything the driver does not answer is ``None``,
never a guess; a missing library leaves everything ``None``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_GPU_TEMPERATURE = 0
_INSUFFICIENT_SIZE = 7
_NOT_AVAILABLE_BYTES = 2**64 - 1

#: Bits of the clocks' event reasons that make a timing suspect, and what they are called.
SLOWDOWNS = {
    0x04: "software power cap",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceState:
    """One look at a device; ``None`` is what the driver did not answer.

    Attributes:
        used_bytes: Device memory in use, by anyone, reserved memory apart.
        reserved_bytes: Device memory the driver keeps for itself.
        total_bytes: Device memory.
        processes: Process id to bytes (``None``: not told) of every compute process.
        sm_clock_hz: Clock of the multiprocessors.
        memory_clock_hz: Clock of the memory.
        power_w: Power drawn.
        temperature_c: Temperature of the chip.
        slowdowns: Active reasons of ``SLOWDOWNS``.
    """

    used_bytes: int | None = None
    reserved_bytes: int | None = None
    total_bytes: int | None = None
    processes: dict[int, int | None] | None = None
    sm_clock_hz: int | None = None
    memory_clock_hz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    slowdowns: tuple[str, ...] | None = None

    def process_bytes(self, pid: int) -> int | None:
        """Bytes of process ``pid``, ``None`` when the driver does not list or tell them.

        In a container the driver may list other process ids than the container's own; then
        nothing is known, even if only one process is listed.
        """
        return (self.processes or {}).get(pid)

    def foreign(self, pid: int) -> int | None:
        """How many other compute processes are on the device, ``None`` when not known."""
        if self.processes is None or pid not in self.processes:
            return None
        return len(self.processes) - 1


class _MemoryV2(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    ]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Nvml:
    """One device of the driver's library, found by its UUID.

    The index of torch is not the driver's where ``CUDA_VISIBLE_DEVICES`` hides devices. The UUID
    of a MIG instance finds the instance, whose memory is that of the instance alone.
    """

    def __init__(self, uuid: str, load: Callable[[str], Any] = ctypes.CDLL) -> None:
        self._library: Any = None
        self._handle = ctypes.c_void_p()
        try:
            library = load(_LIBRARY)
        except OSError:
            return
        if library.nvmlInit_v2() != 0:
            return
        name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
        found = library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(self._handle))
        self._library = library if found == 0 else None

    @property
    def available(self) -> bool:
        """Whether the driver answers for this device."""
        return self._library is not None

    def read(self) -> DeviceState:
        """Ask for everything once."""
        if self._library is None:
            return DeviceState()
        memory = self._memory()
        reasons = self._number("nvmlDeviceGetCurrentClocksEventReasons", ctypes.c_ulonglong)
        power = self._number("nvmlDeviceGetPowerUsage")
        return DeviceState(
            used_bytes=memory.used if memory else None,
            reserved_bytes=memory.reserved if memory else None,
            total_bytes=memory.total if memory else None,
            processes=self._processes(),
            sm_clock_hz=_scaled(self._clock(_SM_CLOCK), 10**6),
            memory_clock_hz=_scaled(self._clock(_MEMORY_CLOCK), 10**6),
            power_w=None if power is None else power / 1000,
            temperature_c=self._temperature(),
            slowdowns=None if reasons is None else _names(reasons),
        )

    def _memory(self) -> _MemoryV2 | None:
        memory = _MemoryV2(version=ctypes.sizeof(_MemoryV2) | (2 << 24))
        done = self._call("nvmlDeviceGetMemoryInfo_v2", ctypes.byref(memory))
        return memory if done == 0 else None

    def _processes(self) -> dict[int, int | None] | None:
        """Ask for the number first, then for that many, since the list may have grown."""
        count = ctypes.c_uint(0)
        name = "nvmlDeviceGetComputeRunningProcesses_v3"
        code = self._call(name, ctypes.byref(count), None)
        if code not in (0, _INSUFFICIENT_SIZE):
            return None
        if code == 0:
            return {}
        count = ctypes.c_uint(2 * count.value + 8)
        rows = (_Process * count.value)()
        if self._call(name, ctypes.byref(count), rows) != 0:
            return None
        return {
            row.pid: None if row.used == _NOT_AVAILABLE_BYTES else int(row.used)
            for row in rows[: count.value]
        }

    def _clock(self, which: int) -> int | None:
        value = ctypes.c_uint()
        done = self._call("nvmlDeviceGetClockInfo", which, ctypes.byref(value))
        return value.value if done == 0 else None

    def _temperature(self) -> int | None:
        value = ctypes.c_uint()
        done = self._call("nvmlDeviceGetTemperature", _GPU_TEMPERATURE, ctypes.byref(value))
        return value.value if done == 0 else None

    def _number(self, name: str, kind: Any = ctypes.c_uint) -> int | None:
        value = kind()
        return int(value.value) if self._call(name, ctypes.byref(value)) == 0 else None

    def _call(self, name: str, *arguments: Any) -> int:
        """Return the library's code, or -1 when this driver has no such function."""
        function = getattr(self._library, name, None)
        return -1 if function is None else int(function(self._handle, *arguments))


def _scaled(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor


def _names(reasons: int) -> tuple[str, ...]:
    return tuple(name for bit, name in SLOWDOWNS.items() if reasons & bit)


def state_warnings(before: DeviceState, after: DeviceState, *, pid: int) -> tuple[str, ...]:
    """Sentences about slowdowns and about processes other than ``pid`` on the device."""
    slowdowns = sorted({*(before.slowdowns or ()), *(after.slowdowns or ())})
    found = [f"the device was slowed down: {', '.join(slowdowns)}"] if slowdowns else []
    others = max(before.foreign(pid) or 0, after.foreign(pid) or 0)
    if others:
        found.append(f"{others} other compute processes were on the device")
    return tuple(found)
