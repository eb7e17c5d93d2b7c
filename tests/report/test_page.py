from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser

import pytest

from kvbench.engine import Evidence, ReportSection
from kvbench.errors import ResultsError
from kvbench.report.make import write_page, write_report
from kvbench.report.page import script_json
from kvbench.report.sections import plugin_sections
from kvbench.results import build_results, write_results
from kvbench.results.verdict import ExpectStatus
from tests.report.sample_run import cells, metadata, record, sample_results

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    target = tmp_path_factory.mktemp("report") / "report.html"
    write_page([sample_results()], target)
    return target


class Elements(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def all(self, tag):
        return [attrs for name, attrs in self.found if name == tag]


def test_the_report_of_a_run_lies_in_its_folder(tmp_path):
    write_results(tmp_path, sample_results())
    assert write_report(tmp_path) == tmp_path / "report.html"
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"coverage.png", "coverage.svg", "comparisons.png"} <= names


def test_equal_results_give_equal_bytes(page, tmp_path):
    write_page([sample_results()], tmp_path / "report.html")
    assert (tmp_path / "report.html").read_bytes() == page.read_bytes()
    for figure in sorted((tmp_path / "figures").iterdir()):
        assert figure.read_bytes() == (page.parent / "figures" / figure.name).read_bytes()


def test_it_is_one_file_that_asks_for_nothing(page):
    text = page.read_text(encoding="utf-8")
    elements = Elements(text)
    for tag, attrs in elements.found:
        for name in ("src", "href", "srcset", "action", "data"):
            value = attrs.get(name) or ""
            assert value == "" or value.startswith(("#", "data:image/png;base64,")), (tag, value)
    assert not elements.all("link")
    assert not elements.all("iframe")
    assert "@import" not in text
    assert "url(" not in text
    assert len(text) < 3_000_000


def test_the_policy_allows_exactly_its_own_style_and_script(page):
    text = page.read_text(encoding="utf-8")
    (policy,) = [
        attrs["content"]
        for attrs in Elements(text).all("meta")
        if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    style = re.search(r"<style>(.*?)</style>", text, re.S)[1]
    script = re.search(r"<script>(.*?)</script>", text, re.S)[1]
    for name, content in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
    assert not [attrs for _, attrs in Elements(text).found if "style" in attrs]


def test_it_opens_with_the_answer(page):
    text = page.read_text(encoding="utf-8")
    places = [
        text.index("Concurrent requests of 16,388 tokens that fit"),
        text.index("GQA-8 needs a quarter"),
        text.index('id="figure-context-max_concurrency_requests"'),
        text.index('id="ladder"'),
        text.index('id="results"'),
        text.index('id="environment"'),
    ]
    assert places == sorted(places)


def test_every_picture_says_what_it_shows(page):
    pictures = Elements(page.read_text(encoding="utf-8")).all("img")
    assert len(pictures) >= 8
    assert all(re.search(r"\d", attrs["alt"]) for attrs in pictures)


def test_holes_state_their_reasons(page):
    text = page.read_text(encoding="utf-8")
    for part in ("kv_exceeds_device", "CUDA out of memory", "pip install vllm"):
        assert part in text


def test_artifacts_are_shown_verbatim(page):
    assert "op      A      B\nfork    [0,1]  [0,1]" in page.read_text(encoding="utf-8")


def test_a_partial_run_says_so(tmp_path):
    write_page([sample_results(complete=False)], tmp_path / "r.html")
    assert "This run is partial" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_names_are_inert(tmp_path):
    one = record(
        0, HOSTILE, HOSTILE, {"model": HOSTILE, "context_tokens": 8},
        values={("logical_bytes", "analytic"): 8},
        artifacts={HOSTILE: HOSTILE, "geometry": "{}"},
        assumptions=(HOSTILE,), warnings=(HOSTILE,),
    )  # fmt: skip
    types = {"model": "str", "context_tokens": "int"}
    changed = metadata(
        suite_name=HOSTILE, suite_description=HOSTILE, axis_types=types, suite_toml=HOSTILE,
        command=(HOSTILE,), environment={HOSTILE: HOSTILE}, comparisons=(), expectations=(),
    )  # fmt: skip
    write_page([build_results([one], changed)], tmp_path / "r.html")
    elements = Elements((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert len(elements.all("script")) == 1
    assert not [attrs for _, attrs in elements.found if any(k.startswith("on") for k in attrs)]
    assert not [attrs for attrs in elements.all("img") if attrs.get("src") == "x"]


def test_figures_of_hostile_names_stay_in_their_folder(tmp_path):
    parts = [
        record(i, "../../up", "analytic", {"context_tokens": 8 * (i + 1)},
               values={("logical_bytes", "analytic"): 8 * (i + 1)})
        for i in range(3)
    ]  # fmt: skip
    changed = metadata(axis_types={"context_tokens": "int"}, comparisons=(), expectations=())
    write_page([build_results(parts, changed)], tmp_path / "sub" / "r.html")
    written = {path.parent.name for path in tmp_path.rglob("*.png")}
    assert written == {"figures"}


def test_data_cannot_end_the_script_element():
    assert "</script" not in script_json({"name": "</script><b>"})
    assert script_json({"b": 1, "a": "<"}) == '{"a":"\\u003c","b":1}'


def test_plugin_sections_are_text():
    stated = ReportSection(
        title=HOSTILE, text="one\n\ntwo", evidence=Evidence.ENGINE, table=(("a", "b"), ("1", "2"))
    )
    (section,) = plugin_sections([stated])
    assert section.paragraphs == ["one", "two"]
    assert section.evidence == ("engine",)
    assert section.tables[0].columns == ("a", "b")


def test_a_long_table_is_cut_and_says_so(tmp_path):
    parts = [
        record(i, "many", "analytic", {"context_tokens": i + 1},
               values={("logical_bytes", "analytic"): 7 * (i + 1)})
        for i in range(1500)
    ]  # fmt: skip
    changed = metadata(axis_types={"context_tokens": "int"}, comparisons=(), expectations=())
    write_page([build_results(parts, changed)], tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert (
        "Shown are 1,200 of 1,500 rows. All of them: samples.parquet in the run&#39;s folder, "
        "or as a table by “kvbench report RUN --export values.csv”" in text
    )
    assert len(text) < 3_000_000


def test_a_run_without_any_number_still_has_a_report(tmp_path):
    holes = [cell for cell in cells() if cell.status != "passed"]
    results = build_results(holes, metadata(comparisons=(), expectations=()))
    write_page([results], tmp_path / "r.html")
    assert "0 of 3 cells passed" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_unmet_expectations_come_before_everything_else(tmp_path):
    unmet = dataclasses.replace(metadata().expectations[0], status=ExpectStatus.FAILED)
    write_page([sample_results(expectations=(unmet,))], tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    first = text.index("1 of 1 expectations are not met: GQA-8 needs a quarter.")
    assert first < text.index("Concurrent requests of 16,388 tokens that fit")


def test_a_page_is_replaced_in_one_step(tmp_path, monkeypatch):
    """A disk that fills leaves the page of before whole, and nothing beside it."""
    page = tmp_path / "report.html"
    page.write_text("the page of before", encoding="utf-8")

    def full(self, *_args, **_options):
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_text", full)
    with pytest.raises(ResultsError, match="No space left"):
        write_page([sample_results()], page)
    assert page.read_bytes() == b"the page of before"
    assert not list(tmp_path.glob(".report.html*"))
