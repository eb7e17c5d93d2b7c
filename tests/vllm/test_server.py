"""Child servers: the command line, a leftover on the port, an early death, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kvbench.engine import EngineConfig
from kvbench.errors import CellFailed
from kvbench.model.spec import ModelSpec
from kvbench_vllm import server
from kvbench_vllm.memory import group_bytes
from kvbench_vllm.options import OPTIONS
from tests.vllm.scripted_server import page, serve_script

DEFAULTS = {option.name: option.default for option in OPTIONS if option.default is not None}


def config(tmp_path: Path, **settings) -> EngineConfig:
    (tmp_path / "config.json").write_text("{}")
    model = ModelSpec(name="m", layers=(), source=str(tmp_path / "config.json"))
    return EngineConfig(
        engine="vllm",
        plugin="vllm",
        settings={**DEFAULTS, **settings},
        model=model,
        log_path=tmp_path / "server.log",
    )


def run_instead(monkeypatch, code: str) -> None:
    """Start a Python program in place of vLLM."""
    monkeypatch.setattr(server, "command_line", lambda *_: [sys.executable, "-c", code])


def test_the_command_line_uses_the_engines_own_names(tmp_path):
    words = server.command_line(config(tmp_path, block_size=32, budget_bytes=1024), 80, "nonce")
    line = " ".join(words)
    assert "-m vllm.entrypoints.openai.api_server" in line
    assert "--served-model-name nonce" in line
    assert "--kv-cache-memory-bytes 1024" in line
    assert "--block-size 32" in line
    assert "--enable-prefix-caching" in line
    assert "--load-format dummy" in line


def test_off_switches_are_stated(tmp_path):
    words = server.command_line(config(tmp_path, enable_prefix_caching=False), 80, "nonce")
    assert "--no-enable-prefix-caching" in words


def test_a_dead_server_is_a_sentence_from_its_own_log(tmp_path, monkeypatch):
    said = "ValueError: No available memory for the cache blocks."
    run_instead(monkeypatch, f"import sys; sys.exit({said!r})")
    expected = pytest.raises(CellFailed, match="exit code 1: not one block fits")
    with expected as failure, server.serve(config(tmp_path)):
        pytest.fail("must not start")
    assert failure.value.reason == "no_cache_memory"


def test_a_server_of_somebody_else_is_never_measured(tmp_path, monkeypatch):
    models = page('{"data":[{"id":"another"}]}')
    run_instead(monkeypatch, "import time; time.sleep(60)")
    with serve_script(health=page("ok"), v1__models=models) as script:
        port = int(script.url.rpartition(":")[2])
        monkeypatch.setattr(server, "_free_port", lambda: port)
        with pytest.raises(CellFailed) as failure, server.serve(config(tmp_path)):
            pytest.fail("must not be taken for ours")
    assert failure.value.reason == "port_taken"


def test_the_whole_process_group_is_gone_afterwards(tmp_path, monkeypatch):
    pids = tmp_path / "pids"
    code = (
        "import subprocess, sys, time, os\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)\n"
    )
    run_instead(monkeypatch, code)
    monkeypatch.setattr(server, "is_healthy", lambda _: pids.exists() and pids.read_text() != "")
    monkeypatch.setattr(server, "_check_nonce", lambda _: None)
    with server.serve(config(tmp_path)) as running:
        leader, child = map(int, pids.read_text().split())
        assert running.process.pid == leader
        assert group_bytes(leader) > 0
    assert group_bytes(leader) is None
    assert not Path(f"/proc/{child}").exists() or _is_zombie(child)


def test_a_stopped_server_is_ended_too(tmp_path, monkeypatch):
    run_instead(monkeypatch, "import time; time.sleep(600)")
    monkeypatch.setattr(server, "is_healthy", lambda _: True)
    monkeypatch.setattr(server, "_check_nonce", lambda _: None)
    with server.serve(config(tmp_path)) as running:
        os.killpg(running.process.pid, signal.SIGSTOP)
    assert group_bytes(running.process.pid) is None
    assert running.guarding.poll() is not None


def test_a_server_that_is_killed_while_it_serves_is_a_sentence(tmp_path, monkeypatch):
    run_instead(
        monkeypatch, "print('ValueError: said before', flush=True); import time; time.sleep(600)"
    )
    monkeypatch.setattr(server, "is_healthy", lambda _: True)
    monkeypatch.setattr(server, "_check_nonce", lambda _: None)
    with server.serve(config(tmp_path)) as running:
        running.check_alive()
        os.killpg(running.process.pid, signal.SIGKILL)
        running.process.wait()
        with pytest.raises(CellFailed, match="ended while it served, killed by SIGKILL") as failure:
            running.check_alive()
    assert failure.value.reason == "server_killed"


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_server_dies_with_its_parent(tmp_path):
    """Kill the process that holds the server without giving it a chance to clean up."""
    pid = tmp_path / "pid"
    parent = (
        "import os, signal, subprocess, sys\n"
        "from kvbench_vllm.server import _die_with_parent\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " preexec_fn=_die_with_parent, start_new_session=True)\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", parent], check=False)
    child = int(pid.read_text())
    assert _ends(lambda: not Path(f"/proc/{child}").exists() or _is_zombie(child))


def test_the_whole_stopped_group_dies_with_its_parent(tmp_path):
    """The kernel's signal reaches only the leader, and a stopped process not at all."""
    pids = tmp_path / "pids"
    leader = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pids)!r} + '.part', 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        f"os.rename({str(pids)!r} + '.part', {str(pids)!r})\n"
        "time.sleep(600)\n"
    )
    parent = (
        "import os, signal, subprocess, sys, time\n"
        "from kvbench_vllm.guard import guard\n"
        f"leader = subprocess.Popen([sys.executable, '-c', {leader!r}], start_new_session=True)\n"
        "guard(leader.pid)\n"
        f"while not os.path.exists({str(pids)!r}): time.sleep(0.01)\n"
        "os.killpg(leader.pid, signal.SIGSTOP)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", parent], check=False)
    group = int(pids.read_text().split()[0])
    assert _ends(lambda: group_bytes(group) is None)


def _ends(condition):
    """Whether ``condition`` comes true; the limit is far beyond what any machine needs."""
    for _ in range(6000):
        if condition():
            return True
        subprocess.run(["sleep", "0.01"], check=True)
    return False


def test_attach_takes_the_served_model_and_starts_nothing():
    answers = {"v1__models": page('{"data":[{"id":"llama"}]}'), "version": page('{"version":"9"}')}
    with serve_script(**answers) as script:
        attached = server.attach(script.url + "/")
    assert (attached.endpoint.model, attached.process) == ("llama", None)
    assert attached.version == "9"


def test_a_server_that_does_not_state_its_version_is_attached_all_the_same():
    with serve_script(v1__models=page('{"data":[{"id":"llama"}]}')) as script:
        assert server.attach(script.url).version == ""


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (page('{"data":[]}'), "no_model_served"),
        (page("<html>"), "not_json"),
        (page("[]"), "not_json"),
        (page("", 401), "auth_refused"),
    ],
)
def test_attach_to_something_else_has_a_reason(answer, reason):
    with serve_script(v1__models=answer) as script, pytest.raises(CellFailed) as failure:
        server.attach(script.url)
    assert failure.value.reason == reason
