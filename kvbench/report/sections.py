"""The sections of a run's report, each from the frames alone."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from kvbench.compare.many import family_sentence
from kvbench.engine import ReportSection
from kvbench.report.arrangements import ARTIFACT as ARRANGEMENTS
from kvbench.report.capacity import capacity_table, cases
from kvbench.report.evidence import ORDER
from kvbench.report.explorer import explorer_data
from kvbench.report.frames import RunFrames
from kvbench.report.geometry import ARTIFACT as GEOMETRY
from kvbench.report.ladder import Ladder
from kvbench.report.page import Block, Picture, Section
from kvbench.report.result_tables import result_tables
from kvbench.report.tables import (
    Table,
    comparison_table,
    coverage_table,
    hole_table,
    ladder_table,
    mapping_table,
    metric_table,
    text,
)

#: Verbatim texts of one report, and characters of one of them.
MAX_TEXTS, MAX_CHARS = 24, 20_000

#: Artifacts that the report reads itself instead of showing them.
READ_ARTIFACTS = {GEOMETRY, ARRANGEMENTS, "budget"}

_CHART_SECTIONS = {
    "capacity": "Capacity and concurrency",
    "latency": "Latency",
    "bytes": "Bytes of one request",
    "fragmentation": "Fragmentation",
    "occupancy": "Occupancy",
    "sharing": "Prefix sharing",
    "bandwidth": "Bandwidth",
    "more": "More metrics",
}


def sections(
    run: RunFrames, rungs: Sequence[Ladder], pictures: Sequence[tuple[str, Picture]]
) -> list[Section]:
    """Return the sections that have something to show.

    Args:
        run: The run.
        rungs: Its evidence ladders.
        pictures: Figures with the section each belongs to.
    """
    drawn: dict[str, list[Picture]] = {}
    for name, picture in pictures:
        drawn.setdefault(name, []).append(picture)
    metadata = run.results.metadata
    found = [_ladder(rungs, drawn.get("ladder", ()))]
    found += [
        Section(
            name=name,
            title=title,
            figures=drawn.get(name, ()),
            tables=_chart_tables(name, run),
            tables_first=True,
        )
        for name, title in _CHART_SECTIONS.items()
    ]
    found += [
        Section(name="explorer", title="Explorer", explorer=explorer_data(run) is not None),
        _comparisons(run, drawn.get("comparison", ())),
        Section(name="artifacts", title="Walkthroughs and tables", texts=list(_texts(run))),
        Section(name="results", title="Every result", tables=result_tables(run)),
        _coverage(run, drawn.get("coverage", ())),
        Section(name="assumptions", title="Assumptions", lists=_counted(run, "assumptions_json")),
        Section(name="warnings", title="Warnings", lists=_warnings(run)),
        _environment(run),
        Section(
            name="registry",
            title="What the metrics mean",
            tables=[metric_table([metadata.metrics[key] for key in sorted(metadata.metrics)])],
        ),
        _suite(run),
    ]
    return [section for section in found if section.filled]


def plugin_sections(stated: Sequence[ReportSection]) -> list[Section]:
    """Return the sections that plugins add; nothing in them is trusted to be markup."""
    found = []
    for place, section in enumerate(stated):
        tables: list[Table] = []
        if section.table:
            head, *body = section.table
            rows = tuple(tuple(text(value) for value in row) for row in body)
            name = f"plugin-{place}-table"
            tables = [Table(name=name, caption=section.title, columns=tuple(head), rows=rows)]
        found.append(
            Section(
                name=f"plugin-{place}",
                title=section.title,
                paragraphs=[line for line in section.text.splitlines() if line.strip()],
                evidence=(str(section.evidence),),
                tables=tables,
            )
        )
    return found


def _ladder(rungs: Sequence[Ladder], figures: Sequence[Picture]) -> Section:
    intro = (
        "Each step is a metric of one kind of evidence at the same point; the difference to the "
        "step before it is named and sized. Steps that this run has no cells for are not shown."
    )
    return Section(
        name="ladder",
        title="Evidence ladder",
        paragraphs=[intro] if rungs else (),
        figures=figures,
        tables=[ladder_table(rungs)] if rungs else (),
    )


def _chart_tables(section: str, run: RunFrames) -> list[Table]:
    found = cases(run) if section == "capacity" else []
    return [capacity_table(found)] if found else []


def _comparisons(run: RunFrames, figures: Sequence[Picture]) -> Section:
    pairs = run.results.metadata.comparisons
    family = family_sentence(pairs)
    return Section(
        name="comparisons",
        title="Comparisons",
        paragraphs=[family] if family else (),
        figures=figures,
        tables=[comparison_table(pairs)] if pairs else (),
    )


def _coverage(run: RunFrames, figures: Sequence[Picture]) -> Section:
    holes = hole_table(run.cells)
    excluded = [
        f"{benchmark.name}: {reason}"
        for benchmark in run.results.metadata.benchmarks
        for reason in benchmark.excluded
    ]
    return Section(
        name="coverage",
        title="Coverage",
        paragraphs=["Points the suite excludes: " + "; ".join(excluded) + "."] if excluded else (),
        figures=figures,
        tables=[coverage_table(run.cells), *([holes] if holes.rows else [])],
    )


def _texts(run: RunFrames) -> Iterator[Block]:
    seen: Counter[tuple[str, str]] = Counter()
    names: dict[tuple[str, str], str] = {}
    table = run.results.cells
    rows = zip(
        table["benchmark"].to_pylist(),
        table["engine"].to_pylist(),
        table["artifacts_json"].to_pylist(),
        strict=True,
    )
    for benchmark, engine, artifacts in rows:
        if artifacts == "{}":
            continue
        for name, content in json.loads(artifacts).items():
            if name not in READ_ARTIFACTS:
                seen[name, content] += 1
                names.setdefault((name, content), f"{name} · {benchmark}, {engine}")
    for (_, content), title in list(zip(seen, names.values(), strict=True))[:MAX_TEXTS]:
        more = len(content) - MAX_CHARS
        cut = f"\n… {more:,} more characters in cells.parquet" if more > 0 else ""
        yield Block(title=title, text=content[:MAX_CHARS] + cut)


def _counted(run: RunFrames, column: str) -> list[list[str]]:
    """Sentences of all cells, each once, with the number of cells that say it."""
    total = run.results.cells.num_rows
    texts = Counter(run.results.cells[column].to_pylist())
    counts: Counter[str] = Counter()
    for packed, times in texts.items():
        for sentence in json.loads(packed):
            counts[sentence] += times
    points = [
        sentence if times == total else f"{sentence} ({times:,} of {total:,} cells)"
        for sentence, times in counts.items()
    ]
    return [points] if points else []


def _warnings(run: RunFrames) -> list[list[str]]:
    whole = list(run.results.metadata.warnings)
    return ([whole] if whole else []) + _counted(run, "warnings_json")


def _environment(run: RunFrames) -> Section:
    values = run.results.metadata.environment
    tables = [mapping_table("environment-table", "Where the run was made", values)]
    return Section(name="environment", title="Environment", tables=tables if values else ())


def _suite(run: RunFrames) -> Section:
    metadata = run.results.metadata
    command = " ".join(_quoted(part) for part in metadata.command)
    texts = [Block(title="Command", text=command)] if command else []
    if metadata.suite_toml:
        title = f"Suite (SHA-256 {metadata.suite_sha256[:16]}…)"
        texts.append(Block(title=title, text=metadata.suite_toml))
    return Section(name="suite", title="Reproduce it", texts=texts)


def _quoted(part: str) -> str:
    return shlex.quote(part)


def kinds_of(run: RunFrames) -> list[str]:
    """Kinds of evidence that occur in a run, weakest first."""
    present = {*run.values["evidence"].unique(), *run.series["evidence"].unique()}
    return [kind for kind in ORDER if kind in present]


#: A function that turns results into plugin sections; the command line supplies the real one.
SectionSource = Callable[[RunFrames], Sequence[ReportSection]]
