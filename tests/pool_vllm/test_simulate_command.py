"""``kvbench simulate`` as its user sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kvbench.cli import main
from kvbench.results import read_results

_ROWS = [
    {"timestamp": 0, "input_length": 40, "output_length": 3, "hash_ids": [0]},
    {"timestamp": 1000, "input_length": 40, "output_length": 2, "hash_ids": [0]},
]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in _ROWS))
    return path


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["simulate", *arguments])
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


def test_summary_by_hand(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two prompts of 40 tokens: the second finds the two full blocks of the first."""
    code, out, err = _run(capsys, str(trace), "--blocks", "10", "--digest", "--format", "json")
    summary = json.loads(out)
    assert (code, err) == (0, "")
    assert summary["steps"] == 3 + 2
    assert summary["hit_tokens"] == 32
    assert summary["query_tokens"] == 80
    assert summary["sched_tokens"] == 42 + (8 + 1)
    assert summary["peak_used_blocks"] == 3
    assert summary["peak_cached_blocks"] == 2
    assert summary["last_k"] == 1000 // 50 + 1
    assert len(summary["digest"]) == 64
    assert summary["evidence"] == "simulated"


@pytest.mark.parametrize(("interval", "cached"), [((), 2), (("0",), 1), (("16",), 2)])
def test_windows_keep_all_prefixes_or_those_of_an_interval(
    interval: tuple[str, ...], cached: int, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A window of 4 tokens needs one block; the prompt's last token is in the third."""
    chosen = [part for value in interval for part in ("--prefix-cache-retention-interval", value)]
    window = ("--sliding-window", "4", "--format", "json", *chosen)
    code, out, _ = _run(capsys, str(trace), "--blocks", "10", *window)
    assert code == 0
    assert json.loads(out)["peak_cached_blocks"] == cached
    assert json.loads(out)["hit_tokens"] == 32


@pytest.mark.parametrize("output_format", ["table", "csv", "md"])
def test_other_formats(output_format: str, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, str(trace), "--blocks", "10", "--format", output_format)
    assert code == 0
    assert "hit_tokens" in out


@pytest.mark.parametrize(
    "options",
    [
        ["--async-scheduling"],
        ["--sliding-window", "16"],
        ["--hybrid-window", "16"],
        ["--no-prefix-caching"],
        ["--no-reserve-full-prompt", "--watermark", "0.1"],
        ["--num-lookahead-tokens", "3"],
    ],
)
def test_options_run(options: list[str], trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(capsys, str(trace), "--blocks", "20", "--format", "json", *options)
    assert code == 0
    assert json.loads(out)["requests"] == 2


def test_output_folder_of_another_policy(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    arguments = (
        "--policy",
        "static",
        "--max-model-len",
        "64",
        "--blocks",
        "10",
        "--format",
        "json",
    )
    code, out, _ = _run(capsys, str(trace), *arguments, "-o", str(folder))
    assert code == 0
    summary = json.loads((folder / "summary.json").read_text())
    assert summary == json.loads(out)
    rows = read_results(folder).samples.to_pylist()
    assert {row["evidence"] for row in rows} == {"simulated"}
    peak = [row["value"] for row in rows if row["metric"] == "peak_used_blocks"]
    assert peak == [summary["peak_used_blocks"]]
    assert peak[0] % 4 == 0, "every request takes 64 tokens, 4 blocks"
    assert (folder / "report.html").exists()


def test_refused_source_leaves_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert _run(capsys, "lognorml:requests=3", "--blocks", "10", "-o", str(folder))[0] == 2
    assert not folder.exists()


def test_output_folder(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    arguments = (str(trace), "--blocks", "10", "-o", str(folder))
    assert _run(capsys, *arguments)[0] == 0
    records = pq.read_table(folder / "requests.parquet").to_pylist()
    assert [record["hit_tokens"] for record in records] == [0, 32]
    results = read_results(folder)
    samples = results.samples.to_pylist()
    used = [row["value"] for row in samples if row["metric"] == "used_blocks"]
    assert {row["evidence"] for row in samples} == {"simulated"}
    assert (folder / "report.html").exists()
    assert max(used) == json.loads((folder / "summary.json").read_text())["peak_used_blocks"] == 3
    code, _, err = _run(capsys, *arguments)
    assert code == 2
    assert "not empty" in err


def test_bad_line_is_named(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace.write_text(trace.read_text() + '{"timestamp": 0, "input_length": -4}\n')
    code, out, err = _run(capsys, str(trace), "--blocks", "10", "--format", "json")
    assert (code, out) == (2, "")
    assert f"{trace}:3" in err
    assert len(err.splitlines()) == 1
    code, out, err = _run(
        capsys, str(trace), "--blocks", "10", "--format", "json", "--bad-lines", "count"
    )
    assert code == 0
    assert json.loads(out)["requests"] == 2
    assert "1 bad line" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--blocks"),
        (["--blocks", "9", "--sliding-window", "4", "--hybrid-window", "4"], "exclude"),
        (["--blocks", "9", "--policy", "radix", "--digest"], "vllm policy"),
        (["--blocks", "9", "--max-num-batched-tokens", "8"], "max_num_batched_tokens"),
        (["--blocks", "9", "--policy", "radix", "--no-prefix-caching"], "vllm policy"),
        (["--blocks", "9", "--policy", "static", "--num-lookahead-tokens", "2"], "vllm policy"),
        (["--blocks", "9", "--max-model-len", "64"], "contiguous, buddy, static"),
        (["--blocks", "9", "--kv-dtype", "fp8_e4m3"], "--kv-dtype needs --model"),
        (["--blocks", "9", "--tp", "2"], "--tp needs --model"),
        (["--blocks", "9", "--model", "gpt-oss-20b", "--hybrid-window", "4"], "cache groups"),
        (["--budget", "1KiB", "--model", "Llama-3.1-8B"], "buys 0 blocks of 2097152 bytes"),
        (["--budget", "1KiB", "--model", "Llama-3.1-8B", "--policy", "radix"], "buys 0 blocks"),
        (["--blocks", "9", "--watermark", "1"], "--watermark"),
        (["--blocks", "9", "--step-ms", "inf"], "finite"),
        (["--blocks", "9", "--rate-scale", "nan"], "finite"),
    ],
)
def test_refusals(
    arguments: list[str], message: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = _run(capsys, str(trace), *arguments)
    assert (code, out) == (2, "")
    assert message in err


def test_generators_and_other_policies(capsys: pytest.CaptureFixture[str]) -> None:
    source = "constant:requests=5,prompt_tokens=20,output_tokens=4"
    for policy in ("vllm", "radix", "no_sharing", "contiguous"):
        code, out, _ = _run(
            capsys, source, "--blocks", "50", "--policy", policy, "--format", "json"
        )
        assert code == 0
        assert json.loads(out)["requests"] == 5


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("nowhere.csv", [], "nowhere.csv: no such file"),
        ("lognormal", [], "lognormal:key=value"),
        ("lognorml:requests=3", [], "did you mean 'lognormal'"),
        ("constant:requests=3,requests=4", [], "'requests' is given twice"),
        ("constant:requests=3", ["--limit", "2"], "limit: only for traces"),
        ("constant:requests=3", ["--bad-lines", "count"], "on_bad_line: only for traces"),
    ],
)
def test_refused_sources(
    source: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = _run(capsys, source, "--blocks", "10", *options)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_folder_is_no_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _run(capsys, str(tmp_path), "--blocks", "10")
    assert code == 2
    assert "a folder" in err


def test_a_limit_cuts_the_trace_of_a_suite_or_a_generator(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = trace.with_name("suite.toml")
    suite.write_text(f'[workloads.chat]\nkind = "trace"\npath = "{trace.name}"\n')
    limit = ("--blocks", "10", "--limit", "1", "--format", "json")
    assert json.loads(_run(capsys, f"{suite}#chat", *limit)[1])["requests"] == 1
    drawn = f"empirical:path={trace},requests=3"
    assert json.loads(_run(capsys, drawn, *limit)[1])["sched_tokens"] == 3 * (40 + 2)


def test_nothing_left_to_run_is_exit_code_4(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = _run(capsys, str(trace), "--blocks", "2", "--format", "json")
    assert (code, json.loads(out)["dropped_requests"]) == (4, 2)
    assert err == "kvbench: 2 requests left out, too large for 2 blocks.\n"


@pytest.mark.parametrize(("policy", "blocks_each"), [("contiguous", 43 / 16), ("buddy", 4)])
def test_reservations_default_to_the_longest_request(
    policy: str, blocks_each: float, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first request ends with 43 tokens; a buddy's piece is the next power of two, 64."""
    options = ("--blocks", "10", "--policy", policy, "--format", "json")
    code, out, _ = _run(capsys, str(trace), *options)
    summary = json.loads(out)
    assert code == 0
    assert summary["max_model_len"] == 43
    assert summary["peak_used_blocks"] == blocks_each
    assert "Each request reserves 43 tokens for its whole life." in summary["assumptions"]


def test_a_reservation_larger_than_the_pool_is_named(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--blocks", "10", "--policy", "static", "--max-model-len", "161")
    code, _, err = _run(capsys, str(trace), *options)
    assert code == 4
    assert "longer than 161 tokens (--max-model-len), or too large for 10 blocks" in err


def test_policies_with_one_table_count_every_layer(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A block of theirs holds 16 tokens in all 24 layers; one of vLLM's in 12 of gpt-oss."""
    options = ("--blocks", "50", "--model", "gpt-oss-20b", "--format", "json")
    costs = {}
    for policy in ("vllm", "radix"):
        code, out, _ = _run(capsys, str(trace), *options, "--policy", policy)
        assert code == 0
        costs[policy] = json.loads(out)["bytes_per_block"]
    # Keys and values, 8 heads of 64, bf16, 16 tokens.
    assert costs == {"vllm": 12 * 2 * 8 * 64 * 2 * 16, "radix": 24 * 2 * 8 * 64 * 2 * 16}
    grouped = ("--policy", "radix", "--layout", "vllm")
    code, _, err = _run(capsys, str(trace), *options, *grouped)
    assert code == 2
    assert "use layout 'paged'" in err


def test_state_layers_are_vllms_business(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--blocks", "50", "--model", "Falcon-H1-0.5B", "--policy", "no_sharing")
    code, _, err = _run(capsys, str(trace), *options)
    assert code == 2
    assert "'state'" in err


def test_a_model_adds_bytes(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _run(
        capsys, str(trace), "--blocks", "50", "--format", "json", "--model", "llama-3.1-8b"
    )
    summary = json.loads(out)
    assert code == 0
    # 32 layers, keys and values, 8 heads of 128, bf16, 16 tokens.
    assert summary["bytes_per_block"] == 32 * 2 * 8 * 128 * 2 * 16
    assert summary["peak_used_bytes"] == 3 * summary["bytes_per_block"]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("whisper-large-v3", "the vllm policy does not simulate 'cross' layers"),
    ],
)
def test_layers_that_are_not_simulated_are_named(
    model: str, message: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = _run(capsys, str(trace), "--blocks", "50", "--model", model)
    assert (code, out) == (2, "")
    assert message in err


def test_states_alone_take_the_same_page_at_any_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """10,000 tokens in a page of the pool's 2; the second request comes when the first ended."""
    path = tmp_path / "long.jsonl"
    rows = [{"arrival_ms": at, "prompt_tokens": 10_000, "output_tokens": 2} for at in (0, 9000)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    options = ("--blocks", "3", "--model", "Mamba-Codestral-7B", "--format", "json")
    code, out, err = _run(capsys, str(path), *options)
    summary = json.loads(out)
    assert (code, err) == (0, "")
    assert (summary["requests"], summary["peak_used_blocks"]) == (2, 1)
    assert summary["mean_internal_frag"] == 0


def test_fragmentation_beside_states_is_that_of_the_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blocks of 544: 3 groups hold 2 pages of states each, one block has 300, 301 of 544 tokens."""
    path = tmp_path / "one.jsonl"
    path.write_text('{"prompt_tokens": 300, "output_tokens": 2}\n')
    options = ("--blocks", "20", "--model", "Qwen3-Next-80B-A3B", "--format", "json")
    code, out, _ = _run(capsys, str(path), *options)
    summary = json.loads(out)
    assert code == 0
    assert (summary["block_size"], summary["peak_used_blocks"]) == (544, 3 * 2 + 1)
    empty = [(544 - tokens) / (7 * 544) for tokens in (300, 301)]
    assert summary["mean_internal_frag"] == pytest.approx(sum(empty) / 2)
