"""The analytic engine's exact values, each worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvbench.device.catalog import load_device
from kvbench.device.terms import TERMS
from kvbench.engine import Cell, Evidence, Stage
from kvbench.errors import CellFailed, PluginError
from kvbench.model.load import load_model
from kvbench.model.spec import MlaLayer, ModelSpec
from kvbench.plugins import load_plugins
from kvbench.workload.load import parse_workload

MIB, GIB = 1024**2, 1024**3
TABLES = {
    "mha": {"layers": 32, "query_heads": 32, "kv_heads": 32, "head_dim": 128},
    "gqa8": {"inherits": "mha", "kv_heads": 8},
    "mqa": {"inherits": "mha", "kv_heads": 1},
}
DEEPSEEK = ModelSpec(name="mla", layers=(MlaLayer(latent_dim=512, rope_dim=64),) * 61)


def size(model, workload=None, device=None, **settings):
    plugin = load_plugins().get("analytic")
    defaults = {option.name: option.default for option in plugin.info.options}
    cell = Cell(
        cell_id="0",
        ordinal=0,
        benchmark="b",
        stage=Stage.SIZE,
        engine="analytic",
        plugin="analytic",
        axes={},
        settings={**{k: v for k, v in defaults.items() if v is not None}, **settings},
        model=load_model(model, tables=TABLES) if isinstance(model, str) else model,
        workload=workload,
        device=device,
    )
    output = plugin.call(cell, None)
    assert all(seen.evidence is Evidence.ANALYTIC for seen in output.observations)
    return {seen.metric: seen.value for seen in output.observations}


@pytest.mark.parametrize(
    ("model", "request_mib", "token_kib"),
    [("mha", 2048, 512), ("gqa8", 512, 128), ("mqa", 64, 16)],
)
def test_kv_heads_decide_the_bytes(model, request_mib, token_kib):
    values = size(model, context_tokens=4096)
    assert values["logical_bytes"] == request_mib * MIB
    assert values["slope_bytes_per_token"] == token_kib * 1024
    assert values["intercept_bytes"] == 0


def test_gqa_at_8192_tokens_is_one_gibibyte():
    assert size("gqa8", context_tokens=8192)["logical_bytes"] == 1_073_741_824


def test_eight_requests_take_four_gibibytes():
    assert size("gqa8", budget_bytes=4 * GIB)["concurrent_requests"] == 8


@pytest.mark.parametrize(("new_tokens", "requests"), [(0, 16), (128, 15)])
def test_new_tokens_cost_a_request(new_tokens, requests):
    values = size("gqa8", context_tokens=4096, new_tokens=new_tokens, budget_bytes=8 * GIB)
    assert values["concurrent_requests"] == requests


def test_tail_of_4100_tokens():
    values = size("gqa8", context_tokens=4100, block_size=16)
    assert values["request_blocks"] == 257
    assert values["logical_bytes"] == 1025 * MIB // 2
    assert values["paged_bytes"] == 514 * MIB
    assert values["tail_waste_bytes"] == 3 * MIB // 2
    assert values["fragmentation_ratio"] == pytest.approx(12 / 4112)


def test_mla_has_one_latent_and_no_value():
    assert size(DEEPSEEK)["slope_bytes_per_token"] == 70_272


def test_budget_below_one_request_is_zero_not_negative():
    values = size("mha", context_tokens=4096, budget_bytes=1 * GIB)
    assert values["concurrent_requests"] == 0
    assert values["max_context_tokens"] == 2048


def test_longest_context_for_several_requests():
    assert size("gqa8", requests=4, budget_bytes=8 * GIB)["max_context_tokens"] == 16384


def test_workload_fragmentation_by_hand():
    lengths = parse_workload(
        "w",
        {"kind": "constant", "requests": 3, "prompt_tokens": 20, "output_tokens": 5},
        Path(),
    )
    values = size("gqa8", workload=lengths, block_size=16)
    assert values["workload_logical_bytes"] == 3 * 24 * 128 * 1024
    assert values["workload_paged_bytes"] == 3 * 32 * 128 * 1024
    assert values["workload_fragmentation_ratio"] == pytest.approx(8 / 32)


def test_unknown_layout_names_the_near_one():
    with pytest.raises(PluginError, match="did you mean 'paged'"):
        size("gqa8", layout="pagde")


def test_a_cell_without_model_fails_with_a_reason():
    with pytest.raises(CellFailed) as failure:
        size(None)
    assert failure.value.reason == "no_model"


def test_a_device_leaves_an_interval_whose_terms_add_up():
    values = size("Llama-3.1-8B", device=load_device("h100-80g"), context_tokens=8192)
    terms = sum(values[f"{name}_budget_bytes"] for name in TERMS)
    assert values["device_budget_bytes"] - terms == values["kv_budget_bytes"]
    assert values["weights_budget_bytes"] >= values["weight_bytes"] == 16_060_522_496
    low, high = values["kv_budget_low_bytes"], values["kv_budget_high_bytes"]
    assert low < values["kv_budget_bytes"] < high
    requests = [values[f"concurrent_requests{end}"] for end in ("_low", "", "_high")]
    assert requests == sorted(requests)
    assert requests[1] == values["kv_budget_bytes"] // 2**21 * 2**21 // 2**30


def test_weights_that_do_not_fit_leave_nothing():
    values = size("Llama-3.1-70B", device=load_device("l4"))
    assert values["kv_budget_bytes"] == values["concurrent_requests"] == 0
    assert values["max_context_tokens"] == 0


@pytest.mark.parametrize("term", TERMS)
def test_every_term_of_the_budget_is_a_metric(term):
    assert (f"{term}_budget_bytes", "analytic") in load_plugins().metrics()


def test_the_next_degree_admits_what_a_cell_of_that_degree_does():
    device = load_device("h100-80g")
    one, two = (
        size("Llama-3.1-8B", device=device, context_tokens=8192, layout="vllm", tp=tp)
        for tp in (1, 2)
    )
    assert one["next_tp_ranks"] == 2
    for end in ("", "_low", "_high"):
        assert one[f"next_tp_requests{end}"] == two[f"concurrent_requests{end}"]
    assert one["scheduler_limit_requests"] == 1024


@pytest.mark.parametrize(("layout", "degree"), [("vllm", 5), ("paged", 4)])
def test_the_next_degree_divides_the_heads_and_is_one_that_the_layout_accepts(layout, degree):
    # 40 query heads divide by 4, 5 and 8 ranks; 10 KV heads do not by 4, which vLLM refuses.
    values = size("phi-4", device=load_device("h200"), layout=layout, tp=2)
    assert values["next_tp_ranks"] == degree


def test_without_a_larger_degree_none_is_stated():
    model = ModelSpec(
        name="one head",
        layers=(MlaLayer(latent_dim=512, rope_dim=64),),
        query_heads=1,
        weight_bytes=2**30,
        weight_source="stated",
    )
    assert not [name for name in size(model, device=load_device("h200")) if "next_tp" in name]
