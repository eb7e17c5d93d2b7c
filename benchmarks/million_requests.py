"""A hundred thousand and a million synthetic requests through ``kvbench simulate``.

    python benchmarks/million_requests.py [--policy vllm]

Prints the CPU seconds and the largest memory of each command (a new process, imports and the
generator included). Time that grows by no more than the requests do, and memory that does not
grow, show that requests are read, simulated and written as they come.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES = (100_000, 1_000_000)
WORKLOADS = {
    "nothing shared": "lognormal:requests={requests},arrival=poisson,rate_per_s=5,"
    "prompt_median_tokens=1000,output_median_tokens=200",
    "shared prompts": "shared_prefix:requests={requests},arrival=poisson,rate_per_s=5,"
    "prefixes=16,prefix_tokens=1024,prompt_tokens=512,output_tokens=100",
    "conversations": "multi_turn:conversations={conversations},turns=4,arrival=poisson,"
    "rate_per_s=2,prompt_tokens=300,output_tokens=150",
}
_PROGRAM = "from kvbench.cli import main; main()"


def measured(workload: str, policy: str) -> tuple[float, float, int]:
    """Return CPU seconds, peak MiB and requests of one command."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "summary.json"
        command = [sys.executable, "-c", _PROGRAM, "simulate", workload]
        command += ["--policy", policy, "--blocks", "40000", "--format", "json"]
        with output.open("wb") as file:
            child = subprocess.Popen(command, stdout=file)
            _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise SystemExit(f"{workload}: the command failed")
        requests = json.loads(output.read_text())["requests"]
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, requests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--policy", default="vllm")
    arguments = parser.parse_args()
    for name, workload in WORKLOADS.items():
        before = 0.0
        for size in SIZES:
            stated = workload.format(requests=size, conversations=size // 4)
            seconds, peak_mib, requests = measured(stated, arguments.policy)
            ratio = f"  ({seconds / before:.1f}× the time)" if before else ""
            print(f"{name}: {requests:>9,} requests {seconds:8.1f} s {peak_mib:6.0f} MiB{ratio}")
            before = seconds


if __name__ == "__main__":
    main()
