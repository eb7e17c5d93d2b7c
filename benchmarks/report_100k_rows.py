"""Time and memory of the report of a run with 100,000 samples.

Makes such a run in a temporary folder (2,500 cells of 8 metrics and 5 repeats), then renders its
report in a process of its own and prints seconds of processor and wall time, the largest resident
memory and the size of the page::

    python benchmarks/report_100k_rows.py

The report is to take no more than 10 s and 1 GiB on a 2-core machine.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from kvbench.engine import Direction, Evidence, Metric
from kvbench.results import build_results, write_results
from kvbench.results.metadata import RunMetadata
from kvbench.results.record import CellIdentity, CellRecord, MetricSeries
from kvbench.results.schema import Phase, Status

MODELS, DEVICES, CONTEXTS, REQUESTS = 10, 5, 10, 5
METRICS = (
    "logical_bytes",
    "paged_bytes",
    "concurrent_requests",
    "fragmentation_ratio",
    "step_s",
    "peak_used_bytes",
    "prefix_hit_ratio",
    "preemptions_count",
)
REPEATS = 5

RENDER = """
import json, resource, sys, time
from pathlib import Path
started = time.perf_counter()
from kvbench.report.make import write_report
page = write_report(Path(sys.argv[1]))
usage = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "wall_s": round(time.perf_counter() - started, 2),
    "processor_s": round(usage.ru_utime + usage.ru_stime, 2),
    "peak_resident_mib": usage.ru_maxrss // 1024,
    "page_bytes": page.stat().st_size,
}))
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = write_run(Path(folder))
        answer = subprocess.run(
            [sys.executable, "-c", RENDER, folder], check=True, capture_output=True, text=True
        )
        print(json.dumps({"rows": rows, **json.loads(answer.stdout)}, indent=2))


def write_run(folder: Path) -> int:
    metrics = {(name, "simulated"): metric(name) for name in METRICS}
    points = [
        {
            "model": f"model-{m}",
            "device": f"gpu-{d}",
            "context_tokens": 1024 << c,
            "requests": 1 << r,
        }
        for m in range(MODELS)
        for d in range(DEVICES)
        for c in range(CONTEXTS)
        for r in range(REQUESTS)
    ]
    about = RunMetadata(
        run_id="benchmark",
        kvbench_version="0",
        suite_name="report_100k_rows",
        complete=True,
        axis_types={"model": "str", "device": "str", "context_tokens": "int", "requests": "int"},
        metrics=metrics,
    )
    results = build_results([cell(place, point) for place, point in enumerate(points)], about)
    write_results(folder, results)
    return results.samples.num_rows


def metric(name: str) -> Metric:
    unit = name.rsplit("_", 1)[1]
    return Metric(
        name=name,
        unit=unit,
        direction=Direction.LOWER,
        evidence=Evidence.SIMULATED,
        meaning="A number.",
    )


def cell(place: int, point: dict[str, str | int]) -> CellRecord:
    dice = random.Random(place)
    size = int(point["context_tokens"]) * 1024
    identity = CellIdentity(
        cell_id=f"{place:064x}",
        ordinal=place,
        benchmark="grid",
        stage="allocate",
        engine="pool",
        plugin="pool",
        axes=point,
        params=point,
    )
    series = [
        MetricSeries(
            phase=Phase.MEASURE,
            repeat=repeat,
            metric=name,
            evidence="simulated",
            values=(
                dice.random() if name.endswith(("ratio", "_s")) else float(dice.randrange(size)),
            ),
        )
        for name in METRICS
        for repeat in range(REPEATS)
    ]
    return CellRecord(identity=identity, status=Status.PASSED, attempt=1, series=tuple(series))


if __name__ == "__main__":
    main()
