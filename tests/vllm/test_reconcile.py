"""Reconciliation and settings from stored results alone."""

from __future__ import annotations

from kvbench.engine import Direction, Evidence, Metric
from kvbench.results import build_results
from kvbench.results.metadata import RunMetadata
from kvbench.results.record import CellIdentity, CellRecord, MetricSeries
from kvbench.results.schema import Phase, Status
from kvbench_vllm import chosen_settings, reconcile

UNITS = {"pool_blocks": "blocks", "used_blocks": "blocks", "hit_tokens": "tokens"}


def cell(place, engine, evidence, values, steps=(), **attributes):
    params = {"model": "m", **attributes.pop("params", {})}
    identity = CellIdentity(
        cell_id=f"cell-{place}",
        ordinal=place,
        benchmark="b",
        stage="allocate",
        engine=engine,
        plugin=engine,
        axes={"model": "m"},
        params=params,
    )
    common = {"phase": Phase.MEASURE, "repeat": 0, "evidence": evidence}
    series = [
        MetricSeries(metric=name, values=(value,), **common) for name, value in values.items()
    ]
    if steps:
        times = tuple(range(0, 50_000 * len(steps), 50_000))
        series.append(
            MetricSeries(metric="used_blocks", values=tuple(steps), t_offsets_us=times, **common)
        )
    stated = {"status": Status.PASSED, "attempt": 1, **attributes}
    return CellRecord(identity=identity, series=tuple(series), **stated)


def rows(*cells):
    metrics = {
        (name, evidence): Metric(
            name=name, unit=unit, direction=Direction.NONE, evidence=Evidence(evidence), meaning="."
        )
        for name, unit in UNITS.items()
        for evidence in ("analytic", "simulated", "engine")
    }
    metadata = RunMetadata(
        run_id="r",
        kvbench_version="0",
        suite_name="s",
        complete=True,
        metrics=metrics,
        axis_types={"model": "str"},
    )
    return build_results(list(cells), metadata)


def table(results):
    (section,) = reconcile.sections(results)
    return section.text, {row[1]: row for row in section.table[1:]}


ANALYTIC = cell(0, "analytic", "analytic", {"pool_blocks": 64.0})
POOL = cell(1, "pool", "simulated", {"hit_tokens": 96.0}, steps=(1.0, 2.0))


def test_terms_stand_beside_each_other_with_their_evidence():
    engine = cell(2, "vllm", "engine", {"pool_blocks": 64.0, "hit_tokens": 64.0}, (1.0, 3.0))
    text, found = table(rows(ANALYTIC, POOL, engine))
    assert text.startswith("1 of 3 terms")
    assert found["blocks"][2:] == ("64", "", "64", "", "0", "none")
    assert found["prompt tokens found in the cache"][3:7] == ("96", "64", "", "-32")
    assert found["blocks in use, step by step"][6] == "1 steps differ"


def test_equal_series_agree():
    engine = cell(2, "vllm", "engine", {"hit_tokens": 96.0}, (1.0, 2.0))
    assert table(rows(POOL, engine))[1]["blocks in use, step by step"][6:] == ("0", "none")


def test_what_was_asked_otherwise_does_not_stand_beside():
    engine = cell(2, "vllm", "engine", {"pool_blocks": 32.0}, params={"block_size": 32})
    other = cell(0, "analytic", "analytic", {"pool_blocks": 64.0}, params={"block_size": 16})
    assert table(rows(other, engine))[1]["blocks"][6:] == (
        "",
        "nothing else in this run was asked the same",
    )


def causes(**attributes):
    engine = cell(2, "vllm", "engine", {"pool_blocks": 60.0}, **attributes)
    return table(rows(ANALYTIC, engine))[1]["blocks"][7]


def test_differences_have_named_causes():
    wrong_type = {"status": Status.INVALID, "reason": "kv_bytes_differ", "error": "other bytes"}
    assert causes(**wrong_type) == "other bytes"
    assert "a step ahead" in causes(effective={"async_scheduling": True})
    kept = {"groups": "SlidingWindowSpec x4", "prefix_cache_retention_interval": 64}
    assert "every 64 tokens, the simulator was not told so" in causes(effective=kept)
    default = {**kept, "prefix_cache_retention_interval": 0}
    assert causes(effective=default).startswith("unexplained")
    changed = {"params": {"max_num_seqs": 4}, "effective": {"max_num_seqs": 8}}
    assert causes(**changed) == "max_num_seqs 4 became 8"
    assert causes().startswith("unexplained")


def test_settings_are_requested_and_effective():
    engine = cell(
        0,
        "vllm",
        "engine",
        {"hit_tokens": 0.0},
        params={"block_size": 32},
        effective={"block_size": 32, "n": 1},
    )
    (section,) = chosen_settings.sections(rows(engine))
    assert section.table[1:] == (("block_size", "32", "32", "1"), ("n", "not requested", "1", "1"))


def test_runs_without_vllm_have_no_section():
    results = rows(ANALYTIC, POOL)
    assert reconcile.sections(results) == ()
    assert chosen_settings.sections(results) == ()
