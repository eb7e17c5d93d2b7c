"""``kvbench explain URL``: the rules on one reading of ``/metrics``."""

from __future__ import annotations

import json

from click.testing import CliRunner

from kvbench.cli import cli
from kvbench_vllm.endpoint import TOKEN_VARIABLE
from kvbench_vllm.snapshot_rules import explain_page
from tests.vllm.scripted_server import page, serve_script

PAGE = """# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc {usage}
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running {running}
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting {waiting}
# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total 600
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total 576
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total 2
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{num_gpu_blocks="101",block_size="16"}} 1
"""


def said(usage, running, waiting):
    return explain_page(PAGE.format(usage=usage, running=running, waiting=waiting))


def test_a_busy_server_is_explained():
    use, queue, hits, preempted = said(1.0, 1, 3)
    assert use.startswith("Now: 100 of 100 blocks in use by 1 running request (engine); the rest")
    assert queue == "Now: Up to 3 requests waited (engine) for cache: the pool was full."
    assert hits.startswith("Since the server started: 576 of 600 prompt tokens were found")
    assert preempted.startswith("Since the server started: 2 times")


def test_an_idle_server_waits_for_nothing_and_a_late_gauge_is_named():
    assert said(0.0, 0, 0)[0].startswith("Now: 0 of 100 blocks in use by 0 running requests")
    assert not any("waited" in sentence for sentence in said(0.0, 0, 0))
    assert "before the engine freed its blocks" in said(0.25, 0, 0)[0]


def test_a_log_has_no_present_state_and_a_broken_page_says_so():
    assert explain_page("INFO GPU KV cache size: 32,768 tokens") == ()
    broken = explain_page("# TYPE vllm:x gauge\nvllm:x not a number\n")
    assert "is not read: /metrics is not Prometheus text" in broken[0]


def test_the_command_prints_the_state_of_a_server(monkeypatch):
    monkeypatch.setenv(TOKEN_VARIABLE, "s3cret")
    text = PAGE.format(usage=0.5, running=2, waiting=0)
    with serve_script(metrics=page(text)) as script:
        table = CliRunner().invoke(cli, ["explain", script.url])
        as_json = CliRunner().invoke(cli, ["explain", script.url, "--format", "json"])
    assert script.seen[0] == ("/metrics", "Bearer s3cret")
    assert "Now: 50 of 100 blocks in use by 2 running requests (engine)" in table.output
    assert json.loads(as_json.output)["state"][0].startswith("Now: 50 of 100")
