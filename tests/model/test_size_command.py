"""``kvbench size`` and ``kvbench models`` as their users run them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from kvbench.cli import main

KEYS = (
    "model", "layout", "tokens", "requests", "block_size", "kv_dtype", "tp", "pp",
    "slope_bytes_per_token", "intercept_bytes", "logical_bytes", "blocks", "paged_bytes",
    "tail_waste_bytes", "fragmentation", "groups", "assumptions",
)  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        main(["size", *arguments])
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0
    else:
        code = 0
    output = capsys.readouterr()
    return code, output.out, output.err


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    code, out, err = run(capsys, *arguments, "--format", "json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_one_model_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "Llama-3.1-8B", "--tokens", "4100", "--requests", "8")
    assert set(KEYS) <= set(answer)
    assert answer["logical_bytes"] == 537_395_200
    assert (answer["blocks"], answer["paged_bytes"]) == (257, 514 << 20)
    assert answer["tail_waste_bytes"] == 3 << 19
    assert answer["fragmentation"] == pytest.approx(12 / 4112)
    assert answer["total_paged_bytes"] == 8 * (514 << 20)
    assert answer["groups"] == [
        {
            "kind": "full",
            "layers": 32,
            "block_size": 16,
            "page_bytes": 65536,
            "page_unpadded_bytes": 65536,
            "window_tokens": None,
            "fixed_blocks": None,
            "blocks": 257,
        }
    ]


@pytest.mark.parametrize("budget", ["16GiB", "16g", "17179869184", "16 GiB"])
def test_budget_with_suffixes(budget: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "gpt-oss-20b", "--layout", "vllm", "--tokens", "32768", "--budget", budget)
    assert (answer["num_blocks"], answer["bytes_per_block"]) == (43_690, 393_216)
    assert answer["blocks_per_request"] == 2048 + 1033
    assert answer["max_concurrency"] == pytest.approx(14.18, abs=0.005)
    logged = answer["engine_logged"]
    assert logged["max_model_len"] == 131_072
    assert logged["kv_cache_size_tokens"] == answer["capacity_tokens"]
    assert logged["max_concurrency"] == pytest.approx(answer["capacity_tokens"] / 131_072, abs=1e-5)


def test_budget_below_one_request(capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "Llama-3.1-8B", "--budget", "1MiB")
    assert answer["num_blocks"] == 0
    assert answer["max_concurrency"] == 0.0
    assert answer["bound_by"] == "one request exceeds the budget"


def test_several_models_keep_order_and_report_the_refused_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(capsys, "Qwen3-32B", "nope", "DeepSeek-V3", "--format", "json")
    answers = json.loads(out)
    assert code == 3
    assert [answer["model"] for answer in answers] == ["Qwen3-32B", "nope", "DeepSeek-V3"]
    assert set(answers[1]) == {"model", "error"}
    assert answers[0]["logical_bytes"] == 2_147_483_648


def test_one_refused_model_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "falcon-7b", "--layout", "vllm", "--tp", "2")
    assert (code, out) == (2, "")
    assert err == (
        "kvbench: falcon-7b: vLLM refuses tensor parallel size 2: 71 attention heads are not "
        "divisible by it\n"
    )


def test_grid_over_every_axis(capsys: pytest.CaptureFixture[str]) -> None:
    axes = ("--tokens", "4k,8k", "--kv-dtype", "bf16,fp8", "--tp", "1,8", "--block-size", "16,32")
    answers = ask(capsys, "Llama-3.1-8B", *axes)
    assert len(answers) == 16
    at = {(a["tokens"], a["kv_dtype"], a["tp"], a["block_size"]): a for a in answers}
    assert at[8192, "fp8_e4m3", 8, 32]["logical_bytes"] == (1 << 30) // 16


def test_ranges_in_csv(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "Llama-3.1-8B", "--tokens", "1000:5000:1000", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["tokens"] for row in rows] == ["1000", "2000", "3000", "4000", "5000"]
    assert {row["slope_bytes_per_token"] for row in rows} == {"131072"}


def test_lengths_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("100\n200\n\n4096\n", encoding="utf-8")
    answer = ask(capsys, "Llama-3.1-8B", "--lengths", str(path), "--budget", "8GiB")
    lengths = answer["lengths"]
    assert (answer["requests"], lengths["total_tokens"], lengths["p50_tokens"]) == (3, 4396, 200)
    assert lengths["total_logical_bytes"] == 4396 * 131_072
    assert lengths["total_blocks"] == 7 + 13 + 256
    assert lengths["max_concurrency"] == pytest.approx(3 * 4096 / 276)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no lengths"), (b"12\nabc\n", ":2: 'abc'"), (b"-5\n", ":1: '-5'"), (b"\xff", "utf-8")],
)
def test_broken_lengths(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lengths.txt"
    path.write_bytes(content)
    code, out, err = run(capsys, "Llama-3.1-8B", "--lengths", str(path))
    assert (code, out) == (2, "")
    assert message in err


def test_why_shows_the_formula(capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "DeepSeek-V3", "--why", "--tokens", "100")
    assert "(d_c 512 + d_rope 64) · 2 B = 1152 B, replicated on every rank" in answer["why"][0]
    engine = ask(capsys, "Qwen3.5-27B", "--why", "--layout", "vllm")
    assert any("= 784 tokens" in line for line in engine["why"])


def test_engine_options_by_their_own_names(capsys: pytest.CaptureFixture[str]) -> None:
    small = ask(
        capsys, "--layout", "vllm", "--max-num-batched-tokens", "2048", "gpt-oss-20b",
        "--no-async-scheduling", "--max-model-len=32768", "--budget", "1GiB",
    )  # fmt: skip
    assert small["admission_blocks"] == 512 + -(-(127 + 2048) // 16) + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("Llama-3.1-8B", "--layout", "vlm"), "no layout 'vlm'; did you mean 'vllm'?"),
        (("Llama-3.1-8B", "--max-model-len", "5"), "no option --max-model-len"),
        (("Llama-3.1-8B", "--token", "5"), "no option --token"),
        (
            ("Llama-3.1-8B", "--layout", "vllm", "--max-model-le", "5"),
            "did you mean '--max-model-len'?",
        ),
        (("Llama-3.1-8B", "--layout", "vllm", "--max-model-len"), "needs a value"),
        (("Llama-3.1-8B", "--layout", "vllm", "--max-model-len", "x"), "needs a whole number"),
        (("Llama-3.1-8B", "--tokens", "0"), "must be between 1"),
        (("Llama-3.1-8B", "--tokens", "4.5"), "is not a count"),
        (("Llama-3.1-8B", "--tokens", "1:100"), "start:stop:step"),
        (("Llama-3.1-8B", "--tokens", "9:1:1"), "a range goes up"),
        (("Llama-3.1-8B", "--tokens", "1:900000:1", "--tp", "1,2"), "at most 1,000,000"),
        (("Llama-3.1-8B", "--budget", "8 gigs"), "is not an amount of bytes"),
        (("Llama-3.1-8B", "--budget", "0"), "out of range"),
        (("Llama-3.1-8B", "--requests", "0"), "not in the range"),
        (("Llama-3.1-8B", "--kv-dtype", "fp9"), "no KV cache dtype 'fp9'"),
        (("Llama-3.1-8B", "--tokens", "5", "--lengths", "x"), "exclude each other"),
        (("--tokens", "5"), "Missing argument"),
        (("nowhere/config.json",), "no such file"),
    ],
)
def test_mistakes_are_exit_code_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_table_is_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "gemma-3-27b-it", "--layout", "vllm")
    assert code == 0
    assert "1,107,296,256 B (1.03 GiB)" in out
    assert "assumptions: max_num_batched_tokens 8192, 16384 tokens in flight" in out


def test_a_length_beyond_the_model_is_an_assumption(capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "opt-125m", "--tokens", "5000")
    assert "5,000 tokens exceed the 2,048 that the model states" in answer["assumptions"]


def test_models_lists_the_catalog(capsys: pytest.CaptureFixture[str]) -> None:
    main_models(capsys)


def main_models(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["models", "--format", "json"])
    assert left.value.code in (0, None)
    rows = {row["model"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["DeepSeek-V3"]["slope_bytes_per_token"] == 70_272
    assert rows["gemma-3-27b-it"]["kinds"] == "52 sliding + 10 full"
    assert all(row["config_source"] for row in rows.values())
