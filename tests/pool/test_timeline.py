"""A recorded GPU run replayed on its own timeline."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from kvbench.engine import Evidence
from kvbench.errors import TraceError
from kvbench_pool.plugin import kvbench_allocate
from kvbench_pool.studies.timeline import Recorded, Timeline, read_curve
from tests.conftest import REPOSITORY, shared_path
from tests.pool.cells import make_cell, value, values

DATA = REPOSITORY / "suites" / "data" / "gpu_run_rtx4090"
TRUTH = "truth/gpu_run/RTX4090_Llama-3.1-8B"


@pytest.mark.parametrize(
    ("aware", "mean", "most", "preemptions"),
    [(False, 0.0809, 0.4055, 0), (True, 0.0136, 0.0885, 242)],
)
def test_the_run_of_300_requests(aware: bool, mean: float, most: float, preemptions: int) -> None:
    output = kvbench_allocate(
        cell=make_cell(
            base=REPOSITORY / "suites",
            workload={"kind": "trace", "path": "data/gpu_run_rtx4090/requests.csv"},
            study="timeline",
            pool_blocks=2588,
            preemption_aware=aware,
        ),
        session=None,
    )
    assert value(output, "mean_error_ratio") == pytest.approx(mean, abs=0.0005)
    assert value(output, "max_error_ratio") == pytest.approx(most, abs=0.005)
    assert value(output, "preemptions_count") == pytest.approx(preemptions, abs=5)
    assert len(values(output, "usage_ratio")) == len(values(output, "recorded_usage_ratio")) == 184
    engine = {one.metric for one in output.observations if one.evidence is Evidence.ENGINE}
    assert engine == {"recorded_usage_ratio"}


def test_the_youngest_loses_its_blocks_and_returns() -> None:
    old = Recorded(32, 33, 0.0, 1.0, 2.0)
    young = Recorded(32, 2, 0.5, 1.5, 4.0)
    timeline = Timeline([old, young], 4, 16, aware=True)
    used = [timeline.used_blocks(tick) for tick in range(1, 82)]
    assert used[0] == 2
    assert used[9] == 4
    assert max(used) == 4
    assert timeline.preemptions == 1
    assert used[39] == 2  # the old one ends at 2 s, the young one is back
    assert used[80] == 0


def test_the_compact_copy_is_the_published_run() -> None:
    curve = shared_path(f"{TRUTH}.timeseries.csv")
    assert (DATA / "timeseries.csv").read_bytes() == curve.read_bytes()
    lines = shared_path(f"{TRUTH}.requests.jsonl").read_text("utf-8").splitlines()
    published = [json.loads(line) for line in lines]
    with (DATA / "requests.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(published) == 300
    start = published[0]["scheduled_ts"] - float(rows[0]["scheduled_s"])
    for row, one in zip(rows, published, strict=True):
        tokens = int(row["ContextTokens"]), int(row["GeneratedTokens"])
        assert tokens == (one["input_toks"], one["output_toks"])
        for ours, theirs in (
            ("scheduled_s", "scheduled_ts"),
            ("first_token_s", "first_token_ts"),
            ("last_token_s", "last_token_ts"),
        ):
            assert float(row[ours]) == pytest.approx(one[theirs] - start, abs=2e-4)


def test_a_missing_curve_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"none\.csv"):
        read_curve(tmp_path / "none.csv")
