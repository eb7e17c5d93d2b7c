"""How the four kinds of evidence look: a word, a glyph and a shape for each, never colour alone."""

from __future__ import annotations

from dataclasses import dataclass

from kvbench.engine import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How one kind of evidence is shown.

    Attributes:
        name: The word.
        glyph: Character beside the word in text.
        marker: Matplotlib marker of the same shape.
        filled: Markers and bars are filled.
        dash: Matplotlib line style.
        hatch: Matplotlib hatch of bars.
        meaning: What a number of this kind is worth, for the legend.
    """

    name: str
    glyph: str
    marker: str
    filled: bool
    dash: str
    hatch: str
    meaning: str


LOOKS: dict[str, Look] = {
    Evidence.ANALYTIC: Look(
        name="analytic",
        glyph="○",
        marker="o",
        filled=False,
        dash="-",
        hatch="",
        meaning="calculated from the model's geometry; nothing was run",
    ),
    Evidence.SIMULATED: Look(
        name="simulated",
        glyph="□",
        marker="s",
        filled=False,
        dash="--",
        hatch="////",
        meaning="a block pool was replayed; no engine ran and no device was measured",
    ),
    Evidence.ENGINE: Look(
        name="engine",
        glyph="△",
        marker="^",
        filled=False,
        dash="-.",
        hatch="....",
        meaning="reported by the serving engine itself",
    ),
    Evidence.DEVICE: Look(
        name="device",
        glyph="◆",
        marker="D",
        filled=True,
        dash="-",
        hatch="xxxx",
        meaning="measured on the device",
    ),
}

#: Kinds of evidence from the cheapest to the strongest.
ORDER: tuple[str, ...] = tuple(LOOKS)


def tag(evidence: str) -> str:
    """Return glyph and word of a kind of evidence (``○ analytic``), nothing for none."""
    return f"{LOOKS[evidence].glyph} {evidence}" if evidence else ""
