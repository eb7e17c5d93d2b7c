"""Write a report: the HTML file and its figures, from stored results only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

from kvbench.engine import Evidence, ReportSection
from kvbench.errors import ResultsError
from kvbench.plugins import load_plugins
from kvbench.report.explorer import explorer_data
from kvbench.report.figures.chart import Chart
from kvbench.report.figures.run import run_charts
from kvbench.report.figures.style import to_png, to_svg
from kvbench.report.frames import RunFrames, run_frames
from kvbench.report.ladder import ladders
from kvbench.report.page import Page, Picture, Section, render
from kvbench.report.rows import rows_of
from kvbench.report.sections import kinds_of, plugin_sections, sections
from kvbench.report.side_by_side import history_charts, history_page
from kvbench.report.tables import expectation_table
from kvbench.report.verdicts import (
    Sentence,
    coverage_sentence,
    expectation_sentence,
    verdict_sentences,
)
from kvbench.results import Results, read_results
from kvbench.results.verdict import ExpectStatus, ExpectVerdict

REPORT_FILE = "report.html"
FIGURES_FOLDER = "figures"

#: Longest file name of a figure, without its ending.
MAX_NAME = 80

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def write_report(runs: Path | Sequence[Path], output: Path | None = None) -> Path:
    """Write the report of one run, or of several side by side.

    Args:
        runs: A run's folder, or several in the order in which they are compared.
        output: HTML file to write, by default ``report.html`` in the first run's folder. The
            figures go into the folder ``figures`` beside it.

    Returns:
        The HTML file.

    Raises:
        ResultsError: A run cannot be read, or the report cannot be written.
    """
    paths = [runs] if isinstance(runs, Path) else list(runs)
    if not paths:
        raise ResultsError("no run to report; name at least one run's folder")
    target = output or report_path(paths[0])
    results = [read_results(path) for path in paths]
    write_page(results, target)
    return target


def write_page(results: Sequence[Results], target: Path) -> None:
    """Write the page of results that are already read, with its figures beside it.

    Raises:
        ResultsError: The files cannot be written.
    """
    runs = [run_frames(result) for result in results]
    charts = _named(run_charts(runs[0]) if len(runs) == 1 else history_charts(runs))
    pictures = [(chart.section, _picture(chart)) for chart in charts]
    page = run_page(runs[0], pictures) if len(runs) == 1 else history_page(runs, pictures)
    try:
        _write_figures(target.parent / FIGURES_FOLDER, charts, [p for _, p in pictures])
        _replace(target, render(page))
    except OSError as error:
        raise ResultsError(f"cannot write {target}: {error.strerror or error}") from None


def _replace(target: Path, text: str) -> None:
    """Write ``text`` in one step: a full disk leaves the page of before, or none."""
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def run_page(run: RunFrames, pictures: Sequence[tuple[str, Picture]]) -> Page:
    """Return the page of one run.

    Args:
        run: The run.
        pictures: Its figures with their sections; the first is the one beside the answer.
    """
    metadata = run.results.metadata
    rungs = ladders(run)
    key = _key_figure(pictures)
    rest = [(section, picture) for section, picture in pictures if picture is not key]
    return Page(
        title=metadata.suite_name,
        description=metadata.suite_description,
        facts=_facts(run),
        banners=_banners(run),
        sentences=_sentences(run, verdict_sentences(run, rungs)),
        expectations=expectation_table(metadata.expectations),
        key_figure=key,
        kinds=kinds_of(run),
        sections=_with_plugins(sections(run, rungs, rest), run),
        explorer=explorer_data(run),
        kvbench_version=metadata.kvbench_version,
    )


def _key_figure(pictures: Sequence[tuple[str, Picture]]) -> Picture | None:
    """The first picture, or where it is of no known metric the first of several evidences."""
    found = [(section, picture) for section, picture in pictures if section != "coverage"]
    if found and found[0][0] == "more":
        beside = [picture for _, picture in found if len(picture.evidence) > 1]
        return [*beside, found[0][1]][0]
    return found[0][1] if found else None


def _with_plugins(found: list[Section], run: RunFrames) -> list[Section]:
    place = next((i for i, part in enumerate(found) if part.name == "results"), len(found))
    return [*found[:place], *plugin_sections(list(_stated(run))), *found[place:]]


def _stated(run: RunFrames) -> Iterable[ReportSection]:
    """Ask the plugins that have cells in the run; one that fails says so in its place."""
    loaded = load_plugins().loaded
    for name in run.cells["plugin"].unique():
        if name not in loaded:
            continue
        try:
            yield from loaded[name].report_sections(run.results)
        except Exception as error:
            yield ReportSection(
                title=f"Plugin {name}",
                text=f"Its section could not be made: {type(error).__name__}: {error}",
                evidence=Evidence.ANALYTIC,
            )


def _sentences(run: RunFrames, verdicts: Sequence[Sentence]) -> list[Sentence]:
    """The verdicts, then expectations and coverage; unmet expectations come before all."""
    found = run.results.metadata.expectations
    expected = [Sentence(text=text, evidence=(), topic="") for text in _nonempty(found)]
    covered = Sentence(text=coverage_sentence(run.cells), evidence=(), topic="")
    if all(item.status == ExpectStatus.MET for item in found):
        return [*verdicts, *expected, covered]
    return [*expected, *verdicts, covered]


def _nonempty(found: Sequence[ExpectVerdict]) -> list[str]:
    sentence = expectation_sentence(found)
    return [sentence] if sentence else []


def _banners(run: RunFrames) -> list[str]:
    if run.results.metadata.complete:
        return []
    return ["This run is partial: it ended before every cell of its plan had come to its end."]


def _facts(run: RunFrames) -> list[str]:
    metadata = run.results.metadata
    engines = run.cells.drop_duplicates(["engine", "engine_version"])
    names = [
        f"{row.engine} {row.engine_version}" if isinstance(row.engine_version, str) else row.engine
        for row in rows_of(engines)
    ]
    facts = [f"run {metadata.run_id}", metadata.started_at, f"engines: {', '.join(names)}"]
    return [fact for fact in [*facts, ", ".join(metadata.suite_tags)] if fact]


def _named(charts: Sequence[Chart]) -> list[Chart]:
    """Give each chart a slug that is a plain and unique file name, whatever cells are called."""
    found: dict[str, Chart] = {}
    for chart in charts:
        plain = _UNSAFE.sub("-", chart.slug).strip("-.")[:MAX_NAME] or "figure"
        names = chain([plain], (f"{plain}-{number}" for number in count(2)))
        name = next(name for name in names if name not in found)
        found[name] = replace(chart, slug=name)
    return list(found.values())


def _picture(chart: Chart) -> Picture:
    png = to_png(chart.figure)
    width, height = (round(size * chart.figure.dpi) for size in chart.figure.get_size_inches())
    return Picture(
        slug=chart.slug,
        title=chart.title,
        caption=chart.caption,
        alt=chart.alt,
        evidence=chart.evidence,
        png=png,
        width=width,
        height=height,
    )


def _write_figures(folder: Path, charts: Sequence[Chart], pictures: Sequence[Picture]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for chart, picture in zip(charts, pictures, strict=True):
        (folder / f"{chart.slug}.png").write_bytes(picture.png)
        (folder / f"{chart.slug}.svg").write_bytes(to_svg(chart.figure))


def report_path(run: Path) -> Path:
    """Where the report of a run goes when nobody says: into the run's folder."""
    return (run if run.is_dir() else run.parent) / REPORT_FILE
