"""The page of several runs: what changed first, then trends, pairs and environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pandas as pd

from kvbench.compare.many import family_sentence
from kvbench.report.figures.chart import Chart
from kvbench.report.figures.run import comparison_chart
from kvbench.report.figures.trend import MAX_LINES, trend_lines
from kvbench.report.frames import RunFrames
from kvbench.report.history import Change, change, change_points, changes, trends
from kvbench.report.labels import in_plain_words, point_name
from kvbench.report.page import Page, Picture, Section
from kvbench.report.quantities import in_words, times
from kvbench.report.rows import groups_of, rows_of
from kvbench.report.sections import kinds_of
from kvbench.report.tables import (
    Field,
    Table,
    comparison_table,
    expectation_table,
    severity,
    text,
)
from kvbench.report.verdicts import Sentence
from kvbench.results.verdict import PairVerdict, Verdict

#: Trend charts of one report, and changes told on its first screen.
MAX_TRENDS, MAX_CHANGES = 8, 5


def history_charts(runs: Sequence[RunFrames]) -> list[Chart]:
    """Return the charts of several runs: the largest trends first, then the pairs."""
    steps = changes(runs)
    whole = change(runs[0], runs[-1])
    names = [_run_name(run, place) for place, run in enumerate(runs)]
    found = list(_trend_charts(trends(runs, steps), names))
    pairs = comparison_chart(whole.changed or whole.pairs)
    return [*found, *([pairs] if pairs else [])]


def history_page(runs: Sequence[RunFrames], pictures: Sequence[tuple[str, Picture]]) -> Page:
    """Return the page of several runs; the first one is the baseline, the last one is judged."""
    steps, whole = changes(runs), change(runs[0], runs[-1])
    last = runs[-1].results.metadata
    shown = [section for section in _sections(runs, steps, whole, pictures[1:]) if section.filled]
    return Page(
        title=f"{last.suite_name}: {len(runs)} runs",
        description=last.suite_description,
        facts=[f"baseline {whole.base}", f"newest {whole.new}"],
        banners=_banners(runs),
        sentences=list(_sentences(runs, steps, whole)),
        expectations=expectation_table(last.expectations),
        key_figure=pictures[0][1] if pictures else None,
        kinds=list(dict.fromkeys(kind for run in runs for kind in kinds_of(run))),
        sections=shown,
        kvbench_version=last.kvbench_version,
    )


def _trend_charts(rows: pd.DataFrame, names: Sequence[str]) -> Iterator[Chart]:
    if rows.empty:
        return
    groups = list(groups_of(rows, "benchmark", "metric", "evidence"))
    ranked = sorted(groups, key=lambda item: (-(item[1]["mark"] != "").sum(), -_shift(item[1])))
    for (benchmark, metric, evidence), frame in ranked[:MAX_TRENDS]:
        if _shift(frame) == 1.0:
            continue
        lines = frame.sort_values("shift", ascending=False, kind="stable")
        keep = lines.drop_duplicates(["engine", "point"]).head(MAX_LINES)[["engine", "point"]]
        drawn = frame.merge(keep, on=["engine", "point"], sort=False)
        marks = drawn[drawn["mark"] != ""]
        facts = [f"{row.point}: {row.mark} in {names[row.place]}" for row in rows_of(marks)]
        yield Chart(
            slug=f"trend-{benchmark}-{metric}-{evidence}",
            section="trends",
            title=f"{in_plain_words(metric)} over runs ({benchmark})",
            caption="Rings mark a verdict of better or worse against the run before; the cells "
            "that change most are drawn.",
            alt=f"{metric} over {len(names)} runs: {'; '.join(facts) or 'no verdict changed'}.",
            evidence=[str(evidence)],
            figure=trend_lines(drawn, names),
        )


def _shift(frame: pd.DataFrame) -> float:
    return float(frame["shift"].max())


def _sections(
    runs: Sequence[RunFrames],
    steps: Sequence[Change],
    whole: Change,
    pictures: Sequence[tuple[str, Picture]],
) -> list[Section]:
    drawn = {name: [p for section, p in pictures if section == name] for name, _ in pictures}
    pairs = [pair for pair in whole.pairs if pair.verdict != Verdict.MISSING]
    gaps = [pair for pair in whole.pairs if pair.verdict == Verdict.MISSING]
    family = family_sentence(pairs)
    return [
        Section(name="trends", title="Trends", figures=drawn.get("trends", ())),
        Section(
            name="comparisons",
            title="Newest against baseline",
            paragraphs=[family] if family else (),
            figures=drawn.get("comparison", ()),
            tables=[comparison_table(pairs)] if pairs else (),
        ),
        Section(
            name="not-comparable",
            title="Not comparable",
            tables=[_gap_table(gaps)] if gaps else (),
        ),
        Section(
            name="environment",
            title="What is different around the runs",
            tables=_environment_tables(steps),
        ),
        Section(name="runs", title="Runs", tables=[_run_table(runs)]),
    ]


def _sentences(
    runs: Sequence[RunFrames], steps: Sequence[Change], whole: Change
) -> Iterator[Sentence]:
    counts = Counter(str(pair.verdict) for pair in whole.pairs)
    words = ", ".join(f"{counts[v]} {v}" for v in Verdict if counts[v]) or "nothing to compare"
    yield Sentence(
        text=f"Newest run against the baseline, {len(whole.pairs):,} pairs: {words}.",
        evidence=(),
        topic="",
    )
    for step, found in change_points(steps):
        around = "; ".join(f"{key}: {old} → {now}" for key, old, now in step.environment[:4])
        yield Sentence(
            text=f"From {step.base} to {step.new}: "
            + ", ".join(f"{count} {name}" for name, count in found.items() if count)
            + f". Around it: {around or 'nothing that was recorded'}.",
            evidence=(),
            topic="change point",
        )
    for pair in _worst_of_each_metric(whole)[:MAX_CHANGES]:
        yield Sentence(text=_pair_sentence(pair), evidence=(pair.evidence,), topic=pair.benchmark)


def _worst_of_each_metric(whole: Change) -> list[PairVerdict]:
    """The largest change of each metric of a benchmark, regressions first."""
    ordered = sorted(whole.changed, key=severity, reverse=True)
    first: dict[tuple[str, str, str], PairVerdict] = {}
    for pair in ordered:
        first.setdefault((pair.benchmark, pair.metric, pair.evidence), pair)
    return list(first.values())


def _pair_sentence(pair: PairVerdict) -> str:
    where = ", ".join(filter(None, [pair.engine, point_name(pair.where)]))
    ratio = f", {times(pair.ratio)}" if pair.ratio is not None else ""
    if pair.ratio_low is not None and pair.ratio_high is not None:
        ratio += f" [{times(pair.ratio_low)}, {times(pair.ratio_high)}]"
    return (
        f"{pair.verdict.capitalize()}: {pair.metric} ({where}) went from "
        f"{in_words(pair.base_median, pair.unit)} to {in_words(pair.new_median, pair.unit)}{ratio}."
    )


def _gap_table(pairs: Sequence[PairVerdict]) -> Table:
    counts = Counter((pair.benchmark, pair.engine, pair.metric, pair.reason) for pair in pairs)
    rows = [
        (*(text(part) for part in key), Field(text=f"{count:,}", key=count))
        for key, count in counts.most_common(200)
    ]
    columns = ("benchmark", "engine", "metric", "reason", "pairs")
    return Table(name="gaps", caption="Pairs without a verdict, and why", columns=columns,
                 rows=tuple(rows))  # fmt: skip


def _environment_tables(steps: Sequence[Change]) -> list[Table]:
    return [
        Table(
            name=f"environment-{place}",
            caption=f"{step.base} → {step.new}",
            columns=("what", "before", "after"),
            rows=tuple(tuple(text(part) for part in row) for row in step.environment),
        )
        for place, step in enumerate(steps)
        if step.environment
    ]


def _run_table(runs: Sequence[RunFrames]) -> Table:
    rows = []
    for place, run in enumerate(runs):
        metadata = run.results.metadata
        engines = run.cells.drop_duplicates(["engine", "engine_version"])
        names = [f"{row.engine} {row.engine_version or ''}".strip() for row in rows_of(engines)]
        passed = int((run.cells["status"] == "passed").sum())
        rows.append(
            (
                Field(text=str(place + 1), key=place + 1),
                text(metadata.run_id),
                text(metadata.started_at),
                text(", ".join(names)),
                text(f"{passed:,} of {len(run.cells):,} passed"),
                text("complete" if metadata.complete else "partial"),
                text(metadata.suite_sha256[:12]),
                text(metadata.kvbench_version),
            )
        )
    columns = ("", "run", "started", "engines", "cells", "state", "suite", "kvbench")
    return Table(name="run-list", caption="Runs in the order given", columns=columns,
                 rows=tuple(rows))  # fmt: skip


def _banners(runs: Sequence[RunFrames]) -> list[str]:
    partial = [run.results.run_id for run in runs if not run.results.metadata.complete]
    found = [f"Partial runs: {', '.join(partial)}."] if partial else []
    suites = {run.results.metadata.suite_sha256 for run in runs}
    if len(suites) > 1:
        found.append("The runs are of different suites; only cells at the same place are paired.")
    return found


def _run_name(run: RunFrames, place: int) -> str:
    date = run.results.metadata.started_at[:10]
    return f"{place + 1}\n{date}" if date else str(place + 1)
