"""The stages as on a device, with a fake one: figures are injected, the kernels interpreted."""

from __future__ import annotations

import os

import pytest
import torch

from kvbench.engine import Cell, Evidence, Stage
from kvbench.errors import CellFailed
from kvbench.model.spec import FullLayer, ModelSpec
from kvbench_triton import plugin
from kvbench_triton.backend import CUDA, Backend
from kvbench_triton.ceilings import Ceilings
from kvbench_triton.config import CPU
from kvbench_triton.nvml import DeviceState
from kvbench_triton.session import Session

LAYER = FullLayer(kv_heads=2, head_dim_k=64, head_dim_v=64)
MODEL = ModelSpec(name="tiny", layers=(LAYER, LAYER), query_heads=4, dtype="bf16")


class FakeRuntime:
    """Runs each launch, and says it took a second."""

    def capture(self, launches):
        def replay() -> float:
            for launch in launches:
                launch()
            return float(len(launches))

        return replay


class FakeNvml:
    """A hot device that somebody else uses too."""

    def read(self) -> DeviceState:
        return DeviceState(
            used_bytes=10**9,
            processes={os.getpid(): 10**8, 1: None},
            slowdowns=("hardware thermal slowdown",),
        )


def session_with(memory_bytes: int = 10**9) -> Session:
    session = Session("auto")
    session.__dict__ |= {
        "backend": Backend(
            name=CUDA,
            device="cpu",
            target=CPU,
            product="Fake GPU",
            memory_bytes=memory_bytes,
            l2_bytes=30_000,
        ),
        "runtime": FakeRuntime(),
        "nvml": FakeNvml(),
        "ceilings": Ceilings(copy_bytes_per_s=1e6, read_bytes_per_s=2e6),
    }
    return session


def make_cell(stage: Stage, **settings) -> Cell:
    options = plugin.kvbench_engine().options
    values = {o.name: o.default for o in options if o.default is not None}
    return Cell(
        cell_id="c",
        ordinal=0,
        benchmark="b",
        stage=stage,
        engine="triton",
        plugin="triton",
        axes={},
        settings=values | {"cached_tokens": 40, "sequences": 2, "replays": 3} | settings,
        model=MODEL,
        seed=1,
    )


def test_measure_reports_bandwidth_against_both_ceilings():
    output = plugin.kvbench_measure(make_cell(Stage.MEASURE), session_with())
    values = {o.metric: o.value for o in output.observations if o.evidence is Evidence.DEVICE}
    moved = next(o.value for o in output.observations if o.metric == "moved_bytes")
    assert [o.value for o in output.observations if o.metric == "decode_s"] == [1.0] * 3
    assert values["moved_bytes_per_s"] == moved
    assert values["of_copy_ratio"] == pytest.approx(moved / 1e6)
    assert values["of_read_ratio"] == pytest.approx(moved / 2e6)
    assert values["measured_floor_s"] == pytest.approx(moved / 2e6)
    assert output.invalid == ""
    assert any("thermal" in warning for warning in output.warnings)
    assert any("1 other compute processes" in warning for warning in output.warnings)


def test_allocate_reads_every_level(monkeypatch):
    stats = {
        "reserved_bytes.all.current": 9 * 10**7,
        "allocated_bytes.all.current": 8 * 10**7,
        "requested_bytes.all.current": 7 * 10**7,
    }
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: stats)
    output = plugin.kvbench_allocate(make_cell(Stage.ALLOCATE, layers=0), session_with())
    device = [o for o in output.observations if o.evidence is Evidence.DEVICE]
    assert {o.metric for o in device} == {
        "device_used_bytes",
        "process_used_bytes",
        "reserved_bytes",
        "allocated_bytes",
        "requested_bytes",
    }
    assert "unchanged: device, process, reserved, allocated, requested" in output.assumptions[0]
    assert "allocated once and stays allocated" in output.assumptions[0]
    assert output.warnings == ()


@pytest.mark.parametrize("stage", [Stage.ALLOCATE, Stage.MEASURE])
def test_cache_larger_than_the_device_is_out_of_memory(stage, monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_stats", dict)
    call = {Stage.ALLOCATE: plugin.kvbench_allocate, Stage.MEASURE: plugin.kvbench_measure}[stage]
    with pytest.raises(CellFailed, match="Fake GPU has 1000; fewer sequences") as failed:
        call(make_cell(stage), session_with(memory_bytes=1000))
    assert failed.value.reason == "oom"
