"""The page: plain data in, one self-contained HTML text out."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from kvbench.report.evidence import LOOKS
from kvbench.report.tables import Table
from kvbench.report.verdicts import Sentence

_PACKAGE = "kvbench.report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure as the page embeds it.

    Attributes:
        slug: Name of its files.
        title: What it shows.
        caption: How to read it.
        alt: The same facts in words, from the data.
        evidence: Kinds of evidence of its numbers.
        png: The picture.
        width: Pixels.
        height: Pixels.
    """

    slug: str
    title: str
    caption: str
    alt: str
    evidence: Sequence[str]
    png: bytes
    width: int
    height: int

    @property
    def uri(self) -> str:
        """The picture as a data URI, so that the page needs no other file."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A text that is shown verbatim."""

    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section of the page, in the order in which its parts appear.

    Attributes:
        name: Anchor.
        title: Heading.
        paragraphs: Plain sentences.
        evidence: Kinds of evidence of the whole section, for sections of plugins.
        figures: Pictures.
        tables: Tables.
        texts: Verbatim texts.
        lists: Bullet lists of sentences.
        explorer: The section holds the explorer.
        tables_first: Its tables come before its figures.
    """

    name: str
    title: str
    paragraphs: Sequence[str] = ()
    evidence: Sequence[str] = ()
    figures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    texts: Sequence[Block] = ()
    lists: Sequence[Sequence[str]] = ()
    explorer: bool = False
    tables_first: bool = False

    @property
    def filled(self) -> bool:
        """Whether there is anything to show."""
        parts = (self.paragraphs, self.figures, self.tables, self.texts, self.lists)
        return self.explorer or any(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything a report says.

    Attributes:
        title: Heading.
        description: The suite's description.
        facts: Short facts below the heading (run, date, versions).
        banners: What a reader must not overlook (partial run).
        sentences: The answer.
        expectations: Table of expectations and gates.
        key_figure: The one chart that shows the answer.
        kinds: Kinds of evidence that occur.
        sections: The rest, in order.
        explorer: Data of the explorer, ``None`` without one.
        kvbench_version: Version that wrote the run.
    """

    title: str
    description: str
    facts: Sequence[str]
    banners: Sequence[str]
    sentences: Sequence[Sentence]
    expectations: Table
    key_figure: Picture | None
    kinds: Sequence[str]
    sections: Sequence[Section] = field(default=())
    explorer: Any = None
    kvbench_version: str = ""


def render(page: Page) -> str:
    """Return the page as HTML: no request to anywhere, every string escaped."""
    style, script = _asset("style.css"), _asset("page.js")
    if page.explorer is not None:
        script += _asset("explorer.js") + _asset("explorer_page.js")
    text = _template().render(
        page=_with_json(page),
        looks=LOOKS,
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
    )
    return text if text.endswith("\n") else text + "\n"


def script_json(value: Any) -> Markup:
    """Return ``value`` as JSON that cannot end a script element, keys sorted."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _with_json(page: Page) -> dict[str, Any]:
    values = {name: getattr(page, name) for name in Page.__dataclass_fields__}
    values["explorer"] = script_json(page.explorer) if page.explorer is not None else None
    return values


def _policy(style: str, script: str) -> str:
    """Allow this page's own style and script by digest, data pictures, and nothing else."""
    return (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@lru_cache
def _asset(name: str) -> str:
    return files(_PACKAGE).joinpath(name).read_text(encoding="utf-8")


@lru_cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")
