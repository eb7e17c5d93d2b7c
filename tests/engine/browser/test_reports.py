"""Reports in a real browser: silent, offline, usable by keyboard, complete without JavaScript."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvbench.report.make import write_page
from kvbench.results import build_results
from tests.report.sample_run import metadata, record, sample_results

REPOSITORY = Path(__file__).resolve().parents[3]
GALLERY = sorted(REPOSITORY.glob("reports/*/report.html"))
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    target = tmp_path_factory.mktemp("page") / "report.html"
    write_page([sample_results()], target)
    return target


def test_there_is_a_gallery():
    assert GALLERY


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.parent.name)
def test_gallery_reports_open_silently_and_offline(visit, path, size):
    width, height = SIZES[size]
    opened = visit(path, viewport={"width": width, "height": height})
    assert opened.messages == []
    assert opened.outside == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    broken = "[...document.images].filter((i) => !i.complete || !i.naturalWidth).length"
    assert opened.page.evaluate(broken) == 0
    assert opened.page.inner_text(".answer").strip()
    assert path.stat().st_size <= 3_000_000


def test_without_javascript_everything_but_the_explorer_is_there(visit, report):
    plain = visit(report, java_script_enabled=False)
    full = visit(report)
    assert plain.page.locator("table.data").count() == full.page.locator("table.data").count()
    assert plain.page.locator("figure img").count() == full.page.locator("figure img").count()
    assert plain.page.locator("table.data tbody tr:visible").count() > 40
    assert not plain.page.locator("#explorer-tool").is_visible()
    assert "needs JavaScript" in plain.page.inner_text("#explorer")
    assert full.page.locator("#explorer-tool").is_visible()


def test_tables_sort_by_number_and_the_link_keeps_it(visit, report):
    opened = visit(report)
    table = opened.page.locator("#results-context")
    head = table.locator("thead button", has_text="paged_bytes")
    column = "(t) => [...t.tBodies[0].rows].map((r) => r.cells[%d].dataset.k).map(Number)"
    place = head.evaluate("(b) => b.closest('th').cellIndex")
    head.click()
    rising = table.evaluate(column % place)
    assert rising == sorted(rising)
    head.press("Enter")
    assert table.evaluate(column % place) == rising[::-1]
    assert head.evaluate("(b) => b.closest('th').getAttribute('aria-sort')") == "descending"
    again = visit(report, opened.page.evaluate("location.hash"))
    assert again.page.locator("#results-context").evaluate(column % place) == rising[::-1]


def test_tables_filter_and_the_link_keeps_it(visit, report):
    opened = visit(report)
    rows = "#results-context tbody tr:visible"
    bar = opened.page.locator(".filter", has=opened.page.locator("input")).filter(has_text="Filter")
    box = opened.page.locator("xpath=//table[@id='results-context']/../preceding-sibling::div[1]")
    assert bar.count() >= 1
    assert opened.page.locator(rows).count() == 12
    box.locator("input").fill("gqa8 1,028")
    assert opened.page.locator(rows).count() == 1
    assert box.locator("output").inner_text() == "1 of 12 rows"
    again = visit(report, opened.page.evaluate("location.hash"))
    assert again.page.locator(rows).count() == 1


def test_the_page_is_walked_by_keyboard(visit, report):
    opened = visit(report)
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate("document.activeElement.textContent") == "Skip to the answer"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate(outline) == "solid"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(visit, report, scheme):
    opened = visit(report, color_scheme=scheme)
    ratios = opened.page.evaluate(
        """() => {
          const parts = (colour) => colour.match(/[0-9.]+/g).map(Number);
          const light = (colour) => {
            const [r, g, b] = parts(colour).slice(0, 3).map((v) => v / 255).map(
              (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const ground = (element) => {
            for (let at = element; at; at = at.parentElement) {
              const colour = getComputedStyle(at).backgroundColor;
              if ((parts(colour)[3] ?? 1) > 0) return colour;
            }
            return "rgb(255, 255, 255)";
          };
          return [...document.querySelectorAll("p, li, td, th, a, span, figcaption, h1, h2")].map(
            (element) => {
              const pair = [light(getComputedStyle(element).color), light(ground(element))];
              return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
            });
        }"""
    )
    assert min(ratios) >= 4.5


def test_every_control_has_a_name(visit, report):
    nameless = visit(report).page.evaluate(
        """() => [...document.querySelectorAll("input, select, button, [role=region]")].filter(
          (e) => !(e.labels && e.labels.length) && !e.getAttribute("aria-label") &&
            !e.textContent.trim()).map((e) => e.outerHTML)"""
    )
    assert nameless == []


def test_the_print_style_shows_whole_tables_and_no_controls(visit, report):
    opened = visit(report, viewport={"width": 718, "height": 1000})  # A4 between its margins
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 718
    assert not opened.page.locator("nav").is_visible()
    assert not opened.page.locator("#explorer-tool").is_visible()
    clipped = """() => [...document.querySelectorAll(".scroll")].filter(
      (e) => e.offsetParent && e.scrollHeight > e.clientHeight + 1).length"""
    assert opened.page.evaluate(clipped) == 0
    assert opened.page.pdf(format="A4").startswith(b"%PDF-")


def test_hostile_names_do_nothing(visit, tmp_path):
    name = (
        "</script><script>document.title='owned'</script><img src=x onerror=\"document.title=1\">"
    )
    one = record(
        0, name, "analytic", {"model": name, "context_tokens": 8},
        values={("logical_bytes", "analytic"): 8},
        artifacts={"state": name}, assumptions=(name,),
    )  # fmt: skip
    types = {"model": "str", "context_tokens": "int"}
    about = metadata(suite_name=name, axis_types=types, comparisons=(), expectations=())
    write_page([build_results([one], about)], tmp_path / "r.html")
    opened = visit(tmp_path / "r.html")
    assert "owned" in opened.page.inner_text("h1")
    assert opened.page.title().startswith("</script>")
    assert opened.messages == []
    assert opened.outside == []
    assert opened.page.locator("img[src=x]").count() == 0
