"""Verdicts as they are stored with a run: comparisons of pairs of cells, and expectations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kvbench.engine import Scalar


class Verdict(StrEnum):
    """What a comparison of two cells says about the second one."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"
    MISSING = "missing"


class ExpectStatus(StrEnum):
    """What became of an expectation."""

    MET = "met"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVerdict:
    """One metric of one pair of cells that differ in one thing only.

    Attributes:
        comparison: Name of the ``[[compare]]`` table, or ``BASE .. NEW`` for two runs.
        benchmark: Benchmark of both cells.
        engine: ``[engines.NAME]`` table of the new cell.
        vary: Axis (or ``engine``, or ``run``) in which the two differ.
        base: Value of ``vary`` in the base cell.
        new: Value of ``vary`` in the new cell.
        where: Axes that both share.
        metric: Metric that is compared.
        evidence: Kind of evidence of the new value.
        base_evidence: Kind of evidence of the base value; differs when engines are compared.
        unit: Unit of the medians.
        direction: Which way the metric is better.
        base_cell: Content id of the base cell, empty when there is none.
        new_cell: Content id of the new cell, empty when there is none.
        base_n: Measured repeats behind the base median.
        new_n: Measured repeats behind the new median.
        base_median: Median over the base cell's repeats.
        new_median: Median over the new cell's repeats.
        ratio: New median over base median; ``None`` when the base median is 0 or missing.
        ratio_low: Lower end of the bootstrap interval of the ratio, ``None`` without one.
        ratio_high: Upper end.
        p_value: Two-sided Mann-Whitney p-value, ``None`` when no test was made.
        verdict: The answer.
        reason: Why, in words.
    """

    comparison: str
    benchmark: str
    engine: str
    vary: str
    base: Scalar
    new: Scalar
    where: Mapping[str, Scalar] = field(default_factory=dict)
    metric: str
    evidence: str
    base_evidence: str
    unit: str
    direction: str
    base_cell: str = ""
    new_cell: str = ""
    base_n: int = 0
    new_n: int = 0
    base_median: float | None = None
    new_median: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p_value: float | None = None
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectVerdict:
    """What one ``[[expect]]`` table says about one cell (or that it found none).

    Attributes:
        name: Name of the expectation.
        benchmark: Benchmark that was looked at.
        engine: Engine of the cell, empty when no cell was found.
        where: Axes of the cell.
        metric: Metric that was looked at.
        evidence: Kind of evidence, empty when no cell was found.
        unit: Unit of ``observed``; ``ratio`` when the expectation is relative.
        relation: What was expected, in words (``= 0.25``, ``<= 1.05 x baseline``).
        observed: What was found, ``None`` when nothing was.
        status: Whether the expectation is met.
        reason: Why, in words.
        cell_id: Content id of the cell.
        reference_cell_id: Content id of the cell it was related to.
    """

    name: str
    benchmark: str
    engine: str = ""
    where: Mapping[str, Scalar] = field(default_factory=dict)
    metric: str
    evidence: str = ""
    unit: str = ""
    relation: str
    observed: float | None = None
    status: ExpectStatus
    reason: str = ""
    cell_id: str = ""
    reference_cell_id: str = ""
