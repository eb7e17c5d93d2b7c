"""``benchmarks/gpu.sh --tiny``: the whole GPU run rehearsed without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "gpu.sh"


@pytest.mark.timeout(900)
def test_rehearsal_leaves_results_a_report_and_a_table(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [str(SCRIPT), "--tiny", str(tmp_path)],
        env=environment | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    run = tmp_path / "gpu_tiny"
    assert (run / "report.html").stat().st_size > 0
    assert set(pd.read_parquet(run / "cells.parquet")["status"]) == {"passed"}
    samples = pd.read_parquet(run / "samples.parquet")
    assert set(samples["evidence"]) == {"analytic", "engine"}
    assert samples[samples["metric"] == "error_ratio"]["value"].max() <= 1e-6
    table = (tmp_path / "table.md").read_text().splitlines()
    assert len(table) == 2 + 14
    assert all(line.endswith("- | - | - | - |") for line in table[2:])
