"""Token ids keep the prefix identity of a workload."""

from __future__ import annotations

import pytest

from kvbench.workload.request import MultimodalItem, Request
from kvbench_vllm.prompts import cache_salt, output_token_ids, prompt_token_ids


def request(*hash_ids, prompt_tokens=40, **fields):
    return Request(
        arrival_ms=0,
        prompt_tokens=prompt_tokens,
        output_tokens=6,
        hash_ids=hash_ids,
        hash_tokens=16 if hash_ids else 0,
        **fields,
    )


def test_equal_leading_ids_are_equal_leading_tokens():
    one = prompt_token_ids(request(1, 2, 3), "a", 4096)
    other = prompt_token_ids(request(1, 2, 9), "b", 4096)
    assert (len(one), one[:32] == other[:32], one[32:] == other[32:]) == (40, True, False)


def test_requests_without_identity_share_nothing():
    one, other = (prompt_token_ids(request(), name, 4096) for name in "ab")
    assert len(one) == 40
    assert one[:16] != other[:16]


def test_items_part_prefixes_where_they_begin():
    def prompt(identifier, offset_tokens):
        item = MultimodalItem(identifier=identifier, offset_tokens=offset_tokens, tokens=12)
        return prompt_token_ids(request(1, 2, 3, multimodal=(item,)), "a", 4096)

    plain, cat = prompt_token_ids(request(1, 2, 3), "a", 4096), prompt("cat", 20)
    assert cat == prompt("cat", 20)
    assert cat[:20] == plain[:20] == prompt("dog", 20)[:20]
    assert cat[32:] == plain[32:]
    assert len({tuple(one[20:32]) for one in (plain, cat, prompt("dog", 20))}) == 3
    assert prompt("cat", 19)[19:31] != cat[19:31]


def test_outputs_are_stated_or_nobody_elses():
    assert output_token_ids(request(output_ids=[5, 4100]), "a", 4096) == [5, 4]
    one, other = (output_token_ids(request(1), name, 4096) for name in "ab")
    assert (len(one), one == other) == (6, False)


@pytest.mark.parametrize(
    ("fields", "salt", "expected"),
    [({}, "", ""), ({"salt": "s"}, "run", "run/s"), ({"lora": "l", "salt": "s"}, "", "l/s")],
)
def test_salts_and_adapters_keep_requests_apart(fields, salt, expected):
    assert cache_salt(request(1, **fields), salt) == expected
