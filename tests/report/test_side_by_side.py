from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as Xml

import pandas as pd
import pyarrow.parquet as pq
import pytest

from kvbench.compare.settings import setting_changes
from kvbench.errors import ResultsError
from kvbench.report.exports import export, notebook_html, values_frame
from kvbench.report.frames import run_frames
from kvbench.report.history import change, changes, trends
from kvbench.report.junit import comparison_junit
from kvbench.report.make import write_page
from kvbench.report.markdown import comparison_comment, markdown_table
from kvbench.report.tables import Table, text
from kvbench.results import build_results
from kvbench.results.verdict import ExpectStatus, Verdict
from tests.report.sample_run import cells, metadata, pair, record, sample_results


def scaled(place, factor, **changes_):
    """A run whose peaks are ``factor`` times those of the sample."""
    parts = []
    for cell in cells():
        series = [
            dataclasses.replace(s, values=tuple(v * factor for v in s.values))
            if s.metric == "peak_used_blocks"
            else s
            for s in cell.series
        ]
        parts.append(dataclasses.replace(cell, series=tuple(series)))
    about = {"environment": {"torch": "2.12" if factor == 1 else "2.13"}, **changes_}
    return build_results(parts, metadata(run_id=f"run-{place}", **about))


@pytest.fixture(scope="module")
def runs():
    return [scaled(0, 1), scaled(1, 1), scaled(2, 1.5)]


def test_a_change_point_is_where_the_verdict_changes(runs):
    frames = [run_frames(run) for run in runs]
    first, second = changes(frames)
    assert not first.changed
    assert {p.metric for p in second.changed} == {"peak_used_blocks"}
    assert second.environment == (("torch", "2.12", "2.13"),)
    rows = trends(frames, [first, second])
    marked = rows[rows["mark"] != ""]
    assert set(marked["place"]) == {2}
    assert set(marked["mark"]) == {"worse"}
    assert marked["shift"].tolist() == [1.5, 1.5, 1.5]


