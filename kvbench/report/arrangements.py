"""The artifact ``arrangements``: what the explorer needs of an engine's layout and budget.

An engine whose layout is a ``RuledArrangement`` returns it beside the geometry::

    CellOutput(..., artifacts={"arrangements": arrangements_json(...)})

The explorer then recomputes bytes, blocks and concurrency of that engine in the page, integer for
integer, for any context, and for the element types, ranks and block sizes that are listed; others
it does not offer. One JSON object::

    {"schema": 1,
     "model": "Llama-3.1-8B",
     "layout": "vllm 0.32.0",       empty when the layout has no rules: only budgets are stated
     "engine": {"async_scheduling": false},    engine options that the run stated
     "max_model_len": 131072,
     "grid": [["auto", 1, null, 0], ["auto", 1, 16, 0], ["auto", 3, null, 1], ...],
                                     kv dtype, ranks, tokens per block (null for the engine's
                                     choice), place in "plans"
     "plans": [{"block": 16, "bytes": 2097152, "dtype": "bf16",
                "groups": [[1, "full", 32, 16, 65536, null, null, null, null, 0], ...],
                "costs": [[32, 4096, 1, null, 0], ...]},
               "vLLM refuses tensor parallel size 3: ...", ...],
     "budget": {"device": "h100-80g", "utilization": 0.92, "tokens": 8192, "sequences": 1024,
                "ranks": {"1": [57313252087, 58873552975, 59631404188], "2": ...}}}

A group is the number of equal groups in a row, kind, layers, tokens per block, bytes of a page of
one layer, most resident blocks, fixed resident blocks, fixed admission blocks, most tokens charged
at admission, extra blocks there. A cost is the number of caches, bytes of an entry, tokens per
entry, tokens that are seen, fixed bytes. ``null`` stands for no limit. A text among the plans is
the reason of a refusal. The budget has the bytes for the cache on one rank at the low end, the
middle and the high end, never negative; ``null`` without a device.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from kvbench.device.conditions import Conditions
from kvbench.device.estimate import Estimate
from kvbench.engine import Scalar
from kvbench.layout import AdmissionRule, Group, RuledArrangement

#: Name of the artifact in ``CellOutput.artifacts``.
ARTIFACT = "arrangements"

#: Element type, tensor-parallel ranks, tokens per block or ``None``.
Choice = tuple[str, int, int | None]


def arrangements_json(
    *,
    model: str,
    engine: Mapping[str, Scalar],
    plans: Mapping[Choice, RuledArrangement | str],
    conditions: Conditions | None,
    budgets: Mapping[int, Estimate],
) -> str:
    """Return arrangements and budgets of one model as canonical JSON.

    Args:
        model: Name of the model.
        engine: Options of the layout's engine that were stated.
        plans: The arrangement of each choice, or why the layout refuses it.
        conditions: What the budgets were made for, ``None`` without a device.
        budgets: Bytes for the cache on one rank, by tensor-parallel ranks.
    """
    arranged = [plan for plan in plans.values() if not isinstance(plan, str)]
    texts = {choice: _canonical(_plan(plan)) for choice, plan in plans.items()}
    places = {text: place for place, text in enumerate(dict.fromkeys(texts.values()))}
    return _canonical(
        {
            "schema": 1,
            "model": model,
            "layout": arranged[0].layout if arranged else "",
            "engine": dict(engine),
            "max_model_len": arranged[0].max_model_len if arranged else 0,
            "grid": [[*choice, places[text]] for choice, text in texts.items()],
            "plans": [json.loads(text) for text in places],
            "budget": None if conditions is None else _budget(conditions, budgets),
        }
    )


def _plan(plan: RuledArrangement | str) -> Any:
    if isinstance(plan, str):
        return plan
    pairs = zip(plan.groups, plan.admission_rules, strict=True)
    groups = [_group(group, rule) for group, rule in pairs]
    return {
        "block": plan.block_size,
        "bytes": plan.bytes_per_block,
        "dtype": plan.kv_dtype,
        "groups": [[len([*same]), *group] for group, same in groupby(groups)],
        "costs": [
            [count, cost.entry_bytes, cost.compress, cost.visible_tokens, cost.fixed_bytes]
            for cost, count in plan.costs
        ],
    }


def _group(group: Group, rule: AdmissionRule) -> list[str | int | None]:
    window, size = group.window_tokens, group.block_size
    most = None if window is None else (window + size - 2) // size + 1
    resident = [most, group.fixed_blocks]
    admitted = [rule.fixed_blocks, rule.most_tokens, rule.extra_blocks]
    return [group.kind, group.layers, size, group.page_bytes, *resident, *admitted]


def _budget(at: Conditions, budgets: Mapping[int, Estimate]) -> dict[str, Any]:
    sizes = {
        str(ranks): [max(0, size.low), max(0, size.expected), max(0, size.high)]
        for ranks, size in budgets.items()
    }
    return {
        "device": at.device.name,
        "utilization": at.utilization,
        "tokens": at.tokens,
        "sequences": at.sequences,
        "ranks": sizes,
    }


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
