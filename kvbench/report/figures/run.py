"""Every chart of one run, the one beside the answer first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from kvbench.report.evidence import ORDER
from kvbench.report.figures.capacity import budget_charts, fit_charts
from kvbench.report.figures.catalog import metric_charts
from kvbench.report.figures.chart import Chart
from kvbench.report.figures.comparison import MAX_ROWS, ratio_forest
from kvbench.report.figures.coverage import LETTERS, coverage_grid
from kvbench.report.figures.ladder import ladder_bars, signed_bytes
from kvbench.report.figures.occupancy import blocks_over_time, layers_of, shares_over_time
from kvbench.report.figures.pool import curve_charts, share_charts
from kvbench.report.frames import RunFrames
from kvbench.report.labels import differing_axes, in_plain_words, point_name
from kvbench.report.ladder import Ladder, Step, ladders
from kvbench.report.quantities import binary, plain_number
from kvbench.report.rows import groups_of, rows_of
from kvbench.report.tables import pair_evidence, ratio_text, severity
from kvbench.results.schema import PARAM_PREFIX
from kvbench.results.verdict import PairVerdict

#: Cells whose occupancy is drawn.
MAX_OCCUPANCY = 4


def run_charts(run: RunFrames) -> list[Chart]:
    """Return the charts that there are data for."""
    return [
        *metric_charts(run),
        *fit_charts(run),
        *budget_charts(run),
        *share_charts(run),
        *_occupancy(run),
        *_shares_beside(run),
        *curve_charts(run),
        *_ladder(ladders(run)),
        *_comparisons(run),
        *_coverage(run),
    ]


def _occupancy(run: RunFrames) -> Iterator[Chart]:
    rows = run.series[run.series["metric"] == "used_blocks"]
    cells = rows.drop_duplicates(["cell_id", "evidence"]).merge(
        run.cells, on="cell_id", how="left", sort=False
    )
    axes = differing_axes(cells)
    for row in rows_of(cells.head(MAX_OCCUPANCY)):
        point = point_name({axis: row[PARAM_PREFIX + axis] for axis in axes}) or row["engine"]
        part = run.series[
            (run.series["cell_id"] == row["cell_id"])
            & (run.series["evidence"] == row["evidence"])
            & (run.series["repeat"] == 0)
        ]
        pool = _value(run.values, row["cell_id"], "pool_blocks")
        used = part[part["metric"] == "used_blocks"]["value"]
        share = f" of {plain_number(pool)} in the pool" if pool else ""
        layers = ", ".join(text for text, _, _ in layers_of(part).values())
        yield Chart(
            slug=f"occupancy-{row['ordinal']}",
            section="occupancy",
            title=f"Blocks over time ({row['benchmark']}, {point})",
            caption=f"From the bottom: {layers}. Each series keeps the largest value of each "
            "stretch of time; the upper one is cut at the pool.",
            alt=f"Blocks over time, {point}: at most {plain_number(used.max())} used{share}.",
            evidence=[row["evidence"]],
            figure=blocks_over_time(part, pool_blocks=pool, evidence=row["evidence"]),
        )


def _shares_beside(run: RunFrames) -> Iterator[Chart]:
    """Shares of one pool that a cell has from several kinds of evidence."""
    rows = run.series[(run.series["unit"] == "ratio") & (run.series["repeat"] == 0)]
    kinds = rows.groupby("cell_id", sort=False)["evidence"].nunique()
    cells = run.cells[run.cells["cell_id"].isin(kinds[kinds > 1].index)]
    axes = differing_axes(cells)
    for row in rows_of(cells.head(MAX_OCCUPANCY)):
        point = point_name({axis: row[PARAM_PREFIX + axis] for axis in axes}) or row["engine"]
        found = groups_of(rows[rows["cell_id"] == row["cell_id"]], "metric", "evidence")
        lines = {(in_plain_words(str(name)), str(kind)): part for (name, kind), part in found}
        ends = [f"{name} ({kind}) peaks at {part['value'].max():.1%}"
                for (name, kind), part in lines.items()]  # fmt: skip
        yield Chart(
            slug=f"shares-{row['ordinal']}",
            section="occupancy",
            title=f"Share of the pool over time ({row['benchmark']}, {point})",
            caption="Lines of different kinds of evidence, each named in the legend.",
            alt=f"Share of the pool over time, {point}: {'; '.join(ends)}.",
            evidence=sorted({kind for _, kind in lines}),
            figure=shares_over_time(lines),
        )


def _value(values: pd.DataFrame, cell_id: str, metric: str) -> float | None:
    found = values[(values["cell_id"] == cell_id) & (values["metric"] == metric)]["value"]
    return None if found.empty else float(found.iloc[0])


def _ladder(found: Sequence[Ladder]) -> Iterator[Chart]:
    for place, ladder in enumerate(found[:2]):
        if len(ladder.steps) < 2:
            continue
        facts = [_step_words(step) for step in ladder.steps]
        yield Chart(
            slug=f"ladder-{place}",
            section="ladder",
            title=f"Evidence ladder of {ladder.scope}",
            caption="In brackets the difference to the step above.",
            alt=f"{ladder.name}: {'; '.join(facts)}.",
            evidence=list(dict.fromkeys(step.evidence for step in ladder.steps)),
            figure=ladder_bars(ladder),
        )


def _step_words(step: Step) -> str:
    text = f"{step.metric} {binary(step.value_bytes)} ({step.evidence}"
    if step.difference_bytes is not None:
        text += f", {signed_bytes(step.difference_bytes)}: {step.cause}"
    return f"{text})"


def _comparisons(run: RunFrames) -> Iterator[Chart]:
    chart = comparison_chart(run.results.metadata.comparisons)
    if chart is not None:
        yield chart


def comparison_chart(pairs: tuple[PairVerdict, ...]) -> Chart | None:
    """Return the forest plot of compared pairs, ``None`` when no pair has a ratio."""
    shown = [pair for pair in sorted(pairs, key=severity, reverse=True) if pair.ratio][:MAX_ROWS]
    if not shown:
        return None
    frame = pd.DataFrame(
        {
            "label": [_pair_name(pair) for pair in shown],
            "evidence": [pair.evidence for pair in shown],
            "ratio": [pair.ratio for pair in shown],
            "ratio_low": [_number(pair.ratio_low) for pair in shown],
            "ratio_high": [_number(pair.ratio_high) for pair in shown],
            "verdict": [str(pair.verdict) for pair in shown],
        }
    )
    facts = [f"{_pair_name(p)}: {ratio_text(p)} {p.verdict}" for p in shown[:12]]
    left = sum(1 for pair in pairs if pair.ratio) - len(shown)
    return Chart(
        slug="comparisons",
        section="comparison",
        title="Comparisons",
        caption="Ratio of medians, new over base; lines are intervals."
        + (f" {left} more pairs are in the table." if left else ""),
        alt=f"{'; '.join(facts)}.",
        evidence=[kind for kind in ORDER if any(kind in _kinds(pair) for pair in shown)],
        figure=ratio_forest(frame),
    )


def _pair_name(pair: PairVerdict) -> str:
    where = point_name(pair.where)
    name = f"{pair.new} / {pair.base}: {pair.metric}"
    if pair.vary == "run":
        name, where = pair.metric, where or pair.engine
    if pair.base_evidence != pair.evidence:
        name += f" {pair_evidence(pair)}"
    return f"{name} ({where})" if where else name


def _kinds(pair: PairVerdict) -> tuple[str, str]:
    return pair.base_evidence, pair.evidence


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _coverage(run: RunFrames) -> Iterator[Chart]:
    counts = run.cells["status"].value_counts()
    if len(counts) < 2 and len(run.cells) < 2:
        return
    letters = [f"{LETTERS[name][0]} {name}" for name in counts.index if LETTERS[name][0]]
    facts = [f"{count:,} {status}" for status, count in counts.items()]
    yield Chart(
        slug="coverage",
        section="coverage",
        title="Coverage grid",
        caption="One square for each cell in the order of the plan; shaded squares passed"
        + (f", letters: {', '.join(letters)}." if letters else "."),
        alt=f"{len(run.cells):,} cells: {', '.join(facts)}.",
        evidence=[],
        figure=coverage_grid(run.cells),
    )
