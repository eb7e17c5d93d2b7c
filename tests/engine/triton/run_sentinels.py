"""Run the sentinel cases on whatever ``kvbench_triton`` is on the path; exit code 1 on the first
wrong one. Started by ``test_mutants.py`` in a process of its own, since a mutant may crash it."""

from __future__ import annotations

import os
import sys

os.environ["TRITON_INTERPRET"] = "1"

from cases import CASES, SENTINELS, run_case

for name in SENTINELS:
    error = run_case(CASES[name])
    if not error <= CASES[name].tolerance:
        sys.exit(f"{name}: {error:.1e}")
