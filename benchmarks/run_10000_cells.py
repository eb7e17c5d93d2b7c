"""10,000 analytic cells in one command: planned, run, journaled, written, reported.

    python benchmarks/run_10000_cells.py [--no-report]

Prints the wall seconds of the whole command (a new process, imports included), and the CPU
seconds of all its processes, which other jobs on the machine do not change much.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

SUITE = """
schema = 1

[suite]
name = "ten_thousand"

[engines.analytic]
plugin = "analytic"

[models.gqa8]
layers = 32
query_heads = 32
kv_heads = 8
head_dim = 128

[models.mha]
inherits = "gqa8"
kv_heads = 32

[[benchmark]]
name = "sizes"
stage = "size"
engines = ["analytic"]
options = { budget_bytes = 8_589_934_592 }

[benchmark.matrix]
model = ["gqa8", "mha"]
block_size = [8, 16, 32, 64, 128]
context_tokens = { start = 1, stop = 1000, step = 1 }
"""

_PROGRAM = "from kvbench.cli import main; main()"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-report", action="store_true", help="leave the report out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        suite, run_dir = Path(folder) / "suite.toml", Path(folder) / "run"
        suite.write_text(SUITE, encoding="utf-8")
        words = ["run", str(suite), "-o", str(run_dir)]
        words += ["--no-report"] if arguments.no_report else []
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", _PROGRAM, *words], check=True)
        wall_s = time.perf_counter() - began
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        cells = pq.read_table(run_dir / "cells.parquet")
        passed = cells["status"].to_pylist().count("passed")
        figures = {
            "cells": cells.num_rows,
            "passed": passed,
            "samples": pq.read_metadata(run_dir / "samples.parquet").num_rows,
            "wall_s": round(wall_s, 2),
            "cells_per_s": round(passed / wall_s),
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
            "report": not arguments.no_report,
        }
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
