"""Tables of a report as plain text fields with sort keys; the page and the exports draw them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from kvbench.engine import Metric, Scalar
from kvbench.report.evidence import tag
from kvbench.report.figures.ladder import signed_bytes
from kvbench.report.labels import missing, point_name
from kvbench.report.ladder import Ladder
from kvbench.report.quantities import binary, in_words, interval, percent, times
from kvbench.report.rows import rows_of
from kvbench.results.schema import PARAM_PREFIX
from kvbench.results.verdict import ExpectStatus, ExpectVerdict, PairVerdict

_PAIR_COLUMNS = ("benchmark", "where", "metric", "base", "new", "new ÷ base", "verdict", "why")

#: Where the rows are that a table leaves out.
IN_CELLS = "cells.parquet in the run's folder"
IN_SAMPLES = (
    "samples.parquet in the run's folder, or as a table by "
    "“kvbench report RUN --export values.csv” (.parquet, .md)"
)
IN_METADATA = "read_results(RUN).metadata.comparisons, or “kvbench compare BASE NEW --format csv”"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field.

    Attributes:
        text: What is shown.
        key: What it sorts by when it is a number, ``None`` for text.
        mark: Word for its look (``met``, ``failed``, ``worse`` ...), empty for none.
    """

    text: str
    key: float | None = None
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table.

    Attributes:
        name: Identifier within the page, used in links.
        caption: What the rows are.
        columns: Headings.
        rows: One field for each column.
        omitted: Rows that are not shown.
        whole: Where every row is, for the sentence below a table that leaves rows out.
    """

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Field, ...], ...]
    omitted: int = 0
    whole: str = IN_CELLS

    @property
    def left_out(self) -> str:
        """How many rows are shown and where all of them are; empty when all are."""
        if not self.omitted:
            return ""
        shown = len(self.rows)
        return f"Shown are {shown:,} of {shown + self.omitted:,} rows. All of them: {self.whole}."


def text(value: object) -> Field:
    """Return a field of text; nothing said is an empty field."""
    return Field(text="" if value is None else str(value))


def number(value: float | None, unit: str) -> Field:
    """Return a field of a number with its unit."""
    return Field(text=in_words(value, unit), key=value)


def hole_table(cells: pd.DataFrame, limit: int = 200) -> Table:
    """Return every cell without numbers, with its reason in a code and in words."""
    holes = cells[cells["status"] != "passed"]
    axes = [name for name in cells.columns if name.startswith(PARAM_PREFIX)]
    rows = []
    for row in rows_of(holes.head(limit)):
        point = point_name({axis[len(PARAM_PREFIX) :]: row[axis] for axis in axes})
        status = Field(text=row["status"], mark=row["status"])
        said = [text(None if missing(row[name]) else row[name]) for name in ("reason", "error")]
        rows.append((text(row["benchmark"]), text(row["engine"]), text(point), status, *said))
    return Table(
        name="holes",
        caption="Cells without numbers to compare, and why",
        columns=("benchmark", "engine", "point", "status", "reason", "in words"),
        rows=tuple(rows),
        omitted=max(0, len(holes) - limit),
    )


def coverage_table(cells: pd.DataFrame) -> Table:
    """Return how many cells of each benchmark and engine ended how."""
    statuses = list(dict.fromkeys(["passed", *sorted(cells["status"].unique())]))
    columns = [cells[name].tolist() for name in ("benchmark", "engine", "status")]
    counts = Counter(zip(*columns, strict=True))
    rows = [
        (
            text(benchmark),
            text(engine),
            *(
                Field(text=f"{count:,}", key=count)
                for count in (counts[benchmark, engine, name] for name in statuses)
            ),
        )
        for benchmark, engine in dict.fromkeys((key[0], key[1]) for key in counts)
    ]
    return Table(
        name="coverage",
        caption="Cells by benchmark, engine and outcome",
        columns=("benchmark", "engine", *statuses),
        rows=tuple(rows),
    )


def ladder_table(ladders: Sequence[Ladder]) -> Table:
    """Return the steps of all ladders, each with the named difference to the step below."""
    rows = [
        (
            text(f"{ladder.name} ({ladder.scope})"),
            text(step.metric),
            text(tag(step.evidence)),
            text(step.engine),
            Field(text=binary(step.value_bytes), key=step.value_bytes),
            _difference(step.difference_bytes, step.value_bytes),
            text(step.cause),
        )
        for ladder in ladders
        for step in ladder.steps
    ]
    return Table(
        name="ladder",
        caption="Evidence ladder: each step, and what the difference to the step above it is",
        columns=("point", "step", "evidence", "engine", "bytes", "difference", "made of"),
        rows=tuple(rows),
    )


def _difference(value: float | None, top: float) -> Field:
    if value is None:
        return Field(text="")
    below = top - value
    share = f" ({percent(value / below)})" if below else ""
    return Field(text=f"{signed_bytes(value)}{share}", key=value)


def comparison_table(pairs: Sequence[PairVerdict], limit: int = 300) -> Table:
    """Return compared pairs: regressions by size first, then the rest as compared.

    Pairs of two runs need no column that says which runs they are of.
    """
    ordered = sorted(pairs, key=severity, reverse=True)
    named = any(pair.vary != "run" for pair in pairs)
    head = ("comparison", "pair") if named else ()
    return Table(
        name="comparisons",
        caption="Paired cells: ratio of medians with its interval, and the verdict",
        columns=(*head, *_PAIR_COLUMNS),
        rows=tuple(_pair_row(pair, named) for pair in ordered[:limit]),
        omitted=max(0, len(ordered) - limit),
        whole=IN_METADATA,
    )


def _pair_row(pair: PairVerdict, named: bool) -> tuple[Field, ...]:
    head = (text(pair.comparison), text(f"{pair.new} against {pair.base}")) if named else ()
    where = point_name(pair.where)
    return (
        *head,
        text(pair.benchmark),
        text(where if named else ", ".join(filter(None, [pair.engine, where]))),
        text(f"{pair.metric} {pair_evidence(pair)}"),
        number(pair.base_median, pair.unit),
        number(pair.new_median, pair.unit),
        Field(text=ratio_text(pair), key=pair.ratio),
        Field(text=str(pair.verdict), mark=str(pair.verdict)),
        text(pair.reason),
    )


def severity(pair: PairVerdict) -> tuple[int, float]:
    """Sort key of a pair: regressions above all, larger changes before smaller ones."""
    order = ("same", "better", "inconclusive", "missing", "worse")
    ratio = pair.ratio or 1.0
    return order.index(str(pair.verdict)), max(ratio, 1 / ratio) if ratio > 0 else 0.0


def ratio_text(pair: PairVerdict) -> str:
    """Return the ratio of a pair with its interval."""
    if pair.ratio is None:
        return "–"
    if pair.ratio_low is None or pair.ratio_high is None:
        return times(pair.ratio)
    return f"{times(pair.ratio)} [{times(pair.ratio_low)}, {times(pair.ratio_high)}]"


def pair_evidence(pair: PairVerdict) -> str:
    """Return the kinds of evidence of a pair: one, or that of the base against the new one."""
    if pair.base_evidence == pair.evidence:
        return tag(pair.evidence)
    return f"{tag(pair.base_evidence)} → {tag(pair.evidence)}"


def expectation_table(found: Sequence[ExpectVerdict]) -> Table:
    """Return expectations and gates by name, unmet ones first: how often met, what was found."""
    by_name: dict[tuple[str, str], list[ExpectVerdict]] = {}
    for item in found:
        by_name.setdefault((item.name, item.relation), []).append(item)
    ordered = sorted(by_name.values(), key=lambda group: all(_is_met(item) for item in group))
    rows = tuple(_expectation_row(group) for group in ordered)
    columns = ("expectation", "benchmark", "metric", "expected", "found", "state", "not met")
    width = len(columns) - all(_is_met(item) for item in found)
    return Table(
        name="expectations",
        caption="Expectations and gates of the suite",
        columns=columns[:width],
        rows=tuple(row[:width] for row in rows),
    )


def _expectation_row(group: Sequence[ExpectVerdict]) -> tuple[Field, ...]:
    first = group[0]
    bad = [item for item in group if not _is_met(item)]
    state = f"met in {len(group) - len(bad)} of {len(group)}" if bad else f"met ({len(group)})"
    kinds = " ".join(dict.fromkeys(tag(item.evidence) for item in group if item.evidence))
    seen = [item.observed for item in group if item.observed is not None]
    unit = "" if first.unit == "ratio" else first.unit
    return (
        text(first.name),
        text(first.benchmark),
        text(f"{first.metric} {kinds}".strip()),
        text(first.relation),
        text(interval(min(seen), max(seen), unit) if seen else "–"),
        Field(text=state, mark=str(first.status if not bad else bad[0].status)),
        text("; ".join(_miss(item) for item in bad[:4]) + (" …" if len(bad) > 4 else "")),
    )


def _miss(item: ExpectVerdict) -> str:
    where = ", ".join(filter(None, [item.engine, point_name(item.where)]))
    return f"{where}: {item.reason}" if where else item.reason


def _is_met(item: ExpectVerdict) -> bool:
    return item.status == ExpectStatus.MET


def metric_table(metrics: Iterable[Metric]) -> Table:
    """Return the registry: what every number in the report means."""
    rows = [
        (
            text(metric.name),
            text(tag(metric.evidence)),
            text(metric.unit),
            text(f"{metric.direction} is better" if metric.direction != "none" else "–"),
            text(metric.meaning),
        )
        for metric in metrics
    ]
    columns = ("metric", "evidence", "unit", "direction", "meaning")
    return Table(
        name="metrics",
        caption="Metrics of the engines of this run",
        columns=columns,
        rows=tuple(rows),
    )


def mapping_table(name: str, caption: str, values: Mapping[str, Scalar | None]) -> Table:
    """Return a mapping as two columns; ``None`` says that it could not be found out."""
    rows = [
        (text(key), text("unknown" if value is None else value)) for key, value in values.items()
    ]
    return Table(name=name, caption=caption, columns=("what", "value"), rows=tuple(rows))
