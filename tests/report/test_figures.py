from __future__ import annotations

import struct
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from kvbench.engine import Direction, Evidence, Metric
from kvbench.report.evidence import LOOKS
from kvbench.report.figures.fits import thinned
from kvbench.report.figures.lines import Ceiling, metric_lines
from kvbench.report.figures.occupancy import blocks_over_time, layers_of
from kvbench.report.figures.run import run_charts
from kvbench.report.figures.shares import slot_shares
from kvbench.report.figures.style import byte_locator, to_png, to_svg
from kvbench.report.frames import run_frames
from kvbench.results import build_results
from tests.report.sample_run import metadata, record, sample_results


@pytest.fixture(scope="module")
def run():
    return run_frames(sample_results())


@pytest.fixture(scope="module")
def charts(run):
    return {chart.slug: chart for chart in run_charts(run)}


def rows(values, metric, evidence="analytic", benchmark="context"):
    chosen = (values["metric"] == metric) & (values["benchmark"] == benchmark)
    return values[chosen & (values["evidence"] == evidence)]


def test_kinds_of_evidence_differ_in_shape_and_text():
    looks = list(LOOKS.values())
    assert len({look.marker for look in looks}) == len(looks)
    assert len({look.glyph for look in looks}) == len(looks)
    assert len({look.hatch for look in looks}) == len(looks)


def test_a_png_is_a_slide_of_200_dots_per_inch_without_metadata(charts):
    data = to_png(charts["context-paged_bytes"].figure)
    assert struct.unpack(">II", data[16:24]) == (1600, 900)
    assert b"pHYs" + struct.pack(">IIB", 7874, 7874, 1) in data  # 200 dpi in dots per metre
    assert b"tEXt" not in data
    assert b"tIME" not in data


def test_an_svg_keeps_its_text_and_no_date(charts):
    data = to_svg(charts["context-paged_bytes"].figure).decode()
    assert ">gqa8<" in data
    assert "<dc:date>" not in data


def test_axes_have_units_and_binary_ticks(charts):
    (axis,) = charts["context-paged_bytes"].figure.axes
    assert axis.get_xlabel() == "context, tokens per request"
    labels = [axis.yaxis.get_major_formatter()(value, 0) for value in (2**20, 2**30)]
    assert labels == ["1 MiB", "1 GiB"]


def test_byte_ticks_are_powers_of_two():
    ticks = byte_locator("bytes", 5 * 2**30).tick_values(0, 1)
    assert {float(np.log2(step)).is_integer() for step in np.diff(ticks)} == {True}


def test_lines_of_two_kinds_of_evidence_are_named_by_it(run):
    one = rows(run.values, "paged_bytes")
    both = pd.concat([one, one.assign(evidence="engine")])
    figure = metric_lines(both, "context_tokens", ceilings=[Ceiling(value=2**33, text="budget")])
    (axis,) = figure.axes
    texts = {text.get_text() for text in axis.texts}
    assert {"mha ○ analytic", "mha △ engine", "budget"} <= texts
    markers = {line.get_marker() for line in axis.lines if line.get_marker() != "None"}
    assert markers == {"o", "^"}


def test_every_line_ends_in_its_name_and_no_two_names_touch(charts):
    (axis,) = charts["context-max_concurrency_requests"].figure.axes
    axis.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axis.texts]
    assert {text.get_text() for text in axis.texts} == {"mha", "gqa8", "mqa"}
    for first, second in pairwise(boxes):
        assert not first.overlaps(second)


def test_only_charts_with_data_are_drawn(charts):
    assert "ladder-0" in charts
    assert not [slug for slug in charts if slug.startswith(("curve", "replay-slots"))]
    # Equal at every block size: nothing to see.
    assert "block-size-logical_bytes" not in charts


def test_alternative_texts_state_the_numbers(charts):
    assert "gqa8: 130 MiB at 1,028, 8.002 GiB at 65,540" in charts["context-paged_bytes"].alt
    assert charts["coverage"].alt == "24 cells: 21 passed, 1 skipped, 1 failed, 1 unsupported."


def test_the_stack_of_a_pool_never_exceeds_it():
    series = pd.DataFrame(
        {
            "metric": ["used_blocks"] * 2 + ["cached_blocks"] * 2,
            "t_s": [0.0, 1.0, 0.0, 1.0],
            "value": [60.0, 90.0, 70.0, 10.0],
        }
    )
    figure = blocks_over_time(series, pool_blocks=100, evidence="simulated")
    tops = [patch.get_paths()[0].vertices[:, 1].max() for patch in figure.axes[0].collections]
    assert tops == [90.0, 100.0]


def test_a_pool_that_is_split_is_stacked_by_its_parts():
    values = {"used_blocks": 60.0, "cached_blocks": 9.0, "part_live_blocks": 40.0}
    values |= {"part_tail_blocks": 20.0, "part_state_blocks": 0.0, "part_cached_blocks": 9.0}
    series = pd.DataFrame({"metric": list(values), "t_s": 0.0, "value": list(values.values())})
    assert list(layers_of(series)) == [
        "part_live_blocks",
        "part_tail_blocks",
        "part_cached_blocks",
    ]
    figure = blocks_over_time(series, pool_blocks=100, evidence="simulated")
    tops = [patch.get_paths()[0].vertices[:, 1].max() for patch in figure.axes[0].collections]
    assert tops == [40.0, 60.0, 69.0]


