"""Run the sentinel cases on one copy of ``kvbench_triton`` after the other.

Reads a folder a line, runs the cases on the package in it until one is wrong, and answers with one
line of JSON: the exit code and what was said. A mutant may crash, so each runs in a fork of its
own; torch and Triton, which no mutant changes, are imported once, before.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import traceback

os.environ["TRITON_INTERPRET"] = "1"

import torch  # noqa: F401 - imported for the forks
import triton.language  # noqa: F401

#: A fork that takes longer hangs, and is ended by SIGALRM.
LIMIT_S = 200


def run_sentinels(folder: str) -> None:
    """Leave with code 0 when every case is right on the package in ``folder``."""
    sys.path.insert(0, folder)
    from cases import CASES, SENTINELS, run_case

    import kvbench_triton

    assert kvbench_triton.__file__.startswith(folder), kvbench_triton.__file__
    for name in SENTINELS:
        error = run_case(CASES[name])
        if not error <= CASES[name].tolerance:
            sys.exit(f"{name}: {error:.1e}")


def forked(folder: str) -> tuple[int, str]:
    """Exit code of :func:`run_sentinels` in a fork, and what the fork wrote."""
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            signal.alarm(LIMIT_S)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            os._exit(_code(folder))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return code, output.read().decode("utf-8", "replace")


def _code(folder: str) -> int:
    try:
        run_sentinels(folder)
    except SystemExit as left:
        print(left, file=sys.stderr, flush=True)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(forked(line.rstrip("\n"))), flush=True)
