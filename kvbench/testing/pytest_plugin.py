"""The pytest plugin that kvbench ships: the fixture ``suite_runner``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kvbench.testing.suite_runner import SuiteRunner


@pytest.fixture
def suite_runner(tmp_path: Path) -> SuiteRunner:
    """Run suites given as text: ``suite_runner(toml).assert_cells(passed=1)``."""
    from kvbench.testing.suite_runner import SuiteRunner

    return SuiteRunner(tmp_path)
