"""What every test may use: the truth data beside the repository, and a clean environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent

# No test may depend on how loaded the machine is.
settings.register_profile("kvbench", deadline=None)
settings.load_profile("kvbench")

#: Truth data and traces; they are not part of the project.
SHARED = REPOSITORY.parent / "shared"


def shared_path(relative: str) -> Path:
    """Return a file of the truth data; fail where it has to be (``CI=true``), else skip."""
    path = SHARED / relative
    if not path.exists():
        reason = f"truth data {relative} is not beside the repository"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture
def shared() -> Path:
    """The folder of truth data."""
    return shared_path(".")
