"""A comparison as files for other tools: a pull-request comment, a JUnit report."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from kvbench.compare.settings import setting_changes
from kvbench.errors import ResultsError
from kvbench.report.junit import comparison_junit
from kvbench.report.markdown import comparison_comment
from kvbench.results import Results
from kvbench.results.metadata import environment_changes
from kvbench.results.verdict import PairVerdict


def write_comment(
    target: Path, pairs: Sequence[PairVerdict], *, base: Results, new: Results
) -> None:
    """Write the Markdown comment of a comparison, with what is different around the runs.

    Raises:
        ResultsError: The file cannot be written.
    """
    before, after = base.metadata, new.metadata
    around = (
        *setting_changes(base, new),
        *environment_changes(before.environment, after.environment),
    )
    _write(target, comparison_comment(pairs, expectations=after.expectations, environment=around))


def write_junit(
    target: Path, pairs: Sequence[PairVerdict], *, new: Results, fail_on: Collection[str]
) -> None:
    """Write the JUnit XML of a comparison; verdicts in ``fail_on`` are failures.

    Raises:
        ResultsError: The file cannot be written.
    """
    expectations = new.metadata.expectations
    _write(target, comparison_junit(pairs, expectations=expectations, fail_on=fail_on))


def _write(target: Path, text: str) -> None:
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultsError(f"cannot write {target}: {error.strerror or error}") from None
