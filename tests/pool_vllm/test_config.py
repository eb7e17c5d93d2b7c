"""Configurations that no engine could run are refused with the value and what would be right."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kvbench.errors import KvbenchError
from kvbench_pool.vllm_policy.config import CacheGroup, GroupKind, PoolConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_blocks": 1}, "num_blocks is 1; expected at least 2"),
        ({"watermark": -0.1}, "watermark is -0.1; expected at least 0"),
        ({"watermark": 2.0}, "watermark is 2.0; expected a share below 1"),
        ({"watermark": math.nan}, "watermark is nan; expected at least 0"),
        ({"step_ms": 0.0}, "step_ms is 0.0; expected a number above 0"),
        ({"step_ms": math.inf}, "step_ms is inf; expected a number above 0"),
        ({"groups": ()}, "groups is empty"),
        (
            {"max_num_seqs": 9, "max_num_batched_tokens": 5},
            "max_num_batched_tokens is 5; expected at least 9",
        ),
    ],
)
def test_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(KvbenchError) as refused:
        PoolConfig(**{"num_blocks": 10, **options})
    assert message in str(refused.value)


def test_a_request_fits_by_its_tokens_or_where_all_layers_hold_states_by_their_pages() -> None:
    tokens = PoolConfig(num_blocks=4, block_size=16)
    assert tokens.fits(40, 8)
    assert not tokens.fits(40, 9)
    pages = CacheGroup(kind=GroupKind.STATE, fixed_blocks=2)
    states = PoolConfig(num_blocks=4, block_size=16, groups=(pages,), enable_prefix_caching=False)
    assert states.fits(10_000, 1)
    crowded = PoolConfig(num_blocks=4, groups=(pages, pages), enable_prefix_caching=False)
    assert not crowded.fits(1, 1), "4 pages, 3 usable blocks"
