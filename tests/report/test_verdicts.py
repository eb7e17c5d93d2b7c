from __future__ import annotations

import dataclasses

from kvbench.report.frames import run_frames
from kvbench.report.ladder import ladders
from kvbench.report.verdicts import (
    coverage_sentence,
    expectation_sentence,
    verdict_sentences,
)
from kvbench.results import build_results
from kvbench.results.verdict import ExpectStatus
from tests.report.sample_run import cells, metadata, pair, record, sample_results


def sentences(results):
    run = run_frames(results)
    return {s.text: s.evidence for s in verdict_sentences(run, ladders(run))}


def test_capacity_is_said_with_numbers_and_evidence():
    found = sentences(sample_results())
    text = (
        "Concurrent requests of 16,388 tokens that fit: mqa: 31; gqa8: 3; mha: 0. "
        "Not even one request fits in 1 of 3 cases."
    )
    assert found[text] == ("analytic",)


def test_a_comparison_says_ratio_count_and_verdicts():
    text = "GQA-8 over MHA: paged bytes of gqa8 are 0.25× that of mha (4 better, of 4 pairs)."
    assert text in sentences(sample_results())


def test_an_interval_of_a_ratio_is_part_of_the_sentence():
    one = dataclasses.replace(pair(4096, 0.25), ratio_low=0.24, ratio_high=0.27)
    (text,) = [t for t in sentences(sample_results(comparisons=(one,))) if "that of mha" in t]
    assert "intervals within 0.24× to 0.27×" in text


def test_two_kinds_of_evidence_in_one_pair_are_both_named():
    one = dataclasses.replace(pair(4096, 1.5), evidence="engine", base_evidence="simulated")
    found = sentences(sample_results(comparisons=(one,)))
    (text,) = [t for t in found if "gqa8 (engine)" in t]
    assert "mha (simulated)" in text
    assert found[text] == ("simulated", "engine")


def test_fragmentation_names_its_extremes():
    text = "Fragmentation runs from 0.0975 % (block size 8) to 5.79 % (block size 256)."
    assert text in sentences(sample_results())


def test_stated_bounds_are_said_as_a_range():
    values = {
        ("concurrent_requests", "analytic"): 44,
        ("concurrent_requests_low", "analytic"): 41,
        ("concurrent_requests_high", "analytic"): 47,
    }
    one = record(0, "b", "analytic", {"model": "m", "context_tokens": 32768}, values=values)
    registry = {
        (name, "analytic"): dataclasses.replace(
            metadata().metrics["max_concurrency_requests", "analytic"], name=name
        )
        for name, _ in values
    }
    types = {"model": "str", "context_tokens": "int"}
    results = build_results([one], metadata(metrics=registry, axis_types=types, comparisons=()))
    text = "44 (between 41 and 47) concurrent requests of 32,768 tokens fit for m."
    assert text in sentences(results)


def test_holes_are_counted_with_their_reasons():
    assert coverage_sentence(run_frames(sample_results()).cells) == (
        "21 of 24 cells passed; 1 failed (oom: CUDA out of memory), "
        "1 skipped (kv_exceeds_device: needs 64 GiB, the device has 24 GiB), "
        "1 unsupported (engine_unavailable: vllm is not installed; pip install vllm)."
    )


def test_unmet_expectations_are_named():
    met = metadata().expectations[0]
    bad = dataclasses.replace(met, name="fits", status=ExpectStatus.FAILED)
    assert expectation_sentence([met]) == "The one expectation is met."
    assert expectation_sentence([met, met]) == "All 2 expectations are met."
    assert expectation_sentence([met, bad]) == "1 of 2 expectations are not met: fits."
    assert expectation_sentence([]) == ""


def test_latency_is_said_for_almost_all_requests():
    key = ("p99_ttft_s", "simulated")
    known = metadata().metrics["logical_bytes", "analytic"]
    registry = {key: dataclasses.replace(known, name=key[0], unit="s", evidence="simulated")}
    parts = [
        record(i, "b", "pool", {"rate_scale": 4 * i}, values={key: value})
        for i, value in ((1, 0.25), (2, 1.5))
    ]
    types = {"rate_scale": "int"}
    results = build_results(parts, metadata(metrics=registry, axis_types=types, comparisons=()))
    text = (
        "99 % of the requests have their first token within 250 ms (rate scale 4) "
        "to 1.5 s (rate scale 8)."
    )
    assert sentences(results)[text] == ("simulated",)


