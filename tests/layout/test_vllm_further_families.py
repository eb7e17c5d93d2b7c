"""The ``vllm`` layout against vLLM 0.32.0 on families that the golden rows leave out.

``data/further_families.jsonl`` holds a config and vLLM's answers per line: its own model class
built on the meta device behind a platform that says it is an H100, its own functions for block
size, specs, groups, blocks and concurrency (16 GiB a rank, API-server defaults). Layer counts or
experts of some configs are cut down; nothing in a cache depends on either.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvbench.layout import LayoutOptions
from kvbench.model.hf import spec_from_config
from kvbench.model.spec import ModelSpec
from kvbench_vllm.layout import VllmLayout
from kvbench_vllm.layout.arrangement import VllmArrangement

DATA = Path(__file__).parent / "data/further_families.jsonl"
FAMILIES = {
    line["model"]: line for line in map(json.loads, DATA.read_text(encoding="utf-8").splitlines())
}
CASES = [(name, answer) for name, line in FAMILIES.items() for answer in line["answers"]]


def case_id(value: object) -> str:
    return f"tp{value['tp']}-{value['kv']}" if isinstance(value, dict) else str(value)


@cache
def model_of(name: str) -> ModelSpec:
    model = spec_from_config(FAMILIES[name]["config"], name=name, weights=False)
    return replace(model, dtype="bf16")


def arrange(name: str, answer: dict[str, Any]) -> VllmArrangement:
    options = LayoutOptions(tp=answer["tp"], kv_dtype=answer["kv"])
    return VllmLayout().arrange(model_of(name), options)


@pytest.mark.parametrize(("name", "answer"), CASES, ids=case_id)
def test_pool_and_groups(name: str, answer: dict[str, Any]) -> None:
    pool = arrange(name, answer)
    assert pool.bytes_per_block == answer["bytes_per_block"]
    assert pool.num_blocks(16 << 30) == answer["num_blocks"]
    assert pool.max_model_len == answer["max_model_len"]
    assert [(g.layers, g.block_size, g.page_bytes) for g in pool.groups] == [
        tuple(group[1:]) for group in answer["groups"]
    ]
    if any(group.kind != "state" for group in pool.groups):
        assert pool.block_size == answer["block_size"]


@pytest.mark.parametrize(("name", "answer"), CASES, ids=case_id)
def test_concurrency(name: str, answer: dict[str, Any]) -> None:
    pool = arrange(name, answer)
    lengths = {key: int(key[5:]) for key in answer if key.startswith("conc_")}
    assert lengths
    for key, tokens in lengths.items():
        concurrency = pool.max_concurrency(answer["num_blocks"], tokens)
        assert concurrency == pytest.approx(answer[key], abs=1e-6)
