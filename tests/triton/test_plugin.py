"""The plugin as the runner sees it, on a machine without torch or without a device."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from kvbench.device.spec import DeviceSpec
from kvbench.engine import Cell, EngineConfig, Evidence, Stage
from kvbench.errors import EngineUnavailable
from kvbench.model.spec import FullLayer, ModelSpec
from kvbench_triton import backend, installed, plugin
from kvbench_triton.scenario import draw_lengths
from kvbench_triton.size import known_target

MODEL = ModelSpec(
    name="llama",
    layers=(FullLayer(kv_heads=8, head_dim_k=128, head_dim_v=128),) * 2,
    query_heads=32,
)
DEVICE = DeviceSpec(
    name="h200",
    memory_bytes=140 * 2**30,
    bandwidth_bytes_per_s=4_800_000_000_000,
    flops_per_s=989 * 10**12,
)
INFO = plugin.kvbench_engine()


def make_cell(stage: Stage = Stage.SIZE, **settings) -> Cell:
    values = {o.name: o.default for o in INFO.options if o.default is not None}
    return Cell(
        cell_id="c",
        ordinal=0,
        benchmark="b",
        stage=stage,
        engine="triton",
        plugin="triton",
        axes={},
        settings=values | {"cached_tokens": 8192, "sequences": 64} | settings,
        model=MODEL,
        device=DEVICE,
        seed=5,
    )


def values_of(output) -> dict[str, float]:
    return {o.metric: o.value for o in output.observations}


def test_floor_of_a_known_step():
    found = values_of(plugin.kvbench_size(make_cell(), None))
    # 64 x 8192 tokens x 4096 bytes, and the floor of everything moved at 4.8 TB/s.
    assert found["kv_read_bytes"] == 2147483648
    assert found["floor_s"] == pytest.approx(found["moved_bytes"] / 4.8e12)
    assert 4.4e-4 < found["floor_s"] < 4.6e-4
    assert found["used_blocks"] == 64 * 512


def test_predictions_are_analytic_and_registered():
    registered = {(m.name, m.evidence) for m in plugin.kvbench_metrics()}
    output = plugin.kvbench_size(make_cell(), None)
    assert {o.evidence for o in output.observations} == {Evidence.ANALYTIC}
    assert {(o.metric, o.evidence) for o in output.observations} <= registered


def test_without_a_device_no_floor_is_made_up():
    cell = make_cell()
    from dataclasses import replace

    assert "floor_s" not in values_of(plugin.kvbench_size(replace(cell, device=None), None))


@pytest.mark.parametrize("stage", [Stage.ALLOCATE, Stage.MEASURE])
def test_without_torch_cells_are_unsupported_with_a_remedy(stage, monkeypatch):
    monkeypatch.setattr(installed, "missing", lambda: "torch is not installed")
    config = EngineConfig(engine="triton", plugin="triton", settings={"backend": "auto"})
    call = {Stage.ALLOCATE: plugin.kvbench_allocate, Stage.MEASURE: plugin.kvbench_measure}[stage]
    with plugin.kvbench_open(config) as session, pytest.raises(EngineUnavailable) as refused:
        call(make_cell(stage), session)
    assert refused.value.reason == "torch is not installed"
    assert refused.value.remedy == "pip install 'kvbench[triton]'"


@pytest.mark.parametrize(
    ("present", "versions", "problem"),
    [
        ((), {}, "torch is not installed"),
        (("torch",), {"torch": "2.13.0"}, "triton is not installed"),
        (
            ("torch", "triton"),
            {"torch": "2.1.0", "triton": "3.9.0"},
            "torch 2.1.0 is older than 2.6",
        ),
        (("torch", "triton"), {"torch": "2.13.0+cpu", "triton": "3.9.0"}, ""),
    ],
)
def test_what_is_missing(present, versions, problem, monkeypatch):
    monkeypatch.setattr(
        installed.importlib.util, "find_spec", lambda name: name if name in present else None
    )
    monkeypatch.setattr(installed, "version", lambda name: versions.get(name, ""))
    assert installed.missing() == problem


def properties(**changes):
    values = {
        "name": "NVIDIA H200",
        "major": 9,
        "minor": 0,
        "multi_processor_count": 132,
        "total_memory": 150_000_000_000,
        "L2_cache_size": 62_914_560,
        "uuid": "a-b",
    }
    return SimpleNamespace(**values | changes)


def test_device_of_torch(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = backend.from_properties(backend.CUDA, properties())
    assert (found.target.family, found.target.native_fp8, found.uuid) == ("sm_90", True, "a-b")
    assert found.on_device
    assert found.evidence is Evidence.DEVICE
    ada = backend.from_properties(backend.CUDA, properties(major=8, minor=9))
    assert (ada.target.family, ada.target.native_fp8) == ("sm_80", True)


def test_mig_instance_is_known_by_its_own_uuid(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-123,GPU-9")
    assert backend.from_properties(backend.CUDA, properties()).uuid == "MIG-123"


def test_old_device_is_refused():
    with pytest.raises(EngineUnavailable, match=r"7\.0 is too old"):
        backend.from_properties(backend.CUDA, properties(major=7, minor=0))


def test_rocm_device():
    found = backend.from_properties(backend.ROCM, properties(gcnArchName="gfx942:sramecc+:xnack-"))
    assert (found.name, found.target.family, found.target.native_fp8) == ("rocm", "gfx942", False)


def test_lengths_spread_evenly_around_the_asked_one():
    lengths = draw_lengths(make_cell(sequences=4, cached_tokens=1000, length_spread=0.5))
    assert sorted(lengths) == [625, 875, 1125, 1375]
    assert draw_lengths(make_cell(sequences=2, cached_tokens=7)) == (7, 7)


def test_catalog_devices_have_targets():
    assert known_target("h100-80g").multiprocessors == 132
    assert known_target("mi300x").family == "gfx942"
    assert known_target("rtx-4090") is None


def test_hooks_import_no_engine():
    code = (
        "import sys, kvbench_triton.plugin as p; p.kvbench_engine(); p.kvbench_metrics();"
        "print([m for m in ('torch', 'triton', 'numpy', 'pandas') if m in sys.modules])"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
