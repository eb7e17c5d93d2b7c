"""What an engine plugin says about the figures in a log."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What arithmetic makes of a figure."""

    DERIVED = "derived"
    CONTRADICTED = "contradicted"
    MISLEADING = "misleading"
    STATED = "stated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One figure of a log.

    Attributes:
        figure: What it is (``GPU KV cache size``).
        logged: The figure as the log has it, with its unit.
        verdict: ``derived``: other figures or the model's geometry give the same; ``contradicted``:
            they give something else; ``misleading``: right, but not what it seems to say;
            ``stated``: nothing in the log or the model bears on it.
        words: How, with the numbers put in.
    """

    figure: str
    logged: str
    verdict: Verdict
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Every figure that an engine's reader found.

    Attributes:
        engine: Engine that wrote the log, with its version when it says.
        findings: In the order of the log's logic: memory, pool, requests.
        assumptions: What had to be inferred.
        state: Sentences about a running server at the moment of the look.
    """

    engine: str
    findings: tuple[Finding, ...]
    assumptions: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
