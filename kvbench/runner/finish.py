"""From the journal of a run to its result files, with the verdicts of its suite."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from kvbench.compare.expect import check_expectations
from kvbench.compare.pairs import compare_within
from kvbench.errors import KvbenchError
from kvbench.plugins import Plugins
from kvbench.results.metadata import RunMetadata
from kvbench.results.rebuild import rebuild_results
from kvbench.results.schema import SUITE_FILE
from kvbench.results.table import Results
from kvbench.results.write import write_results
from kvbench.suite.load import load_suite
from kvbench.suite.spec import Suite


def finish_run(run_dir: Path, suite: Suite) -> Results:
    """Write ``cells.parquet`` and ``samples.parquet`` of a run that has ended in any way.

    Raises:
        ResultsError: The journal is damaged, or the folder cannot be written.
    """
    results = with_verdicts(rebuild_results(run_dir), suite)
    write_results(run_dir, results)
    return results


def with_verdicts(results: Results, suite: Suite) -> Results:
    """Judge the cells that finished by the comparisons and expectations of their suite."""
    metadata = dataclasses.replace(
        results.metadata,
        comparisons=compare_within(results, suite.comparisons),
        expectations=check_expectations(results, suite.expectations),
    )
    return dataclasses.replace(results, metadata=metadata)


def read_killed(run_dir: Path, plugins: Plugins) -> Results:
    """Read a run that was killed before it wrote its results, with its suite's verdicts.

    The suite is the one that the run's command names, as long as it is unchanged, else the copy
    in the run's folder, whose relative paths may lead nowhere. When neither can be read the
    results have no verdicts, and a warning says why.

    Raises:
        ResultsError: The journal is damaged.
    """
    results = rebuild_results(run_dir)
    reasons = []
    for path in _suite_paths(results.metadata, run_dir):
        try:
            suite = load_suite(path, plugins)
        except KvbenchError as error:
            reasons.append(str(error).splitlines()[0])
            continue
        if suite.sha256 == results.metadata.suite_sha256:
            return with_verdicts(results, suite)
        reasons.append(f"{path} has changed")
    warning = f"comparisons and expectations were not judged: {'; '.join(reasons)}"
    warnings = (*results.metadata.warnings, warning)
    return dataclasses.replace(
        results, metadata=dataclasses.replace(results.metadata, warnings=warnings)
    )


def _suite_paths(metadata: RunMetadata, run_dir: Path) -> list[Path]:
    named = [Path(word) for word in metadata.command if word.endswith(".toml")]
    return [*(path for path in named if path.is_file()), run_dir / SUITE_FILE]