def test_unknown_metrics_still_get_a_sentence():
    registry = {
        ("zorks_count", "device"): dataclasses.replace(
            metadata().metrics["logical_bytes", "analytic"],
            name="zorks_count", unit="count", evidence="device", meaning="Zorks of a knob.",
        )
    }  # fmt: skip
    parts = [
        record(i, "b", "other", {"knob": i}, values={("zorks_count", "device"): 5 + i})
        for i in range(3)
    ]
    types = {"knob": "int"}
    results = build_results(parts, metadata(metrics=registry, axis_types=types, comparisons=()))
    assert "Zorks of a knob: from 5 (knob 0) to 7 (knob 2)." in sentences(results)


def test_nothing_measured_is_no_crash():
    holes = [cell for cell in cells() if cell.status != "passed"]
    results = build_results(holes, metadata(comparisons=(), expectations=()))
    assert sentences(results) == {}


def test_one_case_of_each_benchmark_is_told_in_one_sentence():
    names = ("copied_blocks", "final_used_blocks")
    registry = {
        (name, "simulated"): dataclasses.replace(
            metadata().metrics["peak_used_bytes", "simulated"], name=name, unit="blocks"
        )
        for name in names
    }
    parts = [
        record(
            place, name, "pool", {},
            values={(n, "simulated"): v for n, v in zip(names, (place, 3), strict=True)},
        )
        for place, name in enumerate(["fork_inside", "fork_beside"])
    ]  # fmt: skip
    results = build_results(parts, metadata(metrics=registry, axis_types={}, comparisons=()))
    found = sentences(results)
    assert "Fork inside: copied blocks 0, final used blocks 3." in found
    assert "Fork beside: copied blocks 1, final used blocks 3." in found


def test_yes_and_no_are_words():
    registry = {
        ("mean_error_ratio", "simulated"): dataclasses.replace(
            metadata().metrics["prefix_hit_ratio", "simulated"],
            name="mean_error_ratio", meaning="Mean error of a second.",
        )
    }  # fmt: skip
    parts = [
        record(place, "usage", "pool", {"aware": aware},
               values={("mean_error_ratio", "simulated"): 0.08 - 0.06 * aware})
        for place, aware in enumerate([False, True])
    ]  # fmt: skip
    about = metadata(metrics=registry, axis_types={"aware": "bool"}, comparisons=())
    text = "Mean error of a second: from 2 % (aware: yes) to 8 % (aware: no)."
    assert text in sentences(build_results(parts, about))


def test_the_ladder_of_a_workload_says_how_few_ran_at_once():
    simulated = ("peak_used_bytes", "peak_running_requests", "requests_count")
    registry = {
        (name, kind): dataclasses.replace(
            metadata().metrics["peak_used_bytes", "simulated"], name=name, evidence=kind, unit=unit
        )
        for name, kind, unit in [
            ("workload_logical_bytes", "analytic", "bytes"),
            *((name, "simulated", name.rsplit("_", 1)[1]) for name in simulated),
        ]
    }
    axes = {"model": "m", "workload": "w"}
    parts = [
        record(0, "size", "analytic", axes, values={("workload_logical_bytes", "analytic"): 2**30}),
        record(1, "pool", "pool", axes, values={
            ("peak_used_bytes", "simulated"): 2**20, ("peak_running_requests", "simulated"): 4,
            ("requests_count", "simulated"): 100,
        }),
    ]  # fmt: skip
    types = {"model": "str", "workload": "str"}
    found = sentences(build_results(parts, metadata(metrics=registry, axis_types=types,
                                                    comparisons=())))  # fmt: skip
    assert (
        "From formula to machine, m, w: 1 GiB if all requests were live at full length "
        "(analytic) → 1 MiB used at the peak of a replay (simulated); at most 4 of 100 requests "
        "run at once." in found
    )
