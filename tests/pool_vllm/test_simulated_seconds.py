"""Step-time models on the command line and in suites, as their users see them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kvbench.cli import main
from kvbench.device.catalog import load_device
from kvbench.engine import CellOutput
from kvbench.errors import KvbenchError
from kvbench.model.load import load_model
from kvbench.results import read_results
from kvbench_pool.plugin import kvbench_allocate
from tests.pool.cells import make_cell, value, values

_ROWS = [
    {"timestamp": 0, "input_length": 4, "output_length": 2, "hash_ids": [0]},
    {"timestamp": 500, "input_length": 4, "output_length": 2, "hash_ids": [1]},
    {"timestamp": 10_250, "input_length": 4, "output_length": 2, "hash_ids": [2]},
]

_SECOND = ("--step-time", "measured", "--step-base-s", "1")


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in _ROWS))
    return str(path)


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["simulate", *arguments, "--blocks", "100"])
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


def test_measured_seconds_by_hand(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Steps of a second, as in the hand-worked timeline: the last token is there at 12.25 s."""
    code, out, err = _run(capsys, trace, *_SECOND, "--format", "json")
    summary = json.loads(out)
    assert (code, err) == (0, "")
    assert (summary["step_time"], summary["evidence"]) == ("measured", "simulated")
    assert (summary["simulated_s"], summary["output_tokens_per_s"]) == (12.25, 6 / 12.25)
    assert (summary["p50_queue_s"], summary["p90_queue_s"]) == (0, 0.5)
    assert (summary["p50_ttft_s"], summary["p99_latency_s"]) == (1, 2.5)
    assert any("1 s + 0 s per prefill token" in line for line in summary["assumptions"])


