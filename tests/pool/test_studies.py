"""Studies of the pool engine, as cells of a suite call them."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from kvbench.device.budget import make_budget
from kvbench.device.catalog import load_device
from kvbench.device.conditions import Conditions
from kvbench.engine import Cache, Direction, Stage
from kvbench.errors import CellFailed, ModelError
from kvbench.model.load import load_model
from kvbench.model.spec import FullLayer, ModelSpec, SlidingLayer, StateLayer, StateTensor
from kvbench.plugins import load_plugins
from kvbench_pool.options import OPTIONS, POLICY_NAMES
from kvbench_pool.plugin import kvbench_allocate
from kvbench_pool.policies import POLICIES
from kvbench_pool.pool_metrics import METRICS
from kvbench_pool.studies.max_concurrency import highest
from kvbench_pool.vllm_policy.pool_split import PARTS
from tests.pool.cells import allocate, dense_model, make_cell, value, values

CONSTANT = {"kind": "constant", "requests": 8, "prompt_tokens": 4100, "output_tokens": 1}
SHARED = {
    "kind": "shared_prefix",
    "requests": 20,
    "prefix_tokens": 64,
    "prompt_tokens": 16,
    "output_tokens": 4,
}


def test_the_plugin_is_found_and_agrees_with_its_policies() -> None:
    plugin = load_plugins().get("pool")
    assert plugin.availability().available
    assert plugin.info.stages == {Stage.ALLOCATE}
    assert set(POLICY_NAMES) == {*POLICIES, "vllm"}
    assert all(option.help.endswith(".") for option in OPTIONS)
    assert all(metric.meaning.endswith(".") and metric.exact for metric in METRICS)
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert any(metric.direction is Direction.HIGHER for metric in METRICS)


def test_registration_imports_nothing_heavy() -> None:
    code = (
        "import sys, kvbench_pool.plugin as p; p.kvbench_engine(); p.kvbench_metrics(); "
        "print(sorted({'numpy', 'pandas', 'pyarrow', 'matplotlib', 'torch'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_without_blocks_or_bytes_the_pool_is_what_the_device_leaves() -> None:
    device, model = load_device("h100-80g"), load_model("Llama-3.1-8B")
    cell = make_cell(model=model, workload=CONSTANT)
    output = kvbench_allocate(cell=dataclasses.replace(cell, device=device), session=None)
    budget = make_budget(model, Conditions(device=device, tokens=8192, sequences=1024)).kv_bytes
    # A block of 16 tokens takes 128 KiB per token.
    assert value(output, "pool_blocks") == budget.expected // (16 * 128 * 1024)
    assert any(f"{budget.expected:,} bytes a rank" in line for line in output.assumptions)


def test_a_stated_pool_comes_before_the_device() -> None:
    cell = make_cell(model=load_model("Llama-3.1-8B"), workload=CONSTANT, pool_blocks=300)
    found = dataclasses.replace(cell, device=load_device("h100-80g"))
    assert value(kvbench_allocate(cell=found, session=None), "pool_blocks") == 300


@pytest.mark.parametrize("cache", [Cache.WARM, Cache.PRIMED])
def test_a_simulated_pool_starts_empty(cache: Cache) -> None:
    cell = make_cell(study="walkthrough", script="allocate A 1")
    with pytest.raises(CellFailed, match="a simulated pool starts empty"):
        kvbench_allocate(cell=dataclasses.replace(cell, cache=cache), session=None)


# --- walkthrough --------------------------------------------------------------------------------


def walkthrough(script: str, **settings: object) -> str:
    output = allocate(study="walkthrough", script=script, block_size=4, **settings)
    return output.artifacts["state table"]


def test_the_state_table_of_a_fork() -> None:
    table = walkthrough("allocate A 6; fork A B; append B 1; free A; free B")
    rows = [" ".join(line.split()) for line in table.splitlines()]
    assert rows[2:] == [
        "1 allocate A 6 [0, 1] - 2 0:1 1:1 0 0-5 -",
        "2 fork A B [0, 1] [0, 1] 2 0:2 1:2 2 0-5 0-5",
        "3 append B 1 (copies block 1 to 2) [0, 1] [0, 2] 3 0:2 1:1 2:1 1 0-5 0-6",
        "4 free A - [0, 2] 2 0:1 2:1 0 - 0-6",
        "5 free B - - 0 - 0 - -",
    ]


def test_the_walkthrough_observes_every_step() -> None:
    script = "allocate A 6; fork A B; append B 1; free A; free B"
    output = allocate(study="walkthrough", script=script, block_size=4)
    assert values(output, "used_blocks") == [2, 2, 3, 2, 0]
    assert values(output, "shared_saved_blocks") == [0, 2, 1, 0, 0]
    assert value(output, "peak_used_blocks") == 3
    assert value(output, "final_used_blocks") == 0
    assert value(output, "copied_blocks") == 1


def test_running_out_of_blocks_is_a_state() -> None:
    table = walkthrough("allocate A 6\nallocate B 9", pool_blocks=4)
    assert "(refused: allocate 'B': needs 3 blocks, 2 of 4 are free)" in table


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("", "no operation"),
        (" ; ; ", "no operation"),
        ("alocate A 6", "step 1 .*unknown operation 'alocate'; did you mean 'allocate'"),
        ("allocate A 6; append A", "step 2 .*expected 'append SEQUENCE TOKENS'"),
        ("allocate A", "expected 'allocate SEQUENCE TOKENS'"),
        ("allocate A 6 7", "expected 'allocate SEQUENCE TOKENS'"),
        ("allocate A 0", "tokens is '0'; expected a positive integer"),
        ("allocate A -1", "tokens is '-1'"),
        ("allocate A 1.5", "tokens is '1.5'"),
        ("allocate A six", "tokens is 'six'"),
        ("fork A B", "sequence 'A' is unknown"),
        ("allocate A 1; fork A A", "step 2 .*'A' exists already"),
        ("free A", "sequence 'A' is unknown"),
    ],
)
def test_a_wrong_script_names_its_step(script: str, message: str) -> None:
    with pytest.raises(CellFailed, match=message):
        walkthrough(script)


def test_a_walkthrough_needs_a_script() -> None:
    with pytest.raises(CellFailed, match="study 'walkthrough' needs the option 'script'"):
        allocate(study="walkthrough")


# --- fork ---------------------------------------------------------------------------------------


def test_a_fork_is_metadata_until_the_first_write() -> None:
    output = allocate(
        study="fork", model=dense_model(), context_tokens=4100, forks=3, block_size=16
    )
    assert value(output, "fork_used_blocks") == 257
    assert value(output, "unshared_used_blocks") == 4 * 257
    assert value(output, "shared_saved_blocks") == 3 * 257
    assert value(output, "shared_saved_bytes") == 3 * 257 * 16 * 131_072
    assert value(output, "divergent_append_blocks") == 1
    assert value(output, "divergent_append_bytes") == 16 * 131_072
    assert value(output, "copied_blocks") == 3
    assert value(output, "peak_used_blocks") == 260


def test_a_fork_on_a_boundary_takes_a_new_block_and_copies_none() -> None:
    output = allocate(
        study="fork", model=dense_model(), context_tokens=4096, forks=2, block_size=16
    )
    assert value(output, "divergent_append_blocks") == 1
    assert value(output, "copied_blocks") == 0
    assert value(output, "peak_used_blocks") == 258


@pytest.mark.parametrize(("heads", "block_bytes"), [(32, 8 << 20), (8, 2 << 20), (1, 256 << 10)])
def test_fork_savings_scale_with_the_kv_heads(heads: int, block_bytes: int) -> None:
    output = allocate(
        study="fork", model=dense_model(heads), context_tokens=64, forks=1, block_size=16
    )
    assert value(output, "shared_saved_bytes") == 4 * block_bytes


def test_forks_that_do_not_fit_fail_with_a_reason() -> None:
    with pytest.raises(CellFailed, match="needs 1 block, 0 of 2 are free") as caught:
        allocate(study="fork", context_tokens=10, forks=1, block_size=8, pool_blocks=2)
    assert caught.value.reason == "pool_exhausted"


# --- replay -------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICY_NAMES)
def test_every_policy_replays_and_accounts_for_its_slots(policy: str) -> None:
    output = allocate(policy=policy, workload=SHARED, pool_blocks=64, block_size=16)
    assert value(output, "requests_count") == 20
    shares = ["live_ratio", "tail_waste_ratio", "reserved_waste_ratio", "padding_waste_ratio"]
    found = [sum(values(output, share)) for share in shares]
    assert sum(found) == pytest.approx(1)
    assert value(output, "fragmentation_ratio") == pytest.approx(1 - found[0])
    assert value(output, "peak_used_blocks") <= 64
    assert max(values(output, "used_blocks")) == value(output, "peak_used_blocks")
    times = [one.t_offset_s for one in output.observations if one.metric == "used_blocks"]
    assert times == sorted(times)  # type: ignore[type-var]


@pytest.mark.parametrize("policy", ["no_sharing", "radix", "vllm"])
def test_bytes_are_blocks_times_the_layouts_block(policy: str) -> None:
    output = allocate(
        policy=policy,
        model=dense_model(),
        workload={**CONSTANT, "output_tokens": 12},
        budget_bytes=8 << 30,
        block_size=16,
    )
    assert value(output, "block_bytes") == 2 << 20
    assert value(output, "pool_blocks") == 4096
    assert value(output, "peak_used_blocks") == 8 * 257
    assert value(output, "peak_used_bytes") == 8 * 257 * (2 << 20)


def test_sharing_policies_save_what_the_prefix_takes() -> None:
    outputs = {
        policy: allocate(policy=policy, workload=SHARED, pool_blocks=200, block_size=16)
        for policy in ("no_sharing", "radix", "vllm")
    }
    hits = {policy: value(output, "hit_tokens") for policy, output in outputs.items()}
    # All arrive at once: vLLM registers blocks when it schedules them, SGLang when computed.
    assert hits == {"no_sharing": 0, "radix": 0, "vllm": 19 * 64}
    assert value(outputs["vllm"], "shared_saved_blocks") == 19 * 4
    # 20 requests of 83 cached tokens each; what is found is not computed.
    assert value(outputs["no_sharing"], "computed_tokens") == 20 * 83
    assert value(outputs["vllm"], "computed_tokens") == 20 * 83 - 19 * 64


def test_radix_shares_what_was_computed_before() -> None:
    spread = {**SHARED, "arrival": "uniform", "rate_per_s": 1.0}
    output = allocate(policy="radix", workload=spread, pool_blocks=200, block_size=16)
    assert value(output, "hit_tokens") == 19 * 64
    assert value(output, "prefix_hit_ratio") == pytest.approx(19 * 64 / (20 * 80))


def test_preallocation_wastes_what_is_never_written() -> None:
    output = allocate(
        policy="contiguous",
        workload={**CONSTANT, "requests": 1, "prompt_tokens": 25},
        pool_blocks=10,
        block_size=10,
        max_model_len=100,
    )
    assert value(output, "live_ratio") == pytest.approx(0.25)
    assert value(output, "padding_waste_ratio") == pytest.approx(0.75)
    assert value(output, "peak_used_blocks") == 10


def test_reserving_the_final_length_is_reserved_not_padding() -> None:
    output = allocate(
        policy="contiguous",
        reserve="final",
        workload={"kind": "constant", "requests": 1, "prompt_tokens": 1, "output_tokens": 4},
        pool_blocks=10,
        block_size=10,
    )
    assert value(output, "live_ratio") == pytest.approx((1 + 2 + 3 + 4) / 16)
    assert value(output, "reserved_waste_ratio") == pytest.approx((3 + 2 + 1) / 16)
    assert value(output, "padding_waste_ratio") == 0


def test_the_longest_context_is_the_models_when_not_stated() -> None:
    output = allocate(
        policy="static",
        model=dense_model(context=50),
        workload={**CONSTANT, "prompt_tokens": 40},
        pool_blocks=10,
        block_size=10,
    )
    assert value(output, "peak_running_requests") == 2
    assert output.effective["max_model_len"] == 50


def test_dropped_requests_and_bad_lines_are_told(tmp_path: Path) -> None:
    rows = ["0,100,1", "1,5,1", "2,bad,1", "3,5,0"]
    lines = [f"2023-11-16 18:15:4{row}" for row in rows]
    path = tmp_path / "t.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(lines))
    for policy in ("no_sharing", "vllm"):
        output = allocate(
            policy=policy,
            workload={"kind": "trace", "path": "t.csv", "on_bad_line": "count"},
            base=tmp_path,
            pool_blocks=4,
            block_size=4,
        )
        assert len(output.warnings) == 3
        assert output.warnings[0] == "1 request left out, too large for the pool."
        assert value(output, "dropped_requests_count") == 1


@pytest.mark.parametrize(
    ("settings", "reason", "message"),
    [
        ({}, "option_missing", "give the pool as pool_blocks or budget_bytes"),
        ({"budget_bytes": 1 << 30}, "option_missing", "needs a model"),
        (
            {"budget_bytes": 1 << 30, "pool_blocks": 9, "model": dense_model()},
            "option_conflict",
            "not both",
        ),
        ({"budget_bytes": 100, "model": dense_model()}, "pool_too_small", "100 bytes buy 0 blocks"),
        ({"pool_blocks": 9, "max_num_batched_tokens": 8}, "option_conflict", "below max_num_seqs"),
    ],
)
def test_settings_out_of_place(settings: dict[str, object], reason: str, message: str) -> None:
    with pytest.raises(CellFailed, match=message) as caught:
        allocate(policy="no_sharing", workload=CONSTANT, **settings)
    assert caught.value.reason == reason


def test_a_replay_needs_a_workload() -> None:
    for policy in ("no_sharing", "vllm"):
        with pytest.raises(CellFailed, match="study 'replay' needs the option 'workload'"):
            allocate(policy=policy, pool_blocks=9)


# --- models that are more than full attention -----------------------------------------------------

_FULL = FullLayer(kv_heads=2, head_dim_k=64, head_dim_v=64)
_SLIDING = SlidingLayer(kv_heads=2, head_dim_k=64, head_dim_v=64, window=64)
HYBRID = ModelSpec(name="hybrid", layers=(_FULL, _SLIDING) * 2, max_context_tokens=8192)
WINDOWED = ModelSpec(name="windowed", layers=(_SLIDING,) * 4, max_context_tokens=8192)
STATEFUL = ModelSpec(
    name="stateful",
    layers=(_FULL, StateLayer(tensors=(StateTensor(name="ssm", shape=(64, 64), dtype="bf16"),))),
    max_context_tokens=8192,
)
LONG = {"kind": "constant", "requests": 2, "prompt_tokens": 400, "output_tokens": 200}


def test_the_vllm_policy_frees_what_a_window_no_longer_sees() -> None:
    options = {"workload": LONG, "pool_blocks": 300, "block_size": 16}
    hybrid = allocate(policy="vllm", model=HYBRID, **options)
    windowed = allocate(policy="vllm", model=WINDOWED, **options)
    whole = allocate(policy="no_sharing", model=WINDOWED, **options)
    assert value(whole, "mean_used_blocks") > 2 * value(windowed, "mean_used_blocks")
    assert value(hybrid, "peak_used_blocks") > value(windowed, "peak_used_blocks")
    assert any("keep every token" in sentence for sentence in whole.assumptions)


def test_hybrid_groups_need_the_layout_that_shares_block_ids() -> None:
    with pytest.raises(ModelError, match="use layout 'vllm' with policy 'vllm'"):
        allocate(policy="vllm", layout="paged", model=HYBRID, workload=LONG, pool_blocks=300)


def test_plain_policies_refuse_recurrent_state() -> None:
    with pytest.raises(CellFailed, match=r"knows no 'state' layers.*use policy 'vllm'"):
        allocate(policy="radix", model=STATEFUL, workload=LONG, pool_blocks=300, block_size=16)


def test_the_vllm_policy_keeps_states_for_later_requests_when_told_to() -> None:
    """Turns of one conversation: without caching none finds anything."""
    turns = {
        "kind": "multi_turn",
        "conversations": 1,
        "turns": 3,
        "system_tokens": 64,
        "prompt_tokens": 40,
        "output_tokens": 10,
        "think_s": 5,
    }
    options = {"policy": "vllm", "model": STATEFUL, "workload": turns, "pool_blocks": 300}
    output = allocate(**options)
    assert output.effective["enable_prefix_caching"] is False
    assert value(output, "hit_tokens") == 0
    kept = allocate(**options, enable_prefix_caching=True)
    assert kept.effective["enable_prefix_caching"] is True
    assert value(kept, "hit_tokens") > 0
    shares = [value(kept, f"part_{part}_ratio") for part in PARTS]
    assert sum(shares) == pytest.approx(1)
    assert value(kept, "part_state_ratio") > 0


# --- curves and searches --------------------------------------------------------------------------


def test_a_hit_curve_rises_to_the_working_set() -> None:
    output = allocate(study="hit_curve", workload=SHARED, block_size=16, curve_points=4)
    sizes = values(output, "curve_capacity_blocks")
    lru, optimal = values(output, "lru_hit_ratio"), values(output, "optimal_hit_ratio")
    assert sizes[-1] == value(output, "working_set_blocks") == 4 + 20
    assert len(sizes) == len(lru) == len(optimal) == 4
    assert lru == sorted(lru)
    assert all(below <= above for below, above in zip(lru, optimal, strict=True))
    assert lru[-1] == value(output, "infinite_hit_ratio") == pytest.approx(19 * 64 / (20 * 80))
    assert "100%" in output.artifacts["hit ratio over memory"]


def test_a_hit_curve_ends_at_the_pool() -> None:
    output = allocate(
        study="hit_curve",
        workload=SHARED,
        model=dense_model(),
        budget_bytes=16 << 20,
        block_size=16,
        layout="paged",
        curve_points=1,
    )
    assert values(output, "curve_capacity_blocks") == [8]
    assert values(output, "curve_capacity_bytes") == [16 << 20]


@pytest.mark.parametrize("most", [1, 2, 7, 8, 64])
def test_the_search_finds_every_limit(most: int) -> None:
    for limit in range(most + 3):
        assert highest(lambda seats, limit=limit: seats <= limit, most) == min(limit, most)


@pytest.mark.parametrize("policy", ["no_sharing", "vllm"])
def test_more_accepted_preemptions_never_mean_fewer_seats(policy: str) -> None:
    workload = {**CONSTANT, "requests": 24, "prompt_tokens": 16, "output_tokens": 64}
    found = [
        allocate(
            study="max_concurrency",
            policy=policy,
            workload=workload,
            pool_blocks=21,
            block_size=4,
            max_num_seqs=24,
            max_preemption_ratio=limit,
        )
        for limit in (0.0, 100.0)
    ]
    none, any_number = (value(one, "admissible_concurrency_requests") for one in found)
    assert none == 1
    assert any_number == 24
    assert value(found[0], "preemption_ratio") == 0
    assert "max_num_seqs" in found[0].artifacts["tried concurrency"]


@pytest.mark.parametrize(
    "settings",
    [
        {"policy": "radix", "layout": "vllm", "workload": CONSTANT},
        {"study": "hit_curve", "workload": SHARED},
        {"study": "fork", "context_tokens": 100},
    ],
)
def test_one_table_per_request_is_refused_where_a_layout_has_a_table_per_group(
    settings: dict[str, object],
) -> None:
    """A block of the vllm layout holds gpt-oss's tokens in half of its layers only."""
    with pytest.raises(CellFailed, match="use layout 'paged'") as refused:
        allocate(model=load_model("gpt-oss-20b"), pool_blocks=300, **settings)
    assert refused.value.reason == "unsupported_layers"


def test_a_fork_in_the_paged_layout_takes_the_bytes_of_every_layer() -> None:
    output = allocate(
        study="fork", context_tokens=32, layout="paged", model=load_model("gpt-oss-20b")
    )
    # 24 layers, keys and values, 8 heads of 64, bf16, 16 tokens.
    assert value(output, "block_bytes") == 24 * 2 * 8 * 64 * 2 * 16
    assert value(output, "fork_used_bytes") == 2 * value(output, "block_bytes")
