"""Models whose layers have blocks of unequal size, from a ``config.json`` to the summary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvbench.model.load import load_model
from tests.conftest import shared_path
from tests.pool.cells import allocate, value, values
from tests.pool_vllm.test_simulate_command import _run

#: 5 groups of window 1024 with blocks of 16, one of full attention with blocks of 32.
GEMMA_4 = "truth/vllm_kv/configs/Gemma-4-31B-IT.json"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """The same prompt of 100 tokens twice, the second when the first has ended."""
    path = tmp_path / "trace.jsonl"
    rows = [
        {"timestamp": at, "input_length": 100, "output_length": 1, "hash_ids": [0]}
        for at in (0, 1000)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_a_config_in_the_vllm_layout(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """100 tokens: 5 times 7 blocks of 16, and 4 of 32; 96 tokens end blocks of all groups."""
    config = str(shared_path(GEMMA_4))
    options = ("--blocks", "80", "--layout", "vllm", "--format", "json")
    code, out, err = _run(capsys, str(trace), "--model", config, *options)
    summary = json.loads(out)
    assert (code, err) == (0, "")
    assert summary["peak_used_blocks"] == 5 * 7 + 4
    assert summary["hit_tokens"] == 96
    assert summary["peak_cached_blocks"] == 5 * 6 + 3
    # 10 layers, keys and values of 16 heads of 256, bf16, 16 tokens; the full ones 4 of 512, 32.
    assert summary["bytes_per_block"] == 10 * 2 * 16 * 256 * 2 * 16 == 10 * 2 * 4 * 512 * 2 * 32
    assert summary["peak_used_bytes"] == 39 * summary["bytes_per_block"]


@pytest.mark.parametrize(
    ("model", "peak", "hit"),
    [
        # One full group of 32, 5 groups of window 128 with blocks of 16.
        ("MiMo-V2-Flash", 4 + 5 * 7, 96),
        # One full group of 16, 4 groups of window 512 with blocks of 32.
        ("gemma-4-E2B", 7 + 4 * 4, 96),
        # Latents in one block of 256, two windows in blocks of 64, compressors in 4 and 8: no
        # block of 256 is full.
        ("DeepSeek-V4-Flash", 1 + 2 * 2 + 25 + 13, 0),
    ],
)
def test_catalog_models(
    model: str, peak: int, hit: int, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = _run(capsys, str(trace), "--blocks", "80", "--model", model, "--format", "json")
    summary = json.loads(out)
    assert (code, summary["peak_used_blocks"], summary["hit_tokens"]) == (0, peak, hit)


def test_a_suites_cell() -> None:
    """The parts of the pool sum to it at every step, and what is not live are tails."""
    workload = {
        "kind": "shared_prefix",
        "requests": 8,
        "prefix_tokens": 96,
        "prompt_tokens": 20,
        "output_tokens": 40,
    }
    options = {"policy": "vllm", "workload": workload, "pool_blocks": 400}
    gemma = load_model(str(shared_path(GEMMA_4)))
    output = allocate(model=gemma, **options)
    assert output.effective["layout"] == "vllm 0.32.0"
    parts = [
        values(output, f"part_{name}_blocks")
        for name in ("live", "shared", "tail", "reserved", "state", "cached", "free", "null")
    ]
    assert {sum(moment) for moment in zip(*parts, strict=True)} == {400}
    assert value(output, "live_ratio") + value(output, "tail_waste_ratio") == pytest.approx(1)
    assert value(output, "hit_tokens") == 7 * 96
    search = allocate(model=gemma, study="max_concurrency", max_num_seqs=8, **options)
    assert value(search, "admissible_concurrency_requests") == 8
