"""The budget: terms by hand, intervals that hold, terms that users state."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvbench.device.budget import Budget, make_budget
from kvbench.device.catalog import DEVICES, load_device
from kvbench.device.conditions import Conditions, parse_version, step_defaults
from kvbench.device.estimate import Estimate, minus
from kvbench.device.spec import DeviceSpec
from kvbench.device.terms import activation_term, graph_count, graphs_term
from kvbench.errors import DeviceError, ModelError
from kvbench.model.load import load_model
from kvbench.model.spec import FullLayer, ModelSpec, Widths

from ..conftest import shared_path

GIB = 2**30


def conditions(name: str = "h100-80g", **changes: Any) -> Conditions:
    return Conditions(device=load_device(name), **changes)


def small(**changes: Any) -> ModelSpec:
    values: dict[str, Any] = {
        "name": "small",
        "layers": (FullLayer(kv_heads=2, head_dim_k=64, head_dim_v=64),),
        "hidden_size": 1024,
        "weight_bytes": 10**9,
        "weight_source": "stated",
        "widths": Widths(vocabulary=32_000, inner=4096),
    }
    return ModelSpec(**values | changes)


def test_the_public_run_on_an_rtx_4090() -> None:
    """2,588 blocks of 2 MiB: inside the interval, by the run's own release and by the latest."""
    run = json.loads(shared_path("truth/gpu_run/RTX4090_Llama-3.1-8B.meta.json").read_text())
    blocks = run["kv_cache"]["num_gpu_blocks"]
    model = load_model("Llama-3.1-8B")
    for version in ((0, 19), (0, 32)):
        budget = make_budget(
            model,
            conditions("rtx-4090", utilization=0.9, tokens=2048, sequences=256, version=version),
        )
        low, high = budget.kv_bytes.low // 2**21, budget.kv_bytes.high // 2**21
        assert low <= blocks <= high
        assert high - low < blocks / 2


@pytest.mark.parametrize(
    ("name", "tp", "logged_gib"),
    [("Llama-3.1-8B", 1, 58.11), ("Llama-3.1-8B", 2, 63.76), ("Qwen2.5-7B", 1, 58.53)],
)
def test_public_pools_on_an_h100(name: str, tp: int, logged_gib: float) -> None:
    """llm-d-planner's accuracy report: vLLM 0.19 at utilization 0.95; to 0.5 %."""
    at = conditions(utilization=0.95, tp=tp, version=(0, 19))
    size = make_budget(load_model(name), at).kv_bytes
    assert size.low <= logged_gib * GIB <= size.high
    assert size.expected / GIB == pytest.approx(logged_gib, rel=0.005)


def test_sampler_of_many_logits_by_hand() -> None:
    size = activation_term(small(), conditions(tokens=2048, sequences=1024)).size
    assert size.expected == round(1024 * 32_000 * 14.8 + 2048 * 1024 * 2)
    assert size.low == round(0.9 * size.expected)


