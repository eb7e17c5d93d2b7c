"""The driver's figures, from a fake library: units, nulls, processes, slowdowns, MIG."""

from __future__ import annotations

import ctypes

import pytest

from kvbench_triton.nvml import DeviceState, Nvml, state_warnings

GIB = 2**30


class FakeLibrary:
    """``libnvidia-ml`` for devices by UUID; ``missing`` functions are not there."""

    def __init__(self, missing: tuple[str, ...] = (), init: int = 0) -> None:
        self.devices = {"GPU-a": 1, "GPU-b": 2, "MIG-c": 3}
        self.used = {1: 10 * GIB, 2: 20 * GIB, 3: 3 * GIB}
        self.processes: list[tuple[int, int]] = [(100, GIB), (200, 2**64 - 1)]
        self.reasons = 0
        self.missing, self.init = missing, init

    def __getattribute__(self, name: str):
        if name.startswith("nvml") and name in object.__getattribute__(self, "missing"):
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def nvmlInit_v2(self) -> int:  # noqa: N802
        return self.init

    def nvmlDeviceGetHandleByUUID(self, uuid, handle) -> int:  # noqa: N802
        if uuid.decode() not in self.devices:
            return 6
        handle._obj.value = self.devices[uuid.decode()]
        return 0

    def nvmlDeviceGetMemoryInfo_v2(self, handle, memory) -> int:  # noqa: N802
        info = memory._obj
        assert info.version == ctypes.sizeof(info) | 2 << 24
        info.total, info.reserved, info.used = 80 * GIB, GIB, self.used[handle.value]
        return 0

    def nvmlDeviceGetComputeRunningProcesses_v3(self, handle, count, rows) -> int:  # noqa: N802
        if rows is None or count._obj.value < len(self.processes):
            count._obj.value = len(self.processes)
            return 7 if self.processes else 0
        count._obj.value = len(self.processes)
        for row, (pid, used) in zip(rows, self.processes, strict=False):
            row.pid, row.used = pid, used
        return 0

    def nvmlDeviceGetClockInfo(self, handle, which, value) -> int:  # noqa: N802
        value._obj.value = {1: 1755, 2: 3201}[which]
        return 0

    def nvmlDeviceGetPowerUsage(self, handle, value) -> int:  # noqa: N802
        value._obj.value = 412_500
        return 0

    def nvmlDeviceGetTemperature(self, handle, sensor, value) -> int:  # noqa: N802
        assert sensor == 0
        value._obj.value = 61
        return 0

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle, value) -> int:  # noqa: N802
        value._obj.value = self.reasons
        return 0


def read(uuid: str, library: FakeLibrary) -> DeviceState:
    return Nvml(uuid, load=lambda name: library).read()


def test_units():
    state = read("GPU-a", FakeLibrary())
    assert (state.used_bytes, state.reserved_bytes, state.total_bytes) == (10 * GIB, GIB, 80 * GIB)
    assert (state.sm_clock_hz, state.memory_clock_hz) == (1_755_000_000, 3_201_000_000)
    assert (state.power_w, state.temperature_c) == (412.5, 61)
    assert state.slowdowns == ()


@pytest.mark.parametrize(("uuid", "used"), [("a", 10), ("b", 20), ("GPU-b", 20), ("MIG-c", 3)])
def test_device_is_found_by_uuid_and_not_by_index(uuid, used):
    assert read(uuid, FakeLibrary()).used_bytes == used * GIB


def test_processes_and_bytes_not_told():
    state = read("GPU-a", FakeLibrary())
    assert state.processes == {100: GIB, 200: None}
    assert (state.process_bytes(100), state.process_bytes(200)) == (GIB, None)
    assert state.foreign(100) == 1


def test_foreign_pids_of_a_container_are_no_guess():
    state = read("GPU-a", FakeLibrary())
    assert state.process_bytes(7) is None
    assert state.foreign(7) is None


@pytest.mark.parametrize("uuid", ["GPU-none", ""])
def test_unknown_device_leaves_everything_unknown(uuid):
    assert read(uuid, FakeLibrary()) == DeviceState()


def test_missing_library_and_failed_start_leave_everything_unknown():
    def missing(name: str):
        raise OSError(name)

    nvml = Nvml("GPU-a", load=missing)
    assert not nvml.available
    assert nvml.read() == DeviceState()
    assert read("GPU-a", FakeLibrary(init=9)) == DeviceState()


def test_functions_an_older_driver_lacks_are_unknown_and_the_rest_known():
    lacks = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetMemoryInfo_v2")
    state = read("GPU-a", FakeLibrary(missing=lacks))
    assert (state.slowdowns, state.used_bytes, state.reserved_bytes) == (None, None, None)
    assert state.power_w == 412.5


def test_slowdowns_and_other_processes_become_warnings():
    library = FakeLibrary()
    calm = read("GPU-a", library)
    library.reasons = 0x04 | 0x40 | 0x01
    hot = read("GPU-a", library)
    assert hot.slowdowns == ("software power cap", "hardware thermal slowdown")
    assert state_warnings(calm, calm, pid=7) == ()
    slowed, shared = state_warnings(calm, hot, pid=100)
    assert slowed == "the device was slowed down: hardware thermal slowdown, software power cap"
    assert shared == "1 other compute processes were on the device"
