"""Answers in both directions, what-if tables, workloads, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kvbench.cli import cli
from kvbench.device.catalog import DEVICES
from kvbench.device.spec import DeviceSpec
from kvbench.errors import DeviceError
from kvbench.fit import Question, answer
from kvbench.fit.resident import percentile, requests_under, resident_lengths
from kvbench.fit.whatif import alternatives, break_even, least_utilization, smallest
from kvbench.layout import PagedLayout
from kvbench.model.spec import FullLayer, ModelSpec, Widths
from kvbench.workload.request import Request

GIB = 2**30
BLOCK = 16 * 2 * 2 * 64 * 2 * 8
STATED = {"weights": GIB, "activation": 0, "graphs": 0, "non_torch": 0}


def model(**changes: Any) -> ModelSpec:
    values: dict[str, Any] = {
        "name": "small",
        "layers": (FullLayer(kv_heads=2, head_dim_k=64, head_dim_v=64),) * 8,
        "hidden_size": 1024,
        "max_context_tokens": 32768,
        "weight_bytes": GIB,
        "weight_source": "stated",
        "widths": Widths(vocabulary=32_000, inner=4096),
    }
    return ModelSpec(**values | changes)


def question(**changes: Any) -> Question:
    values: dict[str, Any] = {
        "model": model(),
        "device": DeviceSpec(name="toy", memory_bytes=GIB + 1000 * BLOCK),
        "layout": PagedLayout(),
        "utilization": 1.0,
        "context": 1600,
        "stated": STATED,
    }
    return Question(**values | changes)


def test_everything_by_hand() -> None:
    found = answer(question(concurrency=4))
    assert found.budget.kv_bytes.expected == 1000 * BLOCK
    assert (found.num_blocks.low, found.num_blocks.expected, found.num_blocks.high) == (1000,) * 3
    assert found.capacity_tokens.expected == 16_000
    assert found.max_concurrency == 10.0
    assert found.requests.expected == 10
    assert found.max_context_tokens.expected == 4000
    assert (found.bound_by, found.fits) == ("kv_pool", True)


def test_replicas_share_the_requests() -> None:
    found = answer(question(gpus=4, tp=2, concurrency=8))
    one = answer(question(tp=2))
    assert found.requests.expected == 2 * one.requests.expected
    assert found.max_context_tokens == answer(question(tp=2, concurrency=4)).max_context_tokens
    with pytest.raises(DeviceError, match="3 GPUs do not divide"):
        answer(question(gpus=3, tp=2))


@pytest.mark.parametrize(
    ("changes", "bound_by"),
    [
        ({"stated": {**STATED, "weights": 3 * GIB}}, "weights"),
        ({"stated": {**STATED, "activation": 2 * GIB}}, "activation"),
        ({"sequences": 4}, "max_num_seqs"),
    ],
)
def test_what_binds(changes: dict[str, Any], bound_by: str) -> None:
    found = answer(question(**changes))
    assert found.bound_by == bound_by
    assert found.requests.expected >= 0
    assert found.max_concurrency >= 0


def test_nothing_is_ever_negative() -> None:
    found = answer(question(stated={**STATED, "weights": 50 * GIB}))
    ranges = (found.num_blocks, found.capacity_tokens, found.requests, found.max_context_tokens)
    assert all((each.low, each.expected, each.high) == (0, 0, 0) for each in ranges)


def test_the_interval_reaches_the_answer() -> None:
    device = DeviceSpec(
        name="toy",
        memory_bytes=GIB + 1000 * BLOCK,
        memory_low_bytes=GIB + 900 * BLOCK,
        memory_high_bytes=GIB + 1200 * BLOCK,
    )
    found = answer(question(device=device))
    assert (found.requests.low, found.requests.expected, found.requests.high) == (9, 10, 12)
    assert found.requests.words("requests") == "between 9 and 12 requests"


@given(st.integers(1, 40), st.integers(16, 32768))
def test_both_directions_agree(concurrency: int, context: int) -> None:
    found = answer(question(concurrency=concurrency))
    longest = found.max_context_tokens.expected
    if longest:
        assert answer(question(context=longest)).requests.expected >= concurrency
    fitting = answer(question(context=context)).requests.expected
    if fitting:
        back = answer(question(context=context, concurrency=fitting)).max_context_tokens.expected
        assert back >= context


def test_what_if_changes_one_setting_at_a_time() -> None:
    found = {(each.axis, each.value): each for each in alternatives(question(), ["kv_dtype", "tp"])}
    base = answer(question()).requests.expected
    assert found["kv_dtype", "auto"].is_asked
    eight = found["kv_dtype", "fp8_e4m3"].answer
    assert eight is not None
    assert eight.requests.expected == 2 * base
    assert [each.value for each in found.values() if each.axis == "tp"] == [1, 2, 4, 8]


def test_break_even_points() -> None:
    asked = question(concurrency=5)
    points = {point.knob: point.value for point in break_even(answer(asked))}
    assert points["context"] == 3200
    assert points["context with kv_dtype fp8_e4m3"] == 6400
    share = least_utilization(asked)
    assert share is not None
    total = GIB + 1000 * BLOCK
    assert (share - 0.001) * total - GIB < 500 * BLOCK <= share * total - GIB
    assert least_utilization(question(concurrency=500)) is None


def test_smallest_devices_come_first() -> None:
    found = smallest(question(model=model(weight_bytes=30 * GIB), stated={}), DEVICES.values())
    sizes = [each.tp * each.device.memory_bytes for each in found]
    assert sizes == sorted(sizes)
    assert all(each.answer.requests.expected >= 1 for each in found)


def test_resident_lengths_weigh_long_outputs_more() -> None:
    requests = [
        Request(arrival_ms=0, prompt_tokens=10, output_tokens=2),
        Request(arrival_ms=0, prompt_tokens=100, output_tokens=3),
    ]
    assert resident_lengths(requests) == (11, 12, 101, 102, 103)
    assert resident_lengths([]) == ()


def test_resident_lengths_are_thinned_evenly() -> None:
    requests = [Request(arrival_ms=0, prompt_tokens=1, output_tokens=100_000)] * 3
    lengths = resident_lengths(requests)
    assert 19_000 <= len(lengths) <= 21_000
    assert sum(lengths) / len(lengths) == pytest.approx(50_001, rel=0.01)


def test_percentiles() -> None:
    ordered = list(range(1, 101))
    assert [percentile(ordered, share) for share in (0.5, 0.95, 0.99)] == [50, 95, 99]
    assert percentile([7], 0.5) == 7


def test_requests_of_one_size_fill_the_pool() -> None:
    assert requests_under([10], 100) == 10
    assert requests_under([10], 9) == 0


def test_requests_of_mixed_sizes_leave_room() -> None:
    mixed = requests_under([1, 19], 10_000)
    # 1,000 requests fill the pool on average; 2.33 deviations of 9 each stay free.
    assert mixed == pytest.approx(1000 - 2.33 * 9 * 1000**0.5 / 10, rel=0.01)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["fit", *arguments], catch_exceptions=False)


def document(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_the_command_with_the_flags_of_the_public_run() -> None:
    found = document(
        "Llama-3.1-8B", "--gpu", "rtx-4090", "--utilization", "0.9", "--max-num-batched-tokens",
        "2048", "--max-num-seqs", "256", "--max-model-len", "32768",
    )  # fmt: skip
    low, high = found["num_blocks_interval"]
    assert low <= 2588 <= high
    assert found["max_num_batched_tokens"] == 2048
    assert found["context"] == 32768
    assert set(found["budget"]) == {"weights", "activation", "graphs", "non_torch", "safety"}
    assert all(term["provenance"] for term in found["budget_terms"])
    assert found["assumptions"]


def test_the_command_in_words() -> None:
    result = run("Llama-3.1-70B", "--gpu", "h100", "--tp", "4", "--context", "8k", "--why")
    assert result.exit_code == 0
    assert "between " in result.stdout
    assert "B_kv           = M · u − Σ terms" in result.stdout
    assert "doubt " in result.stdout


def test_latents_are_on_every_rank() -> None:
    """Public report kaito#2132: more ranks free memory, not bytes per token."""
    one, two = (document("DeepSeek-V2-Lite", "--gpu", "h100", "--tp", tp) for tp in ("1", "2"))
    assert one["bytes_per_block"] == two["bytes_per_block"]
    assert two["num_blocks"] > one["num_blocks"]


