"""The shipped fixture, used as the author of a plugin would."""

from __future__ import annotations

import pytest

from kvbench.errors import SuiteError
from kvbench.testing import SuiteRunner

SUITE = """
schema = 1
[suite]
name = "fakes"
[protocol]
warmup = 0
repeats = 2
[engines.fake]
plugin = "fake"
[[benchmark]]
name = "b"
stage = "measure"
engines = ["fake"]
[benchmark.matrix]
behaviour = ["ok", "failed", "unavailable"]
value = [2.0]
"""


def test_cells_and_values(suite_runner: SuiteRunner) -> None:
    outcome = suite_runner(SUITE)
    outcome.assert_cells(passed=1, failed=1, unsupported=1)
    assert outcome.values("fake_bytes", behaviour="ok") == [2.0, 2.0]
    assert outcome.exit_code == 3
    assert outcome.reasons() == [
        "failed too_hot: the device is too hot",
        "unsupported engine_unavailable: no device; buy one",
    ]


def test_a_wrong_count_says_why(suite_runner: SuiteRunner) -> None:
    outcome = suite_runner(SUITE)
    with pytest.raises(AssertionError, match="too_hot: the device is too hot"):
        outcome.assert_cells(passed=3)
    with pytest.raises(AssertionError, match="no such status: great"):
        outcome.assert_cells(great=3)


def test_runs_are_apart_and_can_be_resumed(suite_runner: SuiteRunner) -> None:
    first = suite_runner(SUITE)
    assert suite_runner(SUITE).run_dir != first.run_dir
    resumed = suite_runner(SUITE, resume=first.run_dir)
    assert resumed.results.samples.equals(first.results.samples)


def test_mistakes_of_the_suite_are_raised(suite_runner: SuiteRunner) -> None:
    with pytest.raises(SuiteError, match="did you mean 'value'"):
        suite_runner(SUITE.replace("value =", "valeu ="))
