"""What vLLM refuses is a sentence on its cell, and the next cell runs."""

from __future__ import annotations

import re

import pytest

from kvbench.testing import SuiteRunner
from tests.engine.vllm.conftest import MODELS

SUITE = f"""
schema = 1
[suite]
name = "refusals"
[protocol]
warmup = 0
repeats = 1
on_failure = "continue"
[engines.vllm]
plugin = "vllm"
options = {{ max_num_batched_tokens = 512, max_num_seqs = 4, async_scheduling = false }}
[models.gqa]
config = "{MODELS}/tiny-llama-gqa/config.json"
[[benchmark]]
name = "refused"
stage = "size"
engines = ["vllm"]
[benchmark.matrix]
model = ["gqa"]
[benchmark.zip]
block_size = [16, 128, 32, 32, 32, 32]
max_model_len = [512, 4096, 512, 512, 100000, 512]
kv_dtype = ["auto", "auto", "fp9", "auto", "auto", "auto"]
budget_bytes = [4194304, 8388608, 4194304, 109951162777600, 4194304, 4194304]
"""
EXPECTED = [
    ("failed", "block_size_refused", r"blocks of 16 tokens .*MultipleOf\(32\)"),
    (
        "failed",
        "context_exceeds_cache",
        r"4096 tokens; vLLM says 3968 would fit.*at most 3968 tokens fit",
    ),
    ("failed", "dtype_refused", r"it takes 'auto'"),
    ("failed", "oom", r"lower budget_bytes"),
    ("failed", "context_exceeds_model", r"at most 8192"),
    ("passed", None, ""),
]


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    outcome = SuiteRunner(tmp_path_factory.mktemp("refusals"))(SUITE)
    assert outcome.exit_code == 3
    return sorted(outcome.results.cells.to_pylist(), key=lambda cell: cell["ordinal"])


@pytest.mark.parametrize(("place", "expected"), list(enumerate(EXPECTED)))
def test_every_refusal_is_one_sentence_with_its_reason(cells, place, expected):
    cell, (status, reason, words) = cells[place], expected
    assert (cell["status"], cell["reason"]) == (status, reason), cell["error"]
    assert re.search(words, cell["error"] or "")
    assert "\n" not in (cell["error"] or "")


def test_a_missing_checkpoint_is_named(tmp_path):
    suite = SUITE.split("[benchmark.zip]")[0].replace(
        "async_scheduling = false", 'checkpoint = "/no/such/folder", budget_bytes = 4194304'
    )
    outcome = SuiteRunner(tmp_path)(suite)
    assert outcome.results.cells["reason"].to_pylist() == ["checkpoint_missing"]
