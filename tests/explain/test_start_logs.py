"""vLLM's start-up lines from public reports, each figure with its right explanation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from kvbench.cli import cli
from kvbench.explain.finding import Explanation, Verdict
from kvbench.model.load import load_model
from kvbench_vllm.start_log_explain import explain_start_log

from ..conftest import shared_path


def rows() -> list[dict[str, Any]]:
    found = []
    for name in ("dense", "hybrid"):
        text = shared_path(f"truth/startup_logs/{name}.jsonl").read_text(encoding="utf-8")
        found += [json.loads(line) for line in text.splitlines()]
    return found


def quoted(row: dict[str, Any]) -> str:
    lines = row["quoted"]
    return "\n".join(lines) if isinstance(lines, list) else lines.replace(" | ", "\n")


def explain(text: str, model: str | None = None) -> Explanation:
    found = explain_start_log(text, None if model is None else load_model(model, weights=False))
    assert found is not None
    return found


def verdicts(found: Explanation) -> dict[str, Verdict]:
    return {each.figure: each.verdict for each in found.findings}


def words(found: Explanation, figure: str) -> str:
    return next(each.words for each in found.findings if each.figure == figure)


def test_no_exact_row_is_contradicted() -> None:
    """A row whose arithmetic is known to be right has no figure that arithmetic refutes."""
    checked = 0
    for row in rows():
        if row.get("check_status", row.get("check")) not in ("exact", "consistent"):
            continue
        found = explain_start_log(quoted(row), None)
        if found is None or "exceeds available Mamba" in quoted(row):
            continue
        wrong = [each for each in found.findings if each.verdict is Verdict.CONTRADICTED]
        assert not wrong, (row["source"], wrong)
        checked += 1
    assert checked >= 20


def test_every_dense_budget_adds_up() -> None:
    checked = 0
    for row in rows():
        if row.get("activation_gib") is None or row.get("total_gpu_gib") is None:
            continue
        assert verdicts(explain(quoted(row)))["available KV cache memory"] is Verdict.DERIVED
        checked += 1
    assert checked == 4


@pytest.mark.parametrize(
    ("text", "model", "formula"),
    [
        (
            "tensor_parallel_size=8\nAvailable KV cache memory: 46.80 GiB\n"
            "GPU KV cache size: 715,072 tokens",
            "Kimi-K2-Instruct",
            "44,692 blocks × 16 tokens",
        ),
        (
            "kv_cache_dtype=fp8 max_num_batched_tokens=8192\nAvailable KV cache memory: 6.01 GiB\n"
            "GPU KV cache size: 569,878 tokens\n"
            "Maximum concurrency for 131,072 tokens per request: 4.35x",
            "Qwen3.5-35B-A3B",
            "int(300 blocks / 69 a request × 131,072 tokens)",
        ),
        (
            "tensor_parallel_size=2 max_num_batched_tokens=64000\n"
            "Available KV cache memory: 2.30 GiB\nGPU KV cache size: 75,840 tokens\n"
            "Maximum concurrency for 120,000 tokens per request: 2.48x",
            "Kimi-Linear-48B-A3B",
            "318 blocks // 4 groups × 960 tokens",
        ),
        (
            "Setting attention block size to 784 tokens\nGPU KV cache size: 290,864 tokens\n"
            "Maximum concurrency for 32,768 tokens per request: 33.04x\nnum_gpu_blocks is: 1487",
            "Qwen3.5-27B",
            "1,487 blocks // 4 groups × 784 tokens",
        ),
    ],
)
def test_token_figures_from_the_geometry(text: str, model: str, formula: str) -> None:
    found = explain(text, model)
    assert formula in words(found, "GPU KV cache size")
    assert Verdict.CONTRADICTED not in verdicts(found).values()


def test_another_model_is_contradicted() -> None:
    text = "Available KV cache memory: 46.80 GiB\nGPU KV cache size: 715,072 tokens"
    found = explain(text, "Llama-3.1-8B")
    assert verdicts(found)["GPU KV cache size"] is Verdict.CONTRADICTED
    assert "383,3" in words(found, "GPU KV cache size")


def test_one_long_request_that_does_not_fit_is_derived() -> None:
    found = explain(
        "max seq len (1048576), 22.5 GiB KV cache is needed, which is larger than the available KV "
        "cache memory (17.39 GiB). Based on the available memory, the estimated maximum model "
        "length is 810208."
    )
    assert verdicts(found)["estimated maximum model length"] is Verdict.DERIVED
    assert "23,040 B a token" in words(found, "estimated maximum model length")


def test_a_need_that_is_affine_says_so() -> None:
    found = explain(
        "max seq len (30000), (6.66 GiB KV cache is needed, which is larger than the available KV "
        "cache memory (5.44 GiB). Based on the available memory, the estimated maximum model "
        "length is 13528."
    )
    assert "4.44 GiB for each request" in words(found, "estimated maximum model length")


def test_the_pool_behind_a_token_figure() -> None:
    found = explain(
        "GPU KV cache size: 1,553,140 tokens, Maximum concurrency for 1,000,000 tokens per "
        "request: 1.55x"
    )
    assert "int(643 / 414 × 1,000,000)" in words(found, "maximum concurrency")


def test_a_token_figure_that_misleads() -> None:
    found = explain(
        "GPU KV cache size: 67,728 tokens\n"
        "Maximum concurrency for 180,000 tokens per request: 1.06x"
    )
    assert verdicts(found)["GPU KV cache size"] is Verdict.MISLEADING


def test_a_budget_that_does_not_add_up_is_contradicted() -> None:
    found = explain(
        "total_gpu_memory (80.00GiB) x gpu_memory_utilization (0.90) = 72.00GiB\n"
        "model weights take 15.00GiB; non_torch_memory takes 0.25GiB; PyTorch activation peak "
        "memory takes 1.00GiB; the rest of the memory reserved for KV Cache is 60.00GiB."
    )
    assert verdicts(found)["available KV cache memory"] is Verdict.CONTRADICTED


def test_graphs_are_part_of_the_budget_since_0_21() -> None:
    found = explain(
        "Initial free memory: 79.00 GiB; Requested memory: 0.90 (util), 71.27 GiB\n"
        "Total non KV cache memory: 17.12GiB; torch peak memory increase: 1.89GiB; non-torch "
        "forward increase memory: 0.25GiB; weights memory: 14.98GiB.\n"
        "Estimated CUDA graph memory: 0.84 GiB total\nAvailable KV cache memory: 53.31 GiB"
    )
    assert verdicts(found)["available KV cache memory"] is Verdict.DERIVED
    assert "0.84 for graphs" in words(found, "available KV cache memory")


def test_the_catalog_entry_that_a_log_names() -> None:
    found = explain(
        "Initializing a V1 LLM engine (v0.10.1) with config: model='Qwen/Qwen2.5-7B', "
        "tensor_parallel_size=1\nAvailable KV cache memory: 5.01 GiB\n"
        "GPU KV cache size: 93,872 tokens"
    )
    assert found.engine == "vllm 0.10.1"
    assert "5,867 blocks × 16 tokens" in words(found, "GPU KV cache size")


@pytest.mark.parametrize("text", ["", "hello", "\x00" * 100, "KV cache", "GPU blocks: many"])
def test_what_is_no_log(text: str) -> None:
    assert explain_start_log(text, None) is None


def test_the_command(tmp_path: Any) -> None:
    log = tmp_path / "start.log"
    log.write_text("# GPU blocks: 5970, # CPU blocks: 682\nstored in KV cache (95520)\n")
    result = CliRunner().invoke(cli, ["explain", str(log), "--format", "json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["engine"] == "vllm"
    assert document["findings"][0]["verdict"] == "derived"


def test_exit_codes_of_the_command() -> None:
    run = CliRunner().invoke
    assert run(cli, ["explain", "-"], input="nothing").exit_code == 4
    wrong = "Available KV cache memory: 1.0 GiB\nGPU KV cache size: 715,072 tokens"
    assert run(cli, ["explain", "-", "--model", "Llama-3.1-8B"], input=wrong).exit_code == 1


def test_a_page_of_metrics() -> None:
    found = explain(
        'vllm:cache_config_info{block_size="32",kv_cache_max_concurrency="2.0",'
        'kv_cache_memory_bytes="8388608",kv_cache_size_tokens="4096",num_gpu_blocks="128"} 1.0'
    )
    assert "128 × 32 = 4,096" in words(found, "GPU KV cache size")
    assert "between 1,998 and 2,101 tokens" in words(found, "maximum concurrency")
    assert words(found, "bytes per token").startswith("available / tokens = 0.007812500 GiB")