def test_logical_is_what_it_was(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--digest", "--format", "json")
    silent = json.loads(_run(capsys, trace, *asked)[1])
    named = json.loads(_run(capsys, trace, *asked, "--step-time", "logical")[1])
    slow = json.loads(_run(capsys, trace, *asked, "--step-ms", "500")[1])
    assert silent["digest"] == named["digest"] != slow["digest"]
    assert "simulated_s" not in silent
    assert "A step is 50 ms whatever it computes." in silent["assumptions"]


def test_roofline_says_what_it_assumes(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--model", "llama-3.1-8b", "--step-time", "roofline", "--gpu", "h100")
    code, out, _ = _run(capsys, trace, *asked)
    assert code == 0
    assert "\n\nAssumptions:\n\n- " in out
    assert "\n- A step is a roofline on h100-80g" in out
    assert "p99_inter_token_s" in out
    lines = _run(capsys, trace, *asked, "--format", "csv")[1].splitlines()
    assert len(lines) == 2
    slow = json.loads(_run(capsys, trace, *asked, "--format", "json")[1])
    options = ("--bandwidth-efficiency", "1", "--step-overhead-ms", "0")
    fast = json.loads(_run(capsys, trace, *asked, *options, "--format", "json")[1])
    assert fast["p50_latency_s"] < slow["p50_latency_s"]


def test_a_gpu_of_ones_own(trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    figures = {"memory_bytes": 2**36, "bandwidth_bytes_per_s": 10**12, "flops_per_s": 10**14}
    path.write_text("[devices.mine]\n" + "".join(f"{k} = {v}\n" for k, v in figures.items()))
    asked = (trace, "--model", "llama-3.1-8b", "--step-time", "roofline", "--gpu")
    code, out, _ = _run(capsys, *asked, f"{path}#mine")
    assert code == 0
    assert "roofline on mine" in out
    assert f"no device 'yours'; there are: {path}#mine" in _run(capsys, *asked, f"{path}#yours")[2]
    assert "cannot be read" in _run(capsys, *asked, f"{tmp_path / 'none.toml'}#mine")[2]
    path.write_text("[devices.mine]\nmemory_bytes = 68719476736\n")
    assert "'mine' has no bandwidth_bytes_per_s" in _run(capsys, *asked, f"{path}#mine")[2]


def test_every_policy_says_what_a_step_is(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    summary = json.loads(_run(capsys, trace, "--policy", "radix", "--format", "json")[1])
    assert summary["assumptions"] == [
        "Decisions are those of kvbench's plain scheduler: first come, first served.",
        "A step is 50 ms whatever it computes.",
    ]
    clocked = json.loads(_run(capsys, trace, "--policy", "radix", *_SECOND, "--format", "json")[1])
    assert (clocked["step_time"], clocked["simulated_s"]) == ("measured", 12.25)
    assert (clocked["p50_queue_s"], clocked["p90_queue_s"]) == (0, 0.5)


def test_a_run_keeps_seconds_and_assumptions(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert _run(capsys, trace, *_SECOND, "-o", str(folder))[0] == 0
    records = pq.read_table(folder / "requests.parquet").to_pylist()
    assert [record["finish_s"] for record in records] == [2, 3, 12.25]
    assert [record["scheduled_s"] for record in records] == [0, 1, 10.25]
    results = read_results(folder)
    samples = results.samples.to_pylist()
    (ttft,) = [row for row in samples if row["metric"] == "p50_ttft_s"]
    assert (ttft["value"], ttft["unit"], ttft["evidence"]) == (1, "s", "simulated")
    running = [row for row in samples if row["metric"] == "running_requests"]
    assert [row["t_offset_us"] / 1e6 for row in running] == [0, 1, 2, 10.25, 11.25]
    (cell,) = results.cells.to_pylist()
    assert json.loads(cell["effective_json"])["step_time"] == "measured"
    assert "per prefill token" in (folder / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--step-time", "roofline", "--gpu", "h100"], "needs --model"),
        (["--step-time", "roofline", "--model", "llama-3.1-8b"], "needs --gpu"),
        (
            ["--step-time", "roofline", "--model", "llama-3.1-8b", "--gpu", "h1000"],
            "did you mean",
        ),
        (
            ["--step-time", "roofline", "--model", "llama-3.1-70b", "--gpu", "h100"],
            "do not fit h100-80g",
        ),
        (["--step-time", "measured"], "needs constants above 0"),
        (["--step-time", "measured", "--step-base-s", "-1"], "--step-base-s"),
        (["--step-time", "fast"], "logical"),
        (["--gpu", "h100"], "--gpu belongs to --step-time roofline, not logical"),
        ([*_SECOND, "--step-ms", "5"], "--step-ms belongs to --step-time logical, not measured"),
    ],
)
def test_refusals(
    arguments: list[str], message: str, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = _run(capsys, trace, *arguments)
    assert (code, out) == (2, "")
    assert message in err


_LOAD = {"kind": "constant", "requests": 30, "prompt_tokens": 512, "output_tokens": 64}


def _allocate(rate_per_s: float = 5.0, **settings: object) -> CellOutput:
    arrivals = {"arrival": "poisson", "rate_per_s": rate_per_s}
    cell = make_cell(
        model=load_model("llama-3.1-8b"),
        workload=_LOAD | arrivals,
        pool_blocks=4000,
        device="h100",
        **settings,  # type: ignore[arg-type]
    )
    return kvbench_allocate(
        cell=dataclasses.replace(cell, device=load_device("h100")), session=None
    )


def test_a_suite_asks_for_seconds() -> None:
    output = _allocate(step_time="roofline")
    assert output.effective["step_time"] == "roofline"
    assert any("roofline on h100-80g" in line for line in output.assumptions)
    assert value(output, "p99_latency_s") >= value(output, "p50_latency_s") > 0
    assert value(output, "mean_queue_s") >= 0
    offsets = [
        one.t_offset_s or 0.0 for one in output.observations if one.metric == "running_requests"
    ]
    assert offsets == sorted(offsets)
    assert 0 < offsets[0] < offsets[-1]
    logical = _allocate()
    assert logical.effective["step_time"] == "logical"
    assert not values(logical, "simulated_s")


def test_more_load_waits_longer() -> None:
    waits = [
        value(
            _allocate(rate, step_time="roofline", max_num_seqs=4, max_num_batched_tokens=512),
            "mean_queue_s",
        )
        for rate in (1.0, 1000.0)
    ]
    assert waits[0] < waits[1]


def test_arrivals_at_another_rate(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Half as fast, the requests come at 0, 1 and 20.5 s; steps of a second as before."""
    arguments = (trace, *_SECOND, "--rate-scale", "0.5", "--format", "json")
    summary = json.loads(_run(capsys, *arguments)[1])
    assert (summary["simulated_s"], summary["mean_queue_s"]) == (22.5, 0)
    assert value(_allocate(step_time="roofline"), "mean_queue_s") < value(
        _allocate(step_time="roofline", rate_scale=1000.0, max_num_seqs=4), "mean_queue_s"
    )


def test_the_search_for_concurrency_has_the_clock_too() -> None:
    output = _allocate(study="max_concurrency", step_time="roofline", max_num_seqs=4)
    assert value(output, "admissible_concurrency_requests") == 4
    assert any("roofline on h100-80g" in line for line in output.assumptions)


def test_refused_cells() -> None:
    for policy in ("vllm", "radix"):
        with pytest.raises(KvbenchError, match="needs constants above 0"):
            _allocate(step_time="measured", policy=policy)
    with pytest.raises(KvbenchError, match="bandwidth_efficiency is 2"):
        _allocate(step_time="roofline", bandwidth_efficiency=2.0)