def test_shares_say_what_is_live():
    frame = pd.DataFrame({"series": ["a"], "live_ratio": [0.9], "tail_waste_ratio": [0.1]})
    texts = [text.get_text() for text in slot_shares(frame, "simulated").axes[0].texts]
    assert texts == ["90 % live"]


def budget_run():
    terms = {"weights": 10, "graphs": 1, "safety": 0}
    metrics_, parts = {}, []
    names = [*(f"{term}_budget_bytes" for term in terms), "device_budget_bytes", "kv_budget_bytes"]
    names += ["kv_budget_low_bytes", "kv_budget_high_bytes", "concurrent_requests"]
    names += ["concurrent_requests_low", "concurrent_requests_high"]
    for name in names:
        metrics_[name, "analytic"] = Metric(
            name=name,
            unit="requests" if "requests" in name else "bytes",
            direction=Direction.HIGHER,
            evidence=Evidence.ANALYTIC,
            meaning="For this test.",
            exact=True,
        )
    for place, (tokens, fit) in enumerate([(8192, (4, 5, 8)), (16384, (2, 2, 3))]):
        numbers = [*(2**30 * size for size in terms.values()), 72 * 2**30, 61 * 2**30]
        numbers += [60 * 2**30, 62 * 2**30, fit[1], fit[0], fit[2]]
        values = {(name, "analytic"): n for name, n in zip(names, numbers, strict=True)}
        axes = {"model": "m", "device": "h100", "context_tokens": tokens}
        parts.append(record(place, "fit", "analytic", axes, values=values))
    types = {"model": "str", "device": "str", "context_tokens": "int"}
    about = metadata(axis_types=types, metrics=metrics_, comparisons=(), expectations=())
    return run_frames(build_results(parts, about))


def test_memory_is_shown_by_term_with_the_interval_of_the_cache():
    charts = {chart.slug: chart for chart in run_charts(budget_run())}
    alt = charts["fit-memory"].alt
    assert "of 72 GiB, weights 10 GiB, graphs 1 GiB, cache 61 GiB" in alt
    texts = [text.get_text() for text in charts["fit-waterfall"].figure.axes[0].texts]
    assert texts == ["72 GiB", "−10 GiB", "−1 GiB", "61 GiB (60–62 GiB)"]


def test_the_map_tells_sure_from_doubtful():
    charts = {chart.slug: chart for chart in run_charts(budget_run())}
    symbols = [text.get_text() for text in charts["fit-fits"].figure.axes[0].texts]
    # 8,192 tokens: 1, 2, 4 fit and 8 may; 16,384 tokens: 1 and 2 fit, 4 does not.
    assert symbols.count("●") == 5
    assert symbols.count("◐") == 1
    assert "at least 4 at 8,192, 2 at 16,384" in charts["fit-fits"].alt


def test_panels_share_one_scale(run):
    frame = rows(run.values, "max_concurrency_requests")
    split = pd.concat([frame.assign(param_device=f"gpu-{i}") for i in range(2)])
    figure = metric_lines(split, "context_tokens", panel="device")
    assert {axis.get_yscale() for axis in figure.axes} == {"symlog"}
    assert len({axis.get_ylim() for axis in figure.axes}) == 1


def test_bandwidth_is_held_against_its_ceilings():
    names = {"moved_bytes_per_s": 2e12, "copy_bytes_per_s": 3e12, "read_bytes_per_s": 4e12}
    registry = {
        (name, "device"): Metric(
            name=name,
            unit="bytes_per_s",
            direction=Direction.HIGHER,
            evidence=Evidence.DEVICE,
            meaning="For this test.",
        )
        for name in names
    }
    parts = [
        record(
            place, "decode", "kernel", {"context_tokens": 1024 << place},
            values={(n, "device"): v + place * (n[0] == "m") * 1e11 for n, v in names.items()},
        )
        for place in range(3)
    ]  # fmt: skip
    types = {"context_tokens": "int"}
    about = metadata(axis_types=types, metrics=registry, comparisons=(), expectations=())
    charts = run_charts(run_frames(build_results(parts, about)))
    (chart,) = [chart for chart in charts if chart.section == "bandwidth"]
    texts = {text.get_text() for text in chart.figure.axes[0].texts}
    assert {"copy bytes per s: 3 TB/s", "read bytes per s: 4 TB/s"} <= texts
    assert "2 TB/s at 1,024" in chart.alt


@pytest.mark.parametrize(("count", "shown"), [(1, 1), (12, 12), (13, 12), (1000, 12)])
def test_a_map_has_room_for_twelve_contexts_with_both_ends(count, shown):
    drawn = thinned(range(count))
    assert len(drawn) == len(set(drawn)) == shown
    assert (drawn[0], drawn[-1]) == (0, count - 1)
    assert drawn == sorted(drawn)


