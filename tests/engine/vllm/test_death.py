"""A real server that is killed, hangs or meets a taken port: its cell fails, the next one runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvbench.errors import CellFailed
from kvbench.results import read_results
from kvbench_vllm import server
from kvbench_vllm.endpoint import Endpoint
from kvbench_vllm.memory import group_bytes
from kvbench_vllm.scrape import scrape
from tests.engine.vllm.conftest import MODELS, config_of
from tests.engine.vllm.test_server import _servers, _wait_for

#: The first benchmark starts the server with all the time it needs; the second one is disturbed.
SUITE = f"""
schema = 1
[suite]
name = "disturbed"
[protocol]
warmup = 0
repeats = 1
order = "sequential"
on_failure = "continue"
cache = "warm"
[engines.vllm]
plugin = "vllm"
options = {{ block_size = 32, budget_bytes = 33554432, max_model_len = 8192 }}
[models.gqa]
config = "{MODELS}/tiny-llama-gqa/config.json"
[[benchmark]]
name = "before"
stage = "measure"
engines = ["vllm"]
options = {{ prompt_tokens = 32, output_tokens = 2 }}
[benchmark.matrix]
model = ["gqa"]
[[benchmark]]
name = "disturbed"
stage = "measure"
engines = ["vllm"]
options = {{ prompt_tokens = 32, output_tokens = 8000 }}
[benchmark.protocol]
timeout_s = LIMIT
[benchmark.matrix]
model = ["gqa"]
[[benchmark]]
name = "after"
stage = "measure"
engines = ["vllm"]
options = {{ prompt_tokens = 32, output_tokens = 3 }}
[benchmark.matrix]
model = ["gqa"]
"""


@contextmanager
def running(folder: Path, limit_s: int) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A run whose second cell is being served, and the process group of its server."""
    path = folder / "suite.toml"
    path.write_text(SUITE.replace("LIMIT", str(limit_s)), encoding="utf-8")
    command = [sys.executable, "-m", "kvbench", "run", str(path), "-o", str(folder / "run")]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        found = _wait_for(lambda: _servers(str(MODELS / "tiny-llama-gqa"), run.pid), 300)
        assert found, "no server was started"
        assert _wait_for(lambda: _serves_a_long_request(found[0]), 300), "nothing was served"
        yield run, found[0]
    finally:
        run.kill()
        run.wait()


def _serves_a_long_request(pid: int) -> bool:
    """Whether the second cell's request has begun to generate."""
    words = Path(f"/proc/{pid}/cmdline").read_text("utf-8").split("\0")
    port = words[words.index("--port") + 1]
    try:
        values = scrape(Endpoint(url=f"http://127.0.0.1:{port}")).values
    except CellFailed:
        return False
    return values["running_requests"] > 0 and values["generation_tokens"] > 2


def outcome(folder: Path) -> dict[str, tuple[str, str | None, str]]:
    cells = read_results(folder / "run").cells.to_pylist()
    return {one["benchmark"]: (one["status"], one["reason"], one["error"] or "") for one in cells}


def test_a_killed_server_fails_its_cell_and_the_next_cell_runs(tmp_path):
    with running(tmp_path, limit_s=600) as (run, group):
        os.kill(group, signal.SIGKILL)
        assert run.wait(600) == 3
    found = outcome(tmp_path)
    assert found["before"][0] == found["after"][0] == "passed", found
    status, reason, error = found["disturbed"]
    assert (status, reason) == ("failed", "server_killed")
    assert error == "the server ended while it served, killed by SIGKILL (out of host memory?)"
    assert group_bytes(group) is None


def test_a_hanging_server_is_a_timeout_and_nothing_is_left(tmp_path):
    with running(tmp_path, limit_s=30) as (run, group):
        os.killpg(group, signal.SIGSTOP)
        assert run.wait(600) == 3
        assert _wait_for(lambda: group_bytes(group) is None, 120), "the stopped server is left"
    found = outcome(tmp_path)
    assert found["before"][0] == found["after"][0] == "passed", found
    assert found["disturbed"] == ("timeout", "timeout", "no answer within 30 s")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("hangs", [False, True], ids=["serving", "stopped"])
def test_no_process_of_the_server_is_left_when_kvbench_ends(tmp_path, number, hangs):
    with running(tmp_path, limit_s=600) as (run, group):
        if hangs:
            os.killpg(group, signal.SIGSTOP)
        os.kill(run.pid, number)
        run.wait(120)
        assert _wait_for(lambda: group_bytes(group) is None, 120), "the server is still there"


def test_a_port_that_is_taken_is_left_alone_and_another_one_used(monkeypatch):
    free = server._free_port
    with subprocess.Popen(
        [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as other:
        try:
            taken = int(other.stdout.readline().split(b" port ")[1].split()[0])
            ports = [taken, free()]
            monkeypatch.setattr(server, "_free_port", lambda: ports.pop(0))
            with server.serve(config_of("tiny-llama-gqa", block_size=32, blocks=64)) as ours:
                assert ours.endpoint.url != f"http://127.0.0.1:{taken}"
                assert not ports
            assert other.poll() is None
        finally:
            other.kill()
