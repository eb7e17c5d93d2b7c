"""The fit rule: an exact lower bound against the device's memory, and nothing else."""

from __future__ import annotations

import pytest

from kvbench.device.spec import DeviceSpec
from kvbench.model.spec import FullLayer, ModelSpec
from kvbench.plan.fit import FitRule

#: 512 KiB per token: 32 layers, K and V, 32 heads of 128 elements of 2 bytes.
MHA = ModelSpec(name="mha", layers=(FullLayer(kv_heads=32, head_dim_k=128, head_dim_v=128),) * 32)
GIB = 2**30


def device(memory_bytes: int) -> DeviceSpec:
    return DeviceSpec(name="card", memory_bytes=memory_bytes)


def test_exactly_full_fits_and_one_byte_less_does_not() -> None:
    settings = {"context_tokens": 4096, "requests": 8}
    assert FitRule().excess(MHA, device(16 * GIB), settings) == ""
    assert FitRule().excess(MHA, device(16 * GIB - 1), settings) == (
        "8 x 4096 tokens of mha hold at least 16.00 GiB of cache on a rank, card has 16.00 GiB"
    )


@pytest.mark.parametrize(
    ("settings", "least_bytes"),
    [
        ({"context_tokens": 4096}, 2 * GIB),
        ({"tokens": 4096, "batch": 4}, 8 * GIB),
        ({"context_tokens": 4096, "kv_dtype": "fp8_e4m3"}, GIB),
        ({"context_tokens": 4096, "tp": 4}, GIB // 2),
        ({"context_tokens": 4096, "pp": 2}, GIB),
        ({"context_tokens": 4096, "tp": 64}, 2 * GIB // 32),
    ],
)
def test_the_bound_is_the_logical_bytes_of_one_rank(
    settings: dict[str, int | str], least_bytes: int
) -> None:
    rule = FitRule()
    assert rule.excess(MHA, device(least_bytes), settings) == ""
    assert rule.excess(MHA, device(least_bytes - 1), settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"requests": 1000},
        {"context_tokens": "4096"},
        {"context_tokens": 4096, "kv_dtype": "of another engine"},
        {"context_tokens": 4096, "pp": 33},
    ],
)
def test_what_has_no_bound_is_left_to_the_engine(settings: dict[str, int | str]) -> None:
    assert FitRule().excess(MHA, device(1), settings) == ""


def test_the_most_memory_that_any_driver_leaves_counts() -> None:
    card = DeviceSpec(name="card", memory_bytes=GIB, memory_high_bytes=2 * GIB)
    assert FitRule().excess(MHA, card, {"context_tokens": 4096}) == ""
    assert FitRule().excess(MHA, card, {"context_tokens": 4097})


def test_without_model_or_device_there_is_nothing_to_fit() -> None:
    settings = {"context_tokens": 4096}
    assert FitRule().excess(None, device(1), settings) == ""
    assert FitRule().excess(MHA, None, settings) == ""


def test_models_are_not_confused() -> None:
    rule = FitRule()
    small = ModelSpec(name="s", layers=(FullLayer(kv_heads=1, head_dim_k=1, head_dim_v=1),))
    assert rule.excess(MHA, device(GIB), {"context_tokens": 4096})
    assert rule.excess(small, device(GIB), {"context_tokens": 4096}) == ""