def test_feed_forward_layer_by_hand() -> None:
    at = conditions(tokens=16384, sequences=8, tp=2)
    size = activation_term(small(), at).size
    assert size.expected == 16384 * 2 * (3 * 4096 // 2 + 4 * 1024)


def test_experts_hold_their_workspace_throughout() -> None:
    widths = Widths(vocabulary=32_000, experts_per_token=4, expert_inner=512)
    at = conditions(tokens=2048, sequences=1024)
    dense = activation_term(small(), at).size.expected
    routed = activation_term(small(widths=widths), at).size.expected
    assert routed - dense == 2048 * 4 * 2 * (1024 + 512)


def test_more_tokens_a_step_never_need_less() -> None:
    sizes = [
        activation_term(small(), conditions(tokens=tokens)).size.expected
        for tokens in (512, 2048, 8192, 32768)
    ]
    assert sizes == sorted(sizes)


def test_graphs_by_the_default_capture_sizes() -> None:
    # 51 sizes up to 512, 35 of them up to 256: as the log of the public run has it.
    assert graph_count(256, 2048) == 51 + 35
    assert graph_count(128, 8192) == 35 + 19
    assert graph_count(8, 8192) == 5 + 4
    assert graphs_term(small(), conditions(eager=True)).size == Estimate.exactly(0)
    assert graphs_term(small(), conditions(version=(0, 19))).size == Estimate.exactly(0)
    assert graphs_term(small(), conditions()).size.expected > 0


@pytest.mark.parametrize(
    ("device", "step"),
    [
        ("h100-80g", (8192, 1024)),
        ("a100-80g", (2048, 256)),
        ("rtx-4090", (2048, 256)),
        ("b200", (16384, 1024)),
        ("mi300x", (16384, 1024)),
        ("rtx-pro-6000", (8192, 1024)),
    ],
)
def test_defaults_of_a_step(device: str, step: tuple[int, int]) -> None:
    assert step_defaults(DEVICES[device]) == step


def test_stated_terms_replace_the_estimates() -> None:
    """Public report vllm#21489: 160.53 − 8.58 − 9.96 − 0.07 − 0.65 GiB − 150 MiB of slack."""
    device = DeviceSpec(name="mine", memory_bytes=round(160.53 * GIB))
    stated = {
        "weights": round(8.58 * GIB),
        "activation": round(9.96 * GIB),
        "non_torch": round(0.07 * GIB),
        "graphs": round(0.65 * GIB),
        "safety": 150 * 2**20,
    }
    budget = make_budget(small(), Conditions(device=device, utilization=1.0), stated)
    assert budget.kv_bytes.low == budget.kv_bytes.high
    assert budget.kv_bytes.expected == pytest.approx(151_519_866_880, abs=0.02 * GIB)
    assert {term.kind for term in budget.terms} == {"stated"}


def test_an_unknown_term_is_refused() -> None:
    with pytest.raises(DeviceError, match="no term 'cache'"):
        make_budget(small(), conditions(), {"cache": 1})


def test_unknown_weights_are_refused_with_their_reason() -> None:
    model = small(weight_bytes=None, weight_source="not known: no formula")
    with pytest.raises(ModelError, match="no formula; state them"):
        make_budget(model, conditions())
    assert make_budget(model, conditions(), {"weights": 5}).kv_bytes.expected > 0


@pytest.mark.parametrize(
    "changes", [{"utilization": 0.0}, {"utilization": 1.01}, {"tp": 0}, {"tokens": 0}]
)
def test_impossible_conditions(changes: dict[str, Any]) -> None:
    with pytest.raises(DeviceError):
        conditions(**changes)


@pytest.mark.parametrize("text", ["", "32", "x.y", "0.x", "٠.٣"])
def test_what_is_no_version(text: str) -> None:
    with pytest.raises(DeviceError):
        parse_version(text)


def test_versions() -> None:
    assert parse_version("v0.19.0") == (0, 19)
    assert parse_version("0.28.1rc1.dev701") == (0, 28)


def totals(budget: Budget) -> tuple[int, int, int]:
    size = budget.kv_bytes
    return size.low, size.expected, size.high


@given(
    st.integers(1, 80 * GIB),
    st.floats(0.1, 1.0),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 32768),
)
def test_budgets_are_in_order_and_complete(
    weights: int, utilization: float, tp: int, tokens: int
) -> None:
    at = conditions(utilization=utilization, tp=tp, tokens=tokens, sequences=min(256, tokens))
    budget = make_budget(small(weight_bytes=weights), at)
    low, middle, high = totals(budget)
    assert low <= middle <= high
    used = sum(term.size.expected for term in budget.terms)
    assert middle == budget.requested.expected - used
    assert all(term.provenance for term in budget.terms)


def test_doubts_are_added_in_quadrature() -> None:
    total = Estimate.exactly(100)
    parts = [Estimate(low=7, expected=10, high=13), Estimate(low=16, expected=20, high=24)]
    assert minus(total, parts) == Estimate(low=65, expected=70, high=75)
    with pytest.raises(ValueError, match="not in order"):
        Estimate(low=2, expected=1, high=3)
