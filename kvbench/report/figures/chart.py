"""A chart: a figure with the words that a reader needs beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chart:
    """One figure of a report.

    Attributes:
        slug: Name of its files, unique within a report.
        section: Part of the report it belongs to.
        title: What it shows.
        caption: What to see in it and how to read it.
        alt: The same facts for somebody who cannot see it, from the data.
        evidence: Kinds of evidence of its numbers.
        figure: The drawing.
    """

    slug: str
    section: str
    title: str
    caption: str
    alt: str
    evidence: Sequence[str]
    figure: Figure
