from __future__ import annotations

import dataclasses

import pytest

from kvbench.engine import Direction, Evidence, Metric
from kvbench.report.frames import run_frames
from kvbench.report.ladder import ladders
from kvbench.results import build_results
from kvbench.results.record import MetricSeries
from kvbench.results.schema import Phase, Status
from tests.report.sample_run import cells, metadata, metrics, record, sample_results


def series(metric, values, evidence="device", repeat=0, phase=Phase.MEASURE):
    return MetricSeries(
        phase=phase, repeat=repeat, metric=metric, evidence=evidence, values=tuple(values)
    )


def own(name, *, exact=False, evidence=Evidence.DEVICE, unit="s"):
    metric = Metric(
        name=name,
        unit=unit,
        direction=Direction.LOWER,
        evidence=evidence,
        meaning="For this test.",
        exact=exact,
    )
    return {(name, str(evidence)): metric}


def results_of(parts, registry):
    one = dataclasses.replace(record(0, "b", "x", {}), series=tuple(parts))
    return build_results([one], metadata(axis_types={}, metrics=registry))


def test_a_cell_is_the_median_of_its_repeats_and_warm_ups_do_not_count():
    parts = [
        series("step_s", [9.0], phase=Phase.WARMUP),
        *(series("step_s", [value], repeat=i) for i, value in enumerate([3.0, 1.0, 2.0])),
    ]
    (row,) = run_frames(results_of(parts, own("step_s"))).values.to_dict("records")
    assert (row["value"], row["low"], row["high"], row["n"]) == (2.0, 1.0, 3.0, 3)


def test_samples_within_a_repeat_are_one_observation():
    parts = [series("step_s", [1.0, 5.0, 6.0]), series("step_s", [2.0], repeat=1)]
    (row,) = run_frames(results_of(parts, own("step_s"))).values.to_dict("records")
    assert (row["value"], row["n"]) == (3.5, 2)


def test_several_values_of_an_exact_metric_are_a_curve():
    parts = [series("hit_ratio", [0.1, 0.5])]
    frames = run_frames(results_of(parts, own("hit_ratio", exact=True, unit="ratio")))
    assert frames.values.empty
    assert frames.curves["value"].tolist() == [0.1, 0.5]


@pytest.mark.parametrize("unit", ["", "_bytes"])
def test_stated_bounds_become_the_interval_of_their_metric(unit):
    names = [f"room{unit}", f"room_low{unit}", f"room_high{unit}"]
    registry = {}
    for name in names:
        registry |= own(name, unit="bytes")
    parts = [series(name, [value]) for name, value in zip(names, (41.0, 38.0, 47.0), strict=True)]
    (row,) = run_frames(results_of(parts, registry)).values.to_dict("records")
    assert (row["metric"], row["value"], row["low"], row["high"]) == (names[0], 41.0, 38.0, 47.0)


def test_invalid_cells_have_no_values():
    one = dataclasses.replace(
        record(0, "b", "x", {}), series=(series("step_s", [1.0]),), status=Status.INVALID,
        reason="cache_not_cold",
    )  # fmt: skip
    frames = run_frames(build_results([one], metadata(axis_types={}, metrics=own("step_s"))))
    assert frames.values.empty
    assert frames.cells["reason"].tolist() == ["cache_not_cold"]


def test_roles_come_from_axes_options_and_the_engine():
    frames = run_frames(sample_results())
    row = frames.cells.iloc[0]
    assert (row["model"], row["context"], row["block_size"], row["kv_dtype"]) == (
        "mha", 1028, 16, "bf16",
    )  # fmt: skip


def test_the_ladder_names_and_sizes_each_difference():
    exact = {ladder.name: ladder for ladder in ladders(run_frames(sample_results()))}
    steps = exact["gqa8, context 4,100, block size 16, bf16"].steps
    assert [step.metric for step in steps] == ["logical_bytes", "paged_bytes"]
    assert steps[1].value_bytes == 514 * 2**20
    assert steps[1].difference_bytes == 1.5 * 2**20
    assert "last blocks" in steps[1].cause


def test_a_ladder_joins_engines_at_the_same_point():
    added = [
        record(
            100, "lengths", "analytic", {"model": "gqa8", "workload": "chat"},
            values={
                ("workload_logical_bytes", "analytic"): 1000,
                ("workload_paged_bytes", "analytic"): 1200,
            },
            options={"block_size": 16},
        ),
        record(
            101, "lengths", "analytic", {"model": "gqa8", "workload": "chat"},
            values={("workload_paged_bytes", "analytic"): 7777},
            options={"block_size": 32},
        ),
    ]  # fmt: skip
    registry = metrics()
    for name in ("workload_logical_bytes", "workload_paged_bytes"):
        registry |= own(name, evidence=Evidence.ANALYTIC, unit="bytes", exact=True)
    run = run_frames(build_results([*cells(), *added], metadata(metrics=registry)))
    best = ladders(run)[0]
    assert [(s.metric, s.evidence) for s in best.steps] == [
        ("workload_logical_bytes", "analytic"),
        ("workload_paged_bytes", "analytic"),
        ("peak_used_bytes", "simulated"),
    ]
    assert best.steps[1].difference_bytes == 200
