"""A real server: started, measured, attached to, observed, explained, and gone afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvbench.results import read_results
from kvbench_vllm.memory import group_bytes
from kvbench_vllm.server import serve
from tests.engine.vllm.conftest import MODELS, config_of

SUITE = """
schema = 1
[suite]
name = "served"
[protocol]
warmup = 0
repeats = 1
cache = "CACHE"
[engines.vllm]
plugin = "vllm"
options = { OPTIONS }
[models.gqa]
config = "MODELS/tiny-llama-gqa/config.json"
[[benchmark]]
name = "served"
stage = "measure"
engines = ["vllm"]
[benchmark.matrix]
model = ["gqa"]
requests = [2]
prompt_tokens = [200]
output_tokens = [40]
"""
_STARTED = "block_size = 32, budget_bytes = 4194304, max_model_len = 1024"


def kvbench(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "kvbench", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )


def suite_file(folder: Path, options: str, cache: str = "cold") -> Path:
    text = SUITE.replace("OPTIONS", options).replace("CACHE", cache)
    path = folder / "suite.toml"
    path.write_text(text.replace("MODELS", str(MODELS)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    config = config_of("tiny-llama-gqa", block_size=32, blocks=64)
    with serve(config) as running:
        yield running
        group = running.process.pid
    assert group_bytes(group) is None, "processes of the server are left"


def totals(results):
    return {row["metric"]: row["value"] for row in results.samples.to_pylist()}


@pytest.mark.parametrize(("cache", "hits"), [("cold", 0), ("primed", 2 * 192)])
def test_attached_server_is_measured_from_the_asked_cache_state(server, tmp_path, cache, hits):
    path = suite_file(tmp_path, f'url = "{server.endpoint.url}"', cache)
    done = kvbench("run", str(path), "-o", str(tmp_path / "run"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = totals(read_results(tmp_path / "run"))
    assert found["hit_tokens"] == hits
    assert found["requests_count"] == 2
    assert found["request_tokens"] == 240
    assert found["predicted_peak_blocks"] == 2 * 8
    assert server.process.poll() is None, "attaching must not stop the server"


def test_observe_and_explain_read_the_running_server(server, tmp_path):
    url = server.endpoint.url
    done = kvbench("observe", url, "-o", str(tmp_path / "seen"), "--for", "1", "--interval", "0.2")
    assert done.returncode == 0, done.stderr
    results = read_results(tmp_path / "seen")
    assert "usage_ratio" in results.samples["metric"].to_pylist()
    explained = kvbench("explain", url)
    assert explained.returncode == 0, explained.stdout + explained.stderr
    assert "64" in explained.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_the_run_is_stopped(tmp_path, number):
    path = suite_file(tmp_path, _STARTED)
    command = [sys.executable, "-m", "kvbench", "run", str(path), "-o", str(tmp_path / "run")]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        marker = str(MODELS / "tiny-llama-gqa")
        started = _wait_for(lambda: _servers(marker, run.pid))
        assert started, "the server was not started"
        os.kill(run.pid, number)
        run.wait(300)
        assert _wait_for(lambda: not any(map(_alive, started))), "the server is still there"
    finally:
        run.kill()
        run.wait()


def _wait_for(condition, limit_s=300.0):
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.2)
    return None


def _servers(marker, run):
    """API servers of the model that descend from the process ``run``."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_text("utf-8", "replace").split("\0")
        except OSError:
            continue
        if "vllm.entrypoints.openai.api_server" in words and marker in words:
            found += [int(entry.name)] if run in _ancestors(int(entry.name)) else []
    return found


def _ancestors(pid):
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