def test_the_report_of_several_runs_says_what_changed_first(runs, tmp_path):
    write_page(runs, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Worse: peak_used_blocks (pool, mha, chat) went from 400 blocks to 600 blocks" in page
    assert "From run-1 to run-2: 3 worse. Around it: torch: 2.12 → 2.13." in page
    assert (tmp_path / "figures" / "trend-replay-peak_used_blocks-simulated.png").exists()
    assert "the base cell is failed (oom)" in page


def test_runs_of_different_suites_say_so(tmp_path):
    write_page([scaled(0, 1), scaled(1, 1, suite_sha256="1" * 64)], tmp_path / "r.html")
    assert "of different suites" in (tmp_path / "r.html").read_text(encoding="utf-8")


def some_pairs():
    worse = dataclasses.replace(
        pair(4096, 1.3), verdict=Verdict.WORSE, ratio_low=1.2, ratio_high=1.4, reason="p = 0.01"
    )
    gone = dataclasses.replace(
        pair(8192, 1.0), verdict=Verdict.MISSING, ratio=None, base_median=None, new_median=None,
        evidence="", base_evidence="", reason="no such cell in the new run",
    )  # fmt: skip
    return [pair(1024, 0.25), worse, gone]


def test_a_comment_opens_with_the_regressions():
    unmet = dataclasses.replace(
        metadata().expectations[0], status=ExpectStatus.FAILED, reason="found 0.3"
    )
    comment = comparison_comment(
        some_pairs(), expectations=[unmet], environment=[("torch", "2.12", None)]
    )
    assert comment.startswith("### kvbench: 1 regression\n")
    assert "3 pairs: 1 better, 1 worse, 1 missing." in comment
    assert "1.3× \\[1.2×, 1.4×\\]" in comment
    assert "- missing: no such cell in the new run (1)" in comment
    assert "**1 of 1 expectations not met**" in comment
    assert "| torch | 2.12 | unknown |" in comment


def test_many_regressions_are_a_row_for_each_metric():
    worse = [
        dataclasses.replace(
            pair(1024 + place, 1 + place / 100), verdict=Verdict.WORSE,
            metric="paged_bytes" if place % 3 else "logical_bytes",
        )
        for place in range(1, 31)
    ]  # fmt: skip
    lines = comparison_comment(worse).splitlines()
    rows = [line for line in lines if line.startswith(("| paged", "| logical"))]
    assert "**Regressions, by metric**" in lines
    assert [row.split(" | ")[1:3] for row in rows] == [["10", "1.3×"], ["20", "1.29×"]]


def test_options_that_differ_are_named_with_their_share():
    def told(**options):
        parts = [
            record(place, "b", "analytic", {"context_tokens": place},
                   values={("logical_bytes", "analytic"): 7},
                   options=options if place else {"utilization": 0.9})
            for place in range(3)
        ]  # fmt: skip
        types = {"context_tokens": "int"}
        return build_results(parts, metadata(axis_types=types, comparisons=(), expectations=()))

    base, new = told(utilization=0.9), told(utilization=0.8, tp=2)
    assert set(setting_changes(base, new)) == {
        ("option utilization (2 of 3 cells)", 0.9, 0.8),
        ("option tp (2 of 3 cells)", None, 2),
    }
    assert setting_changes(base, base) == ()
    step = change(run_frames(base), run_frames(new))
    assert ("option utilization (2 of 3 cells)", "0.9", "0.8") in step.environment


def test_a_comment_about_nothing_does_not_claim_success():
    assert "nothing could be compared" in comparison_comment(some_pairs()[2:])
    assert "no regression" in comparison_comment(some_pairs()[:1])


def test_markdown_fields_are_not_markup():
    table = Table(name="t", caption="", columns=("a|b",), rows=((text("<b>*x*|\n`"),),))
    assert markdown_table(table).splitlines()[2] == "| \\<b\\>\\*x\\*\\| \\` |"


def test_junit_counts_failures_and_skips():
    root = Xml.fromstring(comparison_junit(some_pairs(), expectations=metadata().expectations))
    compared, expected = root.findall("testsuite")
    assert (compared.get("tests"), compared.get("failures"), compared.get("skipped")) == (
        "3", "1", "1",
    )  # fmt: skip
    assert (expected.get("tests"), expected.get("failures")) == ("1", "0")
    (failure,) = root.iter("failure")
    assert failure.get("message") == "worse: p = 0.01"
    assert "new ÷ base 1.3× [1.2×, 1.4×]" in failure.text


def test_junit_fails_on_what_it_is_told_and_survives_control_characters():
    odd = dataclasses.replace(some_pairs()[2], reason="bad \x00 byte")
    root = Xml.fromstring(comparison_junit([odd], fail_on=("missing",)))
    assert root.find("testsuite").get("failures") == "1"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_exports_hold_every_value_with_whole_axes(tmp_path, ending):
    results, target = sample_results(), tmp_path / f"values.{ending}"
    export(results, target)
    read = pd.read_csv if ending == "csv" else lambda path: pq.read_table(path).to_pandas()
    frame = read(target)
    assert len(frame) == len(values_frame(results)) == 18 * 6 + 3 * 4
    row = frame[(frame["model"] == "gqa8") & (frame["metric"] == "logical_bytes")].iloc[1]
    assert (row["context_tokens"], row["value"]) == (4100, 4100 * 131072)
    if ending == "csv":
        assert ",4100," in target.read_text()


def test_the_markdown_export_holds_every_row(tmp_path):
    export(sample_results(), tmp_path / "r.md")
    lines = (tmp_path / "r.md").read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("| mha |") for line in lines) == 5


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(ResultsError, match=r"exports end in \.csv, \.parquet, \.md"):
        export(sample_results(), tmp_path / "values.xlsx")


def test_a_notebook_sees_the_answer_escaped():
    results = sample_results(suite_name="<b>")
    html = notebook_html(results)
    assert results._repr_html_() == html
    assert "<h4>&lt;b&gt;" in html
    assert "21 of 24 cells passed" in html
    assert "○ analytic" in html
