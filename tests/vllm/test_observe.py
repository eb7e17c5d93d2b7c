"""``kvbench observe`` against a scripted server: gaps, restarts, bounds, refusals."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kvbench.cli import cli
from kvbench.errors import CellFailed, EngineUnavailable
from kvbench.observe import Series
from kvbench.results import read_results
from kvbench_vllm.observer import observe
from kvbench_vllm.plugin import kvbench_measure, kvbench_observe
from tests.vllm.scripted_server import page, serve_script

PAGE = """# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc {usage}
# TYPE vllm:prefix_cache_hits counter
vllm:prefix_cache_hits_total {hits}
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{num_gpu_blocks="101",block_size="16"}} 1
"""


def pages(*answers):
    """Answer each request with the next of ``answers``, the last one for ever."""
    left = list(answers)

    def answer(handler):
        (left.pop(0) if len(left) > 1 else left[0])(handler)

    return answer


def reading(usage, hits):
    return page(PAGE.format(usage=usage, hits=hits))


def run(url, folder, *options):
    arguments = ["observe", url, "-o", str(folder), "--interval", "0.05", *options]
    return CliRunner().invoke(cli, arguments)


def test_a_server_becomes_a_run(tmp_path):
    answers = pages(reading(0.0, 0), reading(0.25, 10), reading(0.5, 30), reading(0.0, 30))
    with serve_script(metrics=answers) as script:
        result = run(script.url, tmp_path / "run", "--for", "0.6")
    assert result.exit_code == 0, result.output
    results = read_results(tmp_path / "run")
    rows = results.samples.to_pylist()
    usage = [row["value"] for row in rows if row["metric"] == "usage_ratio"]
    assert max(usage) == 0.5
    assert [row["value"] for row in rows if row["metric"] == "hit_tokens"] == [30]
    assert {row["evidence"] for row in rows} == {"engine"}
    assert (tmp_path / "run" / "report.html").exists()


def test_gaps_and_restarts_are_survived():
    answers = pages(reading(0.1, 100), reading(0.2, 110), page("", 500), reading(0.0, 5))
    with serve_script(metrics=answers) as script:
        observer = observe(script.url)
        assert observer.read().totals["hit_tokens"] == 10
        with pytest.raises(CellFailed, match="HTTP 500"):
            observer.read()
        assert observer.read().totals["hit_tokens"] == 15


def test_another_kind_of_server_is_not_claimed(tmp_path):
    with serve_script(metrics=page("# TYPE up gauge\nup 1\n")) as script:
        result = run(script.url, tmp_path / "run", "--for", "0")
    assert result.exit_code != 0
    assert "no engine plugin recognises" in str(result.exception)
    assert not (tmp_path / "run").exists()


def test_refused_access_names_the_variable():
    refused = pytest.raises(CellFailed, match="KVBENCH_API_TOKEN")
    with serve_script(metrics=page("", 401)) as script, refused:
        observe(script.url)


@pytest.mark.parametrize("hook", [kvbench_observe, lambda _: kvbench_measure(None, None)])
def test_without_the_library_the_remedy_installs_it(monkeypatch, hook):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EngineUnavailable, match=r"pip install .*prometheus-client"):
        hook("http://localhost")


def test_a_long_watch_is_bounded_and_keeps_its_peak():
    series = Series(most=10, interval_s=1.0)
    for index in range(1000):
        series.add(float(index), {"usage_ratio": 1.0 if index == 345 else 0.0})
    assert len(series.readings) <= 10
    assert (345.0, {"usage_ratio": 1.0}) in series.readings
    assert series.interval_s > 1.0
