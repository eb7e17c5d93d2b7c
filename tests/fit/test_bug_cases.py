"""Public bug reports about budgets, ranks and logs, each with its right value."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from kvbench.device.budget import make_budget
from kvbench.device.conditions import Conditions
from kvbench.device.spec import DeviceSpec
from kvbench.explain.finding import Verdict
from kvbench.layout import LayoutOptions
from kvbench.model.load import load_model
from kvbench.model.sizing import logical_size
from kvbench.model.spec import FullLayer, MlaLayer, ModelSpec, SlidingLayer
from kvbench.plugins import load_plugins
from kvbench_vllm.start_log_explain import explain_start_log

from ..conftest import shared_path

GIB = 2**30


def case(name: str) -> dict[str, Any]:
    text = shared_path("truth/bug_cases.json").read_text(encoding="utf-8")
    found: dict[str, Any] = next(each for each in json.loads(text) if each["id"] == name)
    return found


def numbers(text: str) -> list[float]:
    return [float(digits.replace(",", "")) for digits in re.findall(r"[\d,]*\d(?:\.\d+)?", text)]


def arrange(model: ModelSpec, **options: Any) -> Any:
    layout = load_plugins().layout("vllm")
    return layout.arrange(model, LayoutOptions(**options))


def test_budget_with_graphs_and_slack() -> None:
    right = numbers(case("budget-vllm21489")["right"])
    device = DeviceSpec(name="one", memory_bytes=round(160.53 * GIB))
    stated = {"weights": 8.58, "activation": 9.96, "non_torch": 0.07, "graphs": 0.65}
    sizes = {name: round(gib * GIB) for name, gib in stated.items()} | {"safety": 150 * 2**20}
    model = load_model("Llama-3.1-8B")
    budget = make_budget(model, Conditions(device=device, utilization=1.0), sizes)
    assert round(budget.kv_bytes.expected / GIB, 1) == round(right[0], 1)
    assert budget.kv_bytes.expected == pytest.approx(right[1], abs=0.02 * GIB)


def test_a_latent_is_replicated_not_sharded() -> None:
    right = case("mla-tp-kaito")["right"]
    model = ModelSpec(name="m", layers=(MlaLayer(latent_dim=256, rope_dim=64),) * 36)
    for tp in (1, 2, 4, 8):
        slope = logical_size(model, 1, tp=tp).slope_bytes_per_token
        assert slope == numbers(right)[0] == 23_040
    assert logical_size(model, 1_048_576, tp=2).logical_bytes == 22.5 * GIB


def test_the_engines_longest_length_of_that_model() -> None:
    found = explain_start_log(
        "max seq len (1048576), 22.5 GiB KV cache is needed, which is larger than the available KV "
        "cache memory (17.39 GiB). Based on the available memory, the estimated maximum model "
        "length is 810208.",
        None,
    )
    assert found is not None
    assert found.findings[0].verdict is Verdict.DERIVED


def test_sglang_keys_and_values_of_four_ranks() -> None:
    assert "8.23 GiB" in case("sglang-kv-235b")["right"]
    model = load_model("Qwen3-235B-A22B", weights=False)
    slope = logical_size(model, 1, tp=4).slope_bytes_per_token
    assert float(slope) / 2 * 367_404 / GIB == pytest.approx(8.23, abs=0.005)


def test_a_static_share_holds_activations_once() -> None:
    """DeepSeek-R1 on H200 at a static share of 0.82: about 509k tokens were observed."""
    right = numbers(case("dsr1-aisimulate263")["right"])
    model = load_model("DeepSeek-V3")
    device = DeviceSpec(name="h200", memory_bytes=round(139.8 * GIB))
    # The static share covers weights and pool; activations live in the other 18 %.
    stated = {"activation": 0, "graphs": 0, "non_torch": 0, "safety": 0}
    at = Conditions(device=device, utilization=0.82, tp=8)
    slope = logical_size(model, 1, tp=8).slope_bytes_per_token
    assert slope == 70_272
    size = make_budget(model, at, stated).kv_bytes
    assert size.low / slope <= right[0] <= size.high / slope
    assert size.low / slope <= 509_000 <= size.high / slope


def test_window_of_a_pure_sliding_model() -> None:
    layer = SlidingLayer(kv_heads=2, head_dim_k=128, head_dim_v=128, window=4096)
    model = ModelSpec(
        name="starcoder2", layers=(layer,) * 30, query_heads=24, max_context_tokens=16384
    )
    one_step = {"max_num_batched_tokens": 8192, "async_scheduling": False}
    arranged = arrange(model, engine=one_step | {"max_model_len": 16384})
    assert arranged.admission_blocks(16384) == 769
    assert f"{arranged.max_concurrency(137_407, 16384):.2f}x" == case("swa-starcoder2")["right"]


def test_block_of_a_state_hybrid_and_what_its_log_means() -> None:
    assert case("gdn-qwen35-27b-block")["right"].endswith("784 tokens")
    model = load_model("Qwen3.5-27B", weights=False)
    arranged = arrange(model, engine={"enable_prefix_caching": False, "max_model_len": 32768})
    assert arranged.block_size == 784
    assert len(arranged.groups) == 4
    concurrency, *_ = numbers(case("gdn-qwen35-27b-log")["right"])
    assert round(arranged.max_concurrency(1487, 32768), 2) == concurrency
    assert arranged.capacity_tokens(1487) == pytest.approx(1_082_800, abs=50)
    assert 1487 // 4 * 784 == 290_864


def test_gpt_oss_120b_charged_by_the_old_log() -> None:
    shape = {"kv_heads": 8, "head_dim_k": 64, "head_dim_v": 64}
    layers = (SlidingLayer(**shape, window=128), FullLayer(**shape)) * 18
    model = ModelSpec(
        name="gpt-oss-120b", layers=layers, query_heads=64, max_context_tokens=131_072,
        model_type="gpt_oss",
    )  # fmt: skip
    one_step = {"max_num_batched_tokens": 8192, "async_scheduling": False}
    arranged = arrange(model, engine=one_step)
    assert arranged.bytes_per_block == 589_824
    assert arranged.admission_blocks(131_072) == 8713
    assert round(arranged.max_concurrency(9798, 131_072), 2) == 1.12
    found = explain_start_log(
        "Available KV cache memory: 5.38 GiB\nGPU KV cache size: 78,384 tokens", model
    )
    assert found is not None
    figure = next(each for each in found.findings if each.figure == "GPU KV cache size")
    assert figure.verdict is Verdict.MISLEADING
    assert "9,798 blocks // 2 groups × 16 tokens" in figure.words
