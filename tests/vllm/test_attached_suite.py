"""A suite against a server that runs already, from the suite's text to results and report."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvbench.testing import SuiteRunner
from tests.vllm.scripted_server import page, serve_script, stream, token_events

MODEL = Path(__file__).resolve().parents[2] / "suites/data/models/tiny-llama-gqa/config.json"
METRICS = (Path(__file__).parent / "data" / "metrics_0.32.txt").read_text("utf-8")
SUITE = """
schema = 1
[suite]
name = "attached"
[protocol]
warmup = 0
repeats = 1
cache = "warm"
on_failure = "continue"
[engines.vllm]
plugin = "vllm"
options = { url = "URL", watch_s = 0.0, sample_ms = 20 }
[models.gqa]
config = "MODEL"
[[benchmark]]
name = "served"
stage = "measure"
engines = ["vllm"]
[benchmark.matrix]
model = ["gqa"]
output_tokens = [3, 5]
"""
GOOD = {
    "v1__models": page('{"data":[{"id":"llama"}]}'),
    "version": page('{"version":"0.31.0"}'),
    "metrics": page(METRICS),
    "v1__completions": stream(token_events(3, prompt_tokens=60)),
}


def run(tmp_path, **answers):
    with serve_script(**{**GOOD, **answers}) as script:
        text = SUITE.replace("URL", script.url).replace("MODEL", str(MODEL))
        return SuiteRunner(tmp_path)(text)


def test_everything_that_a_server_reports_is_registered_and_kept(tmp_path):
    outcome = run(tmp_path)
    cells = outcome.results.cells.to_pylist()
    assert [cell["status"] for cell in cells] == ["passed", "passed"], cells
    assert '"server_version":"0.31.0"' in cells[0]["effective_json"]
    assert "0.31.0" not in str(cells[0]["engine_version"])
    rows = [
        row for row in outcome.results.samples.to_pylist() if row["cell_id"] == cells[0]["cell_id"]
    ]
    found = {row["metric"]: row["value"] for row in rows}
    assert (found["request_tokens"], found["requests_count"]) == (63, 1)
    # 62 tokens of 32 a block: the last token is never fed back.
    assert found["predicted_peak_blocks"] == 2
    assert {"usage_ratio", "ttft_s", "latency_s", "client_cpu_s", "hit_tokens"} <= found.keys()


@pytest.mark.parametrize(
    ("answers", "reason", "words"),
    [
        ({"metrics": page("", 404)}, "metrics_unreadable", "does not exist on this server"),
        ({"metrics": page("# TYPE vllm:x gauge\nvllm:x y z\n")}, "metrics_unreadable", "not Prom"),
        ({"v1__models": page("", 401)}, "auth_refused", "KVBENCH_API_TOKEN"),
        ({"v1__completions": page("no", 500)}, "requests_failed", "1x HTTP 500: no"),
        ({"v1__completions": stream(b"data: x\n\n")}, "requests_failed", "before its end mark"),
    ],
)
def test_what_goes_wrong_is_a_sentence_on_its_cell(tmp_path, answers, reason, words):
    outcome = run(tmp_path, **answers)
    assert outcome.exit_code != 0
    for cell in outcome.results.cells.to_pylist():
        assert (cell["status"], cell["reason"]) == ("failed", reason), cell
        assert words in cell["error"]
        assert "\n" not in cell["error"]
