"""``/metrics`` pages: a recorded one, older names, gaps, restarts and junk."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvbench.errors import CellFailed
from kvbench_vllm.endpoint import Endpoint
from kvbench_vllm.scrape import NAMES, differences, parse, scrape
from tests.vllm.scripted_server import page, reset, serve_script

RECORDED = (Path(__file__).parent / "data" / "metrics_0.32.txt").read_text("utf-8")


def counters(hits: int) -> str:
    return f"# TYPE vllm:prefix_cache_hits counter\nvllm:prefix_cache_hits_total {hits}\n"


def test_a_recorded_page_of_0_32_has_every_name():
    snapshot = parse(RECORDED)
    assert snapshot.missing == {}
    assert set(snapshot.values) == set(NAMES)
    assert snapshot.cache_config["num_gpu_blocks"] == "128"
    assert snapshot.cache_config["block_size"] == "32"


def test_older_names_are_the_same_quantity():
    text = "# TYPE vllm:gpu_cache_usage_perc gauge\nvllm:gpu_cache_usage_perc 0.25\n"
    assert parse(text).values["usage_ratio"] == 0.25


def test_a_missing_metric_is_unknown_with_its_reason():
    snapshot = parse(counters(3))
    assert "usage_ratio" not in snapshot.values
    assert "vllm:kv_cache_usage_perc" in snapshot.missing["usage_ratio"]


def test_a_value_that_is_no_number_is_unknown_too():
    snapshot = parse("# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc NaN\n")
    assert "usage_ratio" not in snapshot.values
    assert snapshot.missing["usage_ratio"] == "the server states nan for it"


def test_usage_of_several_engines_is_the_fullest_and_counts_add_up():
    text = (
        "# TYPE vllm:kv_cache_usage_perc gauge\n"
        'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:kv_cache_usage_perc{engine="1"} 0.5\n'
        "# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{engine="0"} 2\nvllm:num_requests_running{engine="1"} 3\n'
    )
    values = parse(text).values
    assert (values["usage_ratio"], values["running_requests"]) == (0.5, 5)


def test_counters_are_differences():
    assert differences(parse(counters(3)), parse(counters(10))) == {"hit_tokens": 7}


def test_a_restarted_server_counts_from_zero():
    assert differences(parse(counters(10)), parse(counters(4))) == {"hit_tokens": 4}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (page("{}", 404), "endpoint_off"),
        (page("no", 401), "auth_refused"),
        (page("no", 403), "auth_refused"),
        (page("no", 500), "server_error"),
        (page('vllm:x{a="unterminated 1\n'), "metrics_unreadable"),
        (page("vllm:x one two three four\n"), "metrics_unreadable"),
        (reset, "server_unreachable"),
    ],
)
def test_a_page_that_cannot_be_read_has_a_reason(answer, reason):
    with serve_script(metrics=answer) as script, pytest.raises(CellFailed) as failure:
        scrape(Endpoint(url=script.url))
    assert failure.value.reason == reason
    assert "\n" not in str(failure.value)


def test_a_huge_page_is_refused(monkeypatch):
    monkeypatch.setattr("kvbench_vllm.http.MOST_PAGE_BYTES", 1000)
    with serve_script(metrics=page("x" * 2000)) as script, pytest.raises(CellFailed) as failure:
        scrape(Endpoint(url=script.url))
    assert failure.value.reason == "page_too_large"


def test_nobody_listening_is_unreachable():
    with serve_script() as script:
        url = script.url
    with pytest.raises(CellFailed) as failure:
        scrape(Endpoint(url=url))
    assert failure.value.reason == "server_unreachable"
