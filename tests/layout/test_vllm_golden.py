"""The ``vllm`` layout against what vLLM 0.32.0's own code answers for 99 public configs."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from kvbench.errors import ModelError
from kvbench.layout import Group, LayoutOptions
from kvbench.model.load import load_model
from kvbench.model.sizing import size_at
from kvbench.model.spec import ModelSpec
from kvbench_vllm.layout import VllmLayout
from kvbench_vllm.layout.arrangement import VllmArrangement
from tests.conftest import SHARED, shared_path

GOLDEN = SHARED / "truth/vllm_kv/golden.jsonl"
BUDGET_BYTES = 16 << 30

#: Kinds as vLLM's spec classes name them.
KINDS = {
    "FullAttentionSpec": {"full"},
    "MLAAttentionSpec": {"mla", "indexer"},
    "SlidingWindowSpec": {"sliding"},
    "SlidingWindowMLASpec": {"sliding_mla"},
    "ChunkedLocalAttentionSpec": {"chunked"},
    "MambaSpec": {"state"},
    "CrossAttentionSpec": {"cross"},
    "UniformTypeKVCacheSpecs": {"full", "mla", "indexer", "sliding", "sliding_mla"},
}


def rows() -> list[dict[str, Any]]:
    if not GOLDEN.exists():
        return []
    return [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]


ROWS = rows()


def row_id(row: dict[str, Any]) -> str:
    return f"{row['model']}-tp{row['tp']}-{row['kv_cache_dtype']}"


def test_golden_rows_are_there() -> None:
    shared_path("truth/vllm_kv/golden.jsonl")
    assert len(ROWS) == 972


@cache
def model_of(name: str) -> ModelSpec:
    model = load_model(str(SHARED / f"truth/vllm_kv/configs/{name}.json"))
    # The rows assume a bf16 model throughout.
    return replace(model, dtype="bf16")


def arrange(row: dict[str, Any]) -> VllmArrangement:
    options = LayoutOptions(tp=row["tp"], kv_dtype=row["kv_cache_dtype"])
    return VllmLayout().arrange(model_of(row["model"]), options)


@pytest.mark.parametrize("row", [r for r in ROWS if r["status"] != "ok"], ids=row_id)
def test_refused_rows_are_refused(row: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        arrange(row)


OK = [row for row in ROWS if row["status"] == "ok"]


@pytest.mark.parametrize("row", OK, ids=row_id)
def test_pool_is_exact(row: dict[str, Any]) -> None:
    arrangement = arrange(row)
    assert arrangement.bytes_per_block == row["bytes_per_block"]
    assert arrangement.num_blocks(BUDGET_BYTES) == row["num_blocks_16GiB"]
    attention = [g for g in arrangement.groups if g.kind != "state"]
    if attention:
        assert arrangement.block_size == row["block_size"]


@pytest.mark.parametrize("row", OK, ids=row_id)
def test_groups_are_exact(row: dict[str, Any]) -> None:
    arrangement = arrange(row)
    assert [shape(group) for group in arrangement.groups] == [
        (g["n_layers"], g["block_size"], g["page_size_bytes"], g["sliding_window"])
        for g in row["groups"]
    ]
    for group, golden in zip(arrangement.groups, row["groups"], strict=True):
        assert {group.kind} <= {k for inner in golden["inner"] for k in KINDS[inner]}
        assert pages(group) == golden["layer_page_sizes"]


def shape(group: Group) -> tuple[int, int, int, int | None]:
    window = group.window_tokens if group.kind == "sliding" else None
    return group.layers, group.block_size, group.page_bytes, window


def pages(group: Group) -> list[int]:
    return list(group.layer_page_bytes) or [group.page_bytes]


@pytest.mark.parametrize("row", OK, ids=row_id)
def test_concurrency_is_exact(row: dict[str, Any]) -> None:
    arrangement = arrange(row)
    blocks = arrangement.num_blocks(BUDGET_BYTES)
    lengths = {
        name: row["max_model_len_default"] if name == "default" else int(name)
        for name in ("4096", "32768", "131072", "default")
        if f"max_concurrency_{name}" in row
    }
    assert lengths
    for name, tokens in lengths.items():
        assert arrangement.admission_blocks(tokens) == row[f"blocks_per_request_{name}"]
        concurrency = arrangement.max_concurrency(blocks, tokens)
        assert concurrency == pytest.approx(row[f"max_concurrency_{name}"], abs=1e-6)


@pytest.mark.parametrize("row", OK, ids=row_id)
def test_logical_terms_are_exact(row: dict[str, Any]) -> None:
    arrangement = arrange(row)
    long = 1 << 24
    grown = size_at(arrangement.costs, long)
    assert float(grown.slope_bytes_per_token) == row["kv_bytes_per_token_growing_rank"]
    state = sum(
        group.layers * group.page_unpadded_bytes
        for group in arrangement.groups
        if group.kind == "state"
    )
    assert state == row["state_bytes_per_seq_rank"]


@pytest.mark.parametrize("row", [r for r in OK if r["tp"] == 1], ids=row_id)
def test_default_length_and_capacity(row: dict[str, Any]) -> None:
    arrangement = arrange(row)
    assert arrangement.max_model_len == row["max_model_len_default"]
    if "tokens_capacity_16GiB" in row:
        blocks = arrangement.num_blocks(BUDGET_BYTES)
        assert arrangement.capacity_tokens(blocks) == row["tokens_capacity_16GiB"]


def test_every_row_is_asked_for() -> None:
    if not ROWS:
        assert os.environ.get("CI") != "true"
        return
    assert Counter(row["status"] for row in ROWS) == {
        "ok": 853,
        "tp_not_supported": 112,
        "fp8_not_supported": 5,
        "arch_not_supported": 2,
    }
