"""Pairs of cells: within one run (``[[compare]]``) or across two runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from kvbench.compare.cells import CellValues, MetricKey, cell_values
from kvbench.compare.judge import Rules, judge
from kvbench.engine import Metric, Scalar
from kvbench.results.metadata import RunMetadata
from kvbench.results.schema import Status
from kvbench.results.table import Results
from kvbench.results.verdict import PairVerdict, Verdict
from kvbench.suite.spec import Comparison

_DEFAULT_RULES = Rules()


def compare_within(
    results: Results, comparisons: Sequence[Comparison], rules: Rules = _DEFAULT_RULES
) -> tuple[PairVerdict, ...]:
    """Judge the ``[[compare]]`` tables of a suite.

    Cells of the benchmark that are equal on every axis but ``vary`` are paired with the one
    whose ``vary`` is the baseline.
    """
    cells = cell_values(results, {comparison.benchmark for comparison in comparisons})
    found: list[PairVerdict] = []
    for comparison in comparisons:
        chosen = [cell for cell in cells if cell.benchmark == comparison.benchmark]
        for base, new in _pairs_within(chosen, comparison):
            pair = _Pair(
                comparison=comparison.name,
                vary=comparison.vary,
                base=base,
                new=new,
                values=(comparison.baseline, new.place[comparison.vary]),
                metadata=(results.metadata, results.metadata),
            )
            found.extend(pair.verdicts(comparison.metrics, rules))
    return tuple(found)


def compare_runs(base: Results, new: Results, rules: Rules = _DEFAULT_RULES) -> list[PairVerdict]:
    """Judge the cells of ``new`` by the cells of ``base`` at the same place.

    The place is benchmark, engine and axes, not the content id: a new version of an engine is
    what one compares with the old one.
    """
    news = {_place(cell): cell for cell in cell_values(new)}
    bases = {_place(cell): cell for cell in cell_values(base)}
    found: list[PairVerdict] = []
    for place in dict.fromkeys([*bases, *news]):
        pair = _Pair(
            comparison=f"{base.run_id} .. {new.run_id}",
            vary="run",
            base=bases.get(place),
            new=news.get(place),
            values=(base.run_id, new.run_id),
            metadata=(base.metadata, new.metadata),
        )
        found.extend(pair.verdicts((), rules))
    return found


class _Pair:
    """Two cells that differ in one thing only; one of them may be missing."""

    def __init__(
        self,
        *,
        comparison: str,
        vary: str,
        base: CellValues | None,
        new: CellValues | None,
        values: tuple[Scalar, Scalar],
        metadata: tuple[RunMetadata, RunMetadata],
    ) -> None:
        self._comparison, self._vary, self._values = comparison, vary, values
        self._base, self._new = base, new
        self._metadata = metadata

    def verdicts(self, metrics: Iterable[str], rules: Rules) -> Iterator[PairVerdict]:
        """One verdict for each metric, or one ``missing`` when a side has no values."""
        names = list(metrics)
        gap = self._gap()
        if gap:
            yield from (self._missing(name, gap) for name in names or [""])
            return
        for name in names or self._metrics():
            yield from self._metric(name, rules)

    def _gap(self) -> str:
        for side, cell in (("base", self._base), ("new", self._new)):
            if cell is None:
                return f"no such cell in the {side} run" if self._vary == "run" else "no base cell"
            if cell.status != Status.PASSED:
                return f"the {side} cell is {cell.status} ({cell.reason})"
        return ""

    def _metrics(self) -> list[str]:
        sides = [cell.values for cell in (self._base, self._new) if cell is not None]
        return list(dict.fromkeys(name for values in sides for name, _ in values))

    def _metric(self, name: str, rules: Rules) -> Iterator[PairVerdict]:
        if self._base is None or self._new is None:
            return
        keys = self._new.with_metric(name)
        if not keys or not self._base.with_metric(name):
            side = "base" if keys else "new"
            yield self._missing(name, f"the {side} cell has no such metric")
        for key in keys:
            for base_key in self._base.with_metric(name, preferred=key[1])[:1]:
                yield self._judged(self._base, self._new, base_key, key, rules)

    def _judged(
        self,
        base: CellValues,
        new: CellValues,
        base_key: MetricKey,
        key: MetricKey,
        rules: Rules,
    ) -> PairVerdict:
        before, after = (m.metrics[k] for m, k in zip(self._metadata, (base_key, key), strict=True))
        if before.unit != after.unit:
            return self._missing(key[0], f"base is in {before.unit}, new in {after.unit}")
        found = judge(
            base.values[base_key],
            new.values[key],
            direction=after.direction,
            exact=before.exact and after.exact,
            rules=rules,
            seed=f"{base.cell_id} {new.cell_id} {base_key} {key}",
        )
        return self._row(
            after,
            base_evidence=base_key[1],
            base_n=len(base.values[base_key]),
            new_n=len(new.values[key]),
            base_median=found.base_median,
            new_median=found.new_median,
            ratio=found.ratio,
            ratio_low=found.ratio_low,
            ratio_high=found.ratio_high,
            p_value=found.p_value,
            verdict=found.verdict,
            reason=found.reason,
        )

    def _missing(self, metric: str, reason: str) -> PairVerdict:
        known = [m.metrics[key] for m in self._metadata for key in m.metrics if key[0] == metric]
        row = known[0] if known else None
        return self._row(row, name=metric, base_evidence="", verdict=Verdict.MISSING, reason=reason)

    def _row(self, metric: Metric | None, *, name: str = "", **found: object) -> PairVerdict:
        one = self._new or self._base
        place: Mapping[str, Scalar] = {} if one is None else one.place
        judged = found["verdict"] is not Verdict.MISSING
        values = {
            "comparison": self._comparison,
            "benchmark": one.benchmark if one else "",
            "engine": one.engine if one else "",
            "vary": self._vary,
            "base": self._values[0],
            "new": self._values[1],
            "where": {k: v for k, v in place.items() if k not in {self._vary, "engine"}},
            "metric": metric.name if metric else name,
            "evidence": str(metric.evidence) if metric and judged else "",
            "unit": metric.unit if metric else "",
            "direction": str(metric.direction) if metric else "",
            "base_cell": self._base.cell_id if self._base else "",
            "new_cell": self._new.cell_id if self._new else "",
        }
        return PairVerdict(**values, **found)  # type: ignore[arg-type]


def _pairs_within(
    cells: Sequence[CellValues], comparison: Comparison
) -> Iterator[tuple[CellValues | None, CellValues]]:
    groups: dict[Hashable, list[CellValues]] = defaultdict(list)
    for cell in cells:
        if comparison.vary in cell.place:
            groups[_rest(cell, comparison.vary)].append(cell)
    for group in groups.values():
        is_base = [cell.place[comparison.vary] == comparison.baseline for cell in group]
        base = next((cell for cell, yes in zip(group, is_base, strict=True) if yes), None)
        yield from ((base, cell) for cell, yes in zip(group, is_base, strict=True) if not yes)


def _rest(cell: CellValues, vary: str) -> Hashable:
    return tuple(sorted((axis, str(v)) for axis, v in cell.place.items() if axis != vary))


def _place(cell: CellValues) -> Hashable:
    return (cell.benchmark, tuple(sorted((axis, str(v)) for axis, v in cell.place.items())))