def test_a_workload_gives_percentiles(tmp_path: Path) -> None:
    trace = tmp_path / "w.toml"
    trace.write_text('[workloads.even]\nkind = "constant"\nrequests = 10\n'
                     "prompt_tokens = 1000\noutput_tokens = 100\n")  # fmt: skip
    found = document("Llama-3.1-8B", "--gpu", "h100", "--workload", f"{trace}#even")
    held = found["max_concurrency_by_workload"]
    assert (held["resident_tokens_p50"], held["resident_tokens_p99"]) == (1050, 1099)
    assert held["requests_low"] <= held["requests"]


def test_a_device_of_ones_own(tmp_path: Path) -> None:
    table = tmp_path / "d.toml"
    table.write_text('[devices.mine]\nmemory_bytes = "48GiB"\n')
    assert document("Llama-3.1-8B", "--gpu", f"{table}#mine")["gpu"] == "mine"
    whole = document("Llama-3.1-8B", "--gpu", "l40s", "--gpu-memory", "96GiB")
    assert whole["requested_bytes"] == int(96 * GIB * 0.92)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Llama-3.1-8B", "--gpu", "h2000"), "did you mean 'h200'?"),
        (("Llama-3.1-8B", "--gpu", "h100", "--tp", "3"), "not divisible"),
        (("Llama-3.1-8B", "--gpu", "h100", "--utilization", "2"), "utilization"),
        (("Llama-3.1-8B", "--gpu", "h100", "--engine-version", "new"), "expected a version"),
        (("Llama-3.1-8B", "--gpu", "none.toml#x"), "No such file"),
        (("Llama-3.1-8B", "--gpu", "h100", "--workload", "none.csv"), "none.csv"),
        (("no-such-model", "--gpu", "h100"), "no model"),
    ],
)
def test_what_cannot_be_asked(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from kvbench.cli import main

    with pytest.raises(SystemExit) as caught:
        main(["fit", *arguments])
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


def test_the_catalog_of_devices() -> None:
    result = CliRunner().invoke(cli, ["gpus", "--format", "json"])
    rows = json.loads(result.stdout)
    assert {row["gpu"] for row in rows} == set(DEVICES)
    assert all(row["source"] for row in rows)
