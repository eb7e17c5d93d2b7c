"""Each rule on figures as the engine gave them."""

from __future__ import annotations

import pytest

from kvbench_vllm.rules import Facts, explain

EIGHT = Facts(
    requests=8,
    usage_start=0.0,
    usage_peak=64 / 255,
    usage_end=0.0,
    usable_blocks=255,
    predicted_blocks=64,
    memory_low_bytes=10**9,
    memory_high_bytes=10**9 + 1,
)


def test_eight_equal_requests_are_explained():
    text = " ".join(explain(EIGHT))
    assert "64 of 255 blocks (engine)" in text
    assert "the same" in text
    assert "allocated as a whole at the start" in text
    assert "came back" in text


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (dict(usage_start=0.0, usage_peak=0.5, usage_end=0.5, running_end=2), "still running"),
        (dict(usage_start=0.0, usage_peak=0.5, usage_end=0.5, running_end=0), "read before"),
        (dict(query_tokens=600.0, hit_tokens=512.0), "512 of 600"),
        (dict(query_tokens=600.0, hit_tokens=0.0), "new, or its blocks were evicted"),
        (dict(waiting_peak=5.0, usage_peak=1.0), "the pool was full"),
        (dict(waiting_peak=5.0, usage_peak=0.2, running_peak=4, max_num_seqs=4), "among the 4"),
        (dict(waiting_peak=5.0, usage_peak=0.2, running_peak=3, max_num_seqs=4), "token budget"),
        (dict(preemptions=2.0), "2 times"),
        (
            dict(
                usage_start=0.0,
                usage_peak=0.5,
                memory_low_bytes=10**9,
                memory_high_bytes=2 * 10**9,
            ),
            "grew by 1000000000 bytes",
        ),
        (dict(usage_peak=1.0, usable_blocks=10, predicted_blocks=20), "more than the pool has"),
        (dict(usage_peak=0.5, usable_blocks=10, predicted_blocks=3), "other requests"),
        (
            dict(requests=2, usage_peak=0.5, usable_blocks=10, predicted_blocks=8, hit_tokens=32.0),
            "held once",
        ),
        (
            dict(usage_peak=0.5, usable_blocks=10, predicted_blocks=8, hit_tokens=32.0),
            "not all were at full length",
        ),
        (dict(usage_peak=0.0, usable_blocks=10, predicted_blocks=8), "no reading"),
        (
            dict(usage_start=0.0, usage_peak=0.5, usage_end=0.0, query_tokens=9.0),
            "retained prefixes do not count",
        ),
    ],
)
def test_causes_are_told_apart(facts, words):
    assert words in " ".join(explain(Facts(**{"requests": 1, **facts})))


def test_unknown_figures_say_nothing():
    assert explain(Facts(requests=1)) == []
