"""Which torch and Triton are installed, found without importing them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re

from kvbench.errors import EngineUnavailable

#: Oldest releases with what the kernels use.
OLDEST = {"torch": (2, 6), "triton": (3, 6)}
REMEDY = "pip install 'kvbench[triton]'"


def missing() -> str:
    """Say what is missing or too old to run the kernels, empty when nothing is."""
    for name, oldest in OLDEST.items():
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed"
        found = version(name)
        if _release(found) < oldest:
            return f"{name} {found} is older than {'.'.join(map(str, oldest))}"
    return ""


def require() -> None:
    """Refuse to go on without torch and Triton.

    Raises:
        EngineUnavailable: One is missing or too old; the remedy installs both.
    """
    problem = missing()
    if problem:
        raise EngineUnavailable(problem, REMEDY)


def version(name: str) -> str:
    """Version of a distribution, empty when it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _release(text: str) -> tuple[int, ...]:
    """Major and minor; a distribution that states no version passes as new enough."""
    numbers = re.match(r"(\d+)\.(\d+)", text)
    return (int(numbers[1]), int(numbers[2])) if numbers else (10**6,)
