"""From the journal of a run to its result files, with the verdicts of its suite."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from kvbench.compare.expect import check_expectations
from kvbench.compare.pairs import compare_within
from kvbench.results.rebuild import rebuild_results
from kvbench.results.table import Results
from kvbench.results.write import write_results
from kvbench.suite.spec import Suite


def finish_run(run_dir: Path, suite: Suite) -> Results:
    """Write ``cells.parquet`` and ``samples.parquet`` of a run that has ended in any way.

    Raises:
        ResultsError: The journal is damaged, or the folder cannot be written.
    """
    results = rebuild_results(run_dir)
    metadata = dataclasses.replace(
        results.metadata,
        comparisons=compare_within(results, suite.comparisons),
        expectations=check_expectations(results, suite.expectations),
    )
    results = dataclasses.replace(results, metadata=metadata)
    write_results(run_dir, results)
    return results
