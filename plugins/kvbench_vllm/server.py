"""A vLLM API server as a child process: proven to be ours, and gone afterwards."""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kvbench.engine import EngineConfig
from kvbench.errors import CellFailed
from kvbench_vllm.endpoint import Endpoint
from kvbench_vllm.failures import explain_death
from kvbench_vllm.guard import dismiss, guard
from kvbench_vllm.http import get_json, is_healthy
from kvbench_vllm.in_process import engine_arguments
from kvbench_vllm.memory import group_bytes

START_LIMIT_S = 600.0
_STOP_LIMIT_S = 15.0
_PORT_TRIES = 3
_POLL_S = 0.25
#: prctl option: signal that the kernel sends to the child when its parent dies.
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server.

    Attributes:
        endpoint: Where it listens; the model name is this start's nonce.
        process: The child, ``None`` when kvbench only attached.
        log: File with everything the child printed.
        config: What it was started with.
        startup_s: Seconds from the start of the process to a proven, healthy server.
        version: vLLM's version as an attached server states it.
        guarding: Ends the child's process group should this process die.
    """

    endpoint: Endpoint
    process: subprocess.Popen[bytes] | None = None
    log: Path | None = None
    config: EngineConfig | None = None
    startup_s: float = 0.0
    version: str = ""
    guarding: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """Stop a child with its whole process group; an attached server is left alone."""
        if self.process is not None:
            stop(self.process)
        if self.guarding is not None:
            dismiss(self.guarding)

    def check_alive(self) -> None:
        """Raise when the child has died.

        Raises:
            CellFailed: It has; the message ends with what the server last said.
        """
        if self.process is not None and self.process.poll() is not None:
            raise _death(self.process, self.log, self.config, "while it served")


@contextmanager
def serve(config: EngineConfig) -> Iterator[Server]:
    """Start a server with the suite's engine options; stop its whole process group afterwards.

    Raises:
        CellFailed: It does not start, or another server answers on its port.
    """
    log = config.log_path or Path(tempfile.mkstemp(prefix="kvbench-vllm-", suffix=".log")[1])
    server = _started(config, log)
    try:
        yield server
    finally:
        server.close()
        if config.log_path is None:
            log.unlink(missing_ok=True)


def attach(url: str) -> Server:
    """Use a server that is already running, without changing it.

    Raises:
        CellFailed: It does not answer, or serves no model.
    """
    endpoint = Endpoint(url=url.rstrip("/"))
    models = get_json(endpoint, "/v1/models").get("data") or []
    if not models:
        raise CellFailed("no_model_served", f"{url} serves no model")
    return Server(
        endpoint=Endpoint(url=endpoint.url, model=str(models[0]["id"])),
        version=_version(endpoint),
    )


def _version(endpoint: Endpoint) -> str:
    try:
        return str(get_json(endpoint, "/version").get("version", ""))
    except CellFailed:
        return ""


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the process group: politely, then not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal_group(process, number)
        # What was stopped acts on a signal only when it goes on.
        _signal_group(process, signal.SIGCONT)
        try:
            process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            continue
        break
    # The leader may be gone before its engine processes are.
    _signal_group(process, signal.SIGKILL)
    deadline = time.monotonic() + _STOP_LIMIT_S
    while group_bytes(process.pid) and time.monotonic() < deadline:
        time.sleep(_POLL_S / 10)


def command_line(config: EngineConfig, port: int, nonce: str) -> list[str]:
    """Command line of the API server module; ``vllm serve`` needs a distribution named vllm."""
    arguments = engine_arguments(config)
    arguments.pop("disable_log_stats")
    words = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    words += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", nonce]
    words += ["--enable-prompt-tokens-details", "--disable-uvicorn-access-log"]
    for name, value in arguments.items():
        words += _option(name.replace("_", "-"), value)
    return words


def _option(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    return [f"--{name}", str(value)]


def _started(config: EngineConfig, log: Path) -> Server:
    for _ in range(_PORT_TRIES):
        try:
            return _start_once(config, log, _free_port())
        except CellFailed as failure:
            if failure.reason != "port_taken":
                raise
    raise CellFailed("port_taken", f"no free port for a server after {_PORT_TRIES} tries")


def _start_once(config: EngineConfig, log: Path, port: int) -> Server:
    nonce = f"kvbench-{secrets.token_hex(8)}"
    start = time.monotonic()
    with log.open("ab") as output:
        process = subprocess.Popen(
            command_line(config, port, nonce),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"},
            preexec_fn=_die_with_parent,
        )
    server = Server(
        endpoint=Endpoint(url=f"http://127.0.0.1:{port}", model=nonce),
        process=process,
        log=log,
        config=config,
        guarding=guard(process.pid),
    )
    try:
        _wait_until_ours(process, server.endpoint, config, log, start)
    except BaseException:
        server.close()
        raise
    return replace(server, startup_s=time.monotonic() - start)


def _wait_until_ours(
    process: subprocess.Popen[bytes],
    endpoint: Endpoint,
    config: EngineConfig,
    log: Path,
    start: float,
) -> None:
    while time.monotonic() - start < START_LIMIT_S:
        # Alive before health: an old server on the port must never be taken for ours.
        if process.poll() is not None:
            raise _death(process, log, config, "while it started")
        if is_healthy(endpoint):
            _check_nonce(endpoint)
            return
        time.sleep(_POLL_S)
    raise CellFailed("start_timeout", f"the server was not ready after {START_LIMIT_S:.0f} s")


def _check_nonce(endpoint: Endpoint) -> None:
    served = [str(model.get("id")) for model in get_json(endpoint, "/v1/models").get("data", [])]
    if endpoint.model not in served:
        raise CellFailed("port_taken", f"another server answers on {endpoint.url}")


def _death(
    process: subprocess.Popen[bytes], log: Path | None, config: EngineConfig | None, when: str
) -> CellFailed:
    text = log.read_text("utf-8", "replace")[-65536:] if log else ""
    if "address already in use" in text.lower():
        return CellFailed("port_taken", "the server's port was taken while it started")
    reason, sentence = explain_death(text, process.returncode, config)
    return CellFailed(reason, f"the server ended {when}, {sentence}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