def test_shares_of_two_kinds_of_evidence_are_drawn_together():
    names = {"usage_ratio": Evidence.SIMULATED, "recorded_usage_ratio": Evidence.ENGINE}
    registry = {
        (name, str(kind)): Metric(
            name=name, unit="ratio", direction=Direction.NONE, evidence=kind, meaning="A share."
        )
        for name, kind in names.items()
    }
    values = {
        ("usage_ratio", "simulated"): [(0, 0.1), (1_000_000, 0.5)],
        ("recorded_usage_ratio", "engine"): [(0, 0.2), (1_000_000, 0.4)],
    }
    cell = record(0, "replay", "pool", {"model": "m"}, values=values)
    about = metadata(axis_types={"model": "str"}, metrics=registry, comparisons=(), expectations=())
    charts = {chart.slug: chart for chart in run_charts(run_frames(build_results([cell], about)))}
    chart = charts["shares-0"]
    assert chart.evidence == ["engine", "simulated"]
    assert "recorded usage (engine) peaks at 40.0%; usage (simulated) peaks at 50.0%" in chart.alt
    shown = [text.get_text() for text in chart.figure.axes[0].get_legend().get_texts()]
    assert ["engine" in shown[0], "simulated" in shown[1]] == [True, True]


def replayed_run():
    """Llama on one device: 8 fit at 1,024 tokens, 4 at 2,048; the same pool replayed."""
    analytic = {"concurrent_requests": "requests", "pool_blocks": "blocks"}
    replays = {
        "pool_blocks": "blocks", "preemptions_count": "count",
        "peak_running_requests": "requests", "peak_waiting_requests": "requests",
    }  # fmt: skip
    registry = {
        (name, str(kind)): Metric(
            name=name, unit=unit, direction=Direction.NONE, evidence=kind, meaning="A test."
        )
        for kind, names in ((Evidence.ANALYTIC, analytic), (Evidence.SIMULATED, replays))
        for name, unit in names.items()
    }
    parts = [
        record(
            place, "fit", "analytic", {"model": "m", "max_model_len": context},
            values={("concurrent_requests", "analytic"): fits, ("pool_blocks", "analytic"): 500},
        )
        for place, (context, fits) in enumerate([(1024, 8), (2048, 4)])
    ]  # fmt: skip
    for context, seats, pool, preempted, running, waiting in (
        (1024, 8, 500, 0, 8, 0),  # fits, as arithmetic says
        (1024, 12, 500, 7, 12, 0),  # all ran at once, some were preempted
        (1024, 16, 500, 9, 13, 3),  # three had to wait for memory
        (2048, 8, 500, 0, 8, 0),  # never at full length at once: arithmetic says no
        (2048, 12, 500, 0, 8, 0),  # the workload has eight requests: nothing is said
        (2048, 16, 501, 5, 16, 0),  # another pool
    ):
        figures = (pool, preempted, running, waiting)
        values = {(n, "simulated"): v for n, v in zip(replays, figures, strict=True)}
        axes = {"model": "m", "max_model_len": context, "max_num_seqs": seats}
        parts.append(record(len(parts), "replay", "pool", axes, values=values))
    types = {"model": "str", "max_model_len": "int", "max_num_seqs": "int"}
    about = metadata(axis_types=types, metrics=registry, comparisons=(), expectations=())
    return run_frames(build_results(parts, about))


def test_the_map_marks_what_a_replay_of_the_same_pool_says():
    (chart,) = [chart for chart in run_charts(replayed_run()) if chart.slug == "fit-fits"]
    axis = chart.figure.axes[0]
    squares = {
        (round(x - 0.5), round(y - 0.5)): text.get_text()
        for text in axis.texts
        for x, y in [text.get_position()]
    }
    seats = [1, 2, 4, 8, 12, 16]
    rows = [[squares.get((place, step), "") for place in (0, 1)] for step in range(len(seats))]
    assert [label.get_text() for label in axis.get_yticklabels()] == [str(s) for s in seats]
    assert rows == [["●", "●"], ["●", "●"], ["●", "●"], ["●", "○"], ["~", ""], ["×", ""]]
    hatched = [patch.get_xy() for patch in axis.patches if patch.get_hatch()]
    assert sorted(hatched) == [(0, 4), (0, 5), (1, 3)]


def test_the_map_names_the_evidence_of_each_state():
    (chart,) = [chart for chart in run_charts(replayed_run()) if chart.slug == "fit-fits"]
    analytic, simulated = chart.figure.get_supxlabel().splitlines()
    assert analytic == "○ analytic (●: fits; empty: does not fit)"
    assert simulated.startswith("□ simulated (hatched, ○: ran without preemption")
    assert "~: fits with preemption" in simulated
    assert chart.evidence == ["analytic", "simulated"]
    assert "analytic: at least 8 at 1,024, 4 at 2,048" in chart.alt
    assert "with preemption in the simulation 12 at 1,024" in chart.alt
