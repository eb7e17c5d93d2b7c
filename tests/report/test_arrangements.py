"""The artifact of layouts and budgets: by hand for one model of two kinds of groups."""

from __future__ import annotations

import json

from kvbench.layout import LayoutOptions, RuledArrangement, group_blocks
from kvbench.model.load import load_model
from kvbench.plugins import load_plugins
from kvbench.report.arrangements import arrangements_json


def vllm(name, **options):
    return load_plugins().layout("vllm").arrange(load_model(name), LayoutOptions(**options))


def test_groups_and_costs_by_hand():
    # gpt-oss-20b: 12 full and 12 sliding layers (window 128), 8 heads of 64 in bf16: 2 KiB a token.
    plan = vllm("gpt-oss-20b")
    assert isinstance(plan, RuledArrangement)
    plans = {("auto", 1, None): plan, ("auto", 3, None): "refused: 3"}
    text = arrangements_json(model="m", engine={}, plans=plans, conditions=None, budgets={})
    found = json.loads(text)
    page = 16 * 2 * 8 * 64 * 2
    # A window of 128 touches 9 blocks of 16 at worst; two steps of 8,192 tokens are in flight.
    sliding = [1, "sliding", 12, 16, page, 9, None, None, 127 + 2 * 8192, 1]
    full = [1, "full", 12, 16, page, None, None, None, None, 0]
    assert sorted(found["plans"][0]["groups"], key=str) == sorted([sliding, full], key=str)
    assert sorted(found["plans"][0]["costs"], key=str) == sorted(
        [[12, 2048, 1, 128, 0], [12, 2048, 1, None, 0]], key=str
    )
    assert found["plans"][1] == "refused: 3"
    assert found["grid"] == [["auto", 1, None, 0], ["auto", 3, None, 1]]
    assert found["budget"] is None


def test_equal_groups_in_a_row_are_stated_once():
    plan = vllm("gemma-3-27b-it")
    text = arrangements_json(
        model="m", engine={}, plans={("auto", 1, None): plan}, conditions=None, budgets={}
    )
    groups = json.loads(text)["plans"][0]["groups"]
    assert sum(group[0] for group in groups) == len(plan.groups) > len(groups)


def test_the_rules_of_a_layout_are_its_admission():
    plan = vllm("Llama-4-Maverick-17B-128E-Instruct")
    for tokens in (1, 8192, 30_000, 1_000_000):
        pairs = zip(plan.groups, plan.admission_rules, strict=True)
        charged = [rule.blocks(tokens, group.block_size) for group, rule in pairs]
        assert sum(charged) == plan.admission_blocks(tokens)
        assert plan.resident_blocks(tokens) == tuple(group_blocks(g, tokens) for g in plan.groups)
