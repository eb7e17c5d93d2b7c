"""The device catalog: totals, names, tables, and refusals in one clear line."""

from __future__ import annotations

import json

import pytest

from kvbench.device.catalog import DEVICES, load_device
from kvbench.errors import DeviceError

from ..conftest import shared_path

GIB = 2**30


def test_every_card_in_use_is_listed() -> None:
    wanted = {
        "a100-40g", "a100-80g", "h100-80g", "h100-nvl", "h200", "b200", "b300", "gh200-96g", "l4",
        "l40s", "a10", "rtx-4090", "rtx-5090", "rtx-pro-6000", "mi300x", "mi325x", "mi355x",
    }  # fmt: skip
    assert wanted <= set(DEVICES)


@pytest.mark.parametrize("name", DEVICES)
def test_figures_are_whole_and_sourced(name: str) -> None:
    device = DEVICES[name]
    low, usual, high = device.memory_interval
    assert low <= usual <= high
    assert device.bandwidth_bytes_per_s > 10**11
    assert device.flops_per_s > 10**13
    assert (
        "datasheet" in device.source
        or "whitepaper" in device.source
        or "brief" in (device.source)
        or "data sheet" in device.source
    )
    assert device.board_bytes == 0 or device.board_bytes >= device.memory_bytes


@pytest.mark.parametrize(
    "name", [name for name, device in DEVICES.items() if device.fp8_flops_per_s]
)
def test_fp8_is_twice_bf16(name: str) -> None:
    """Of every architecture in the catalog that states both, to the data sheets' rounding."""
    device = DEVICES[name]
    assert device.fp8_flops_per_s == pytest.approx(2 * device.flops_per_s, rel=0.015)


def test_a_process_is_told_less_than_the_board_has() -> None:
    assert DEVICES["h100-80g"].board_bytes == 81559 * 2**20
    assert DEVICES["h100-80g"].memory_bytes / GIB == pytest.approx(79.19, abs=0.005)


def test_the_4090_is_known_to_the_byte() -> None:
    run = json.loads(shared_path("truth/gpu_run/RTX4090_Llama-3.1-8B.meta.json").read_text())
    assert load_device("rtx-4090").memory_bytes == run["hardware"]["device_total_memory_bytes"]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA H100 80GB HBM3", "h100-80g"),
        ("H100", "h100-80g"),
        ("A100 80GB", "a100-80g"),
        ("NVIDIA A100-SXM4-40GB", "a100-40g"),
        ("AMD Instinct MI300X", "mi300x"),
        ("rtx_pro_6000", "rtx-pro-6000"),
    ],
)
def test_common_names(said: str, meant: str) -> None:
    assert load_device(said).name == meant


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("h2000", "did you mean 'h200'?"),
        ("A100", "choose a100-40g or a100-80g"),
        ("tpu", "known: "),
    ],
)
def test_unknown_names_say_what_is_near(name: str, message: str) -> None:
    with pytest.raises(DeviceError, match="no device") as caught:
        load_device(name)
    assert message in str(caught.value)


def test_a_table_wins_over_the_catalog() -> None:
    device = load_device("h200", {"h200": {"memory_bytes": "80GiB", "source": "ours"}})
    assert (device.memory_bytes, device.source) == (80 * GIB, "ours")
    assert device.memory_interval == (80 * GIB, 80 * GIB, 80 * GIB)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "memory_bytes is missing"),
        ({"memory": 5}, "unknown key 'memory'; did you mean 'memory_bytes'?"),
        ({"memory_bytes": 0}, "between 1 and"),
        ({"memory_bytes": -5}, "not negative"),
        ({"memory_bytes": True}, "expected a size"),
        ({"memory_bytes": 1.5}, "expected a size"),
        ({"memory_bytes": "80 elephants"}, "expected a size"),
        ({"memory_bytes": "9999999TiB"}, "between 1 and"),
        ({"memory_bytes": 1, "bandwidth_bytes_per_s": float("nan")}, "bandwidth_bytes_per_s"),
        ({"memory_bytes": 1, "flops_per_s": "fast"}, "flops_per_s"),
        ({"memory_bytes": 1, "source": 5}, "source must be a string"),
    ],
)
def test_bad_tables_name_the_key(table: dict[str, object], message: str) -> None:
    with pytest.raises(DeviceError, match="device 'mine': ") as caught:
        load_device("mine", {"mine": table})
    assert message in str(caught.value)
