"""Markdown: tables, and the comment that a comparison leaves on a pull request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kvbench.compare.many import family_sentence
from kvbench.report.labels import point_name
from kvbench.report.quantities import in_words
from kvbench.report.tables import Table, pair_evidence, ratio_text, severity
from kvbench.results.verdict import ExpectStatus, ExpectVerdict, PairVerdict, Verdict

#: Rows of a comment that are worth reading.
MAX_ROWS = 20

_ESCAPES = str.maketrans({c: f"\\{c}" for c in "\\|`*_<>[]#"} | {"\n": " ", "\r": " "})


def markdown_table(table: Table) -> str:
    """Return a table as Markdown; nothing in its fields is read as markup."""
    lines = [_row(table.columns), _row(["---"] * len(table.columns), raw=True)]
    lines += [_row([field.text for field in row]) for row in table.rows]
    if table.omitted:
        lines.append(f"\n{table.left_out}")
    return "\n".join(lines) + "\n"


def comparison_comment(
    pairs: Sequence[PairVerdict],
    *,
    expectations: Sequence[ExpectVerdict] = (),
    environment: Sequence[tuple[str, object, object]] = (),
) -> str:
    """Return the comment of a comparison: counts, regressions by size, what is not comparable.

    Args:
        pairs: Verdicts of the pairs.
        expectations: Verdicts of the newest run's expectations and gates.
        environment: What is different around the runs: name, before, after.
    """
    parts = [f"### kvbench: {_headline(pairs)}", _counts(pairs)]
    worse = [pair for pair in pairs if pair.verdict == Verdict.WORSE]
    better = [pair for pair in pairs if pair.verdict == Verdict.BETTER]
    parts += _pairs("Regressions", worse) + _pairs("Improvements", better)
    parts += _gaps([p for p in pairs if p.verdict in {Verdict.MISSING, Verdict.INCONCLUSIVE}])
    parts += _unmet(expectations) + _environment(environment)
    return "\n\n".join(parts) + "\n"


def _headline(pairs: Sequence[PairVerdict]) -> str:
    worse = sum(pair.verdict == Verdict.WORSE for pair in pairs)
    if worse:
        return f"{worse} {'regression' if worse == 1 else 'regressions'}"
    compared = any(pair.verdict != Verdict.MISSING for pair in pairs)
    return "no regression" if compared else "nothing could be compared"


def _counts(pairs: Sequence[PairVerdict]) -> str:
    counts = Counter(pair.verdict for pair in pairs)
    words = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in Verdict if counts[verdict])
    counted = f"{len(pairs):,} pairs: {words}." if words else "No pairs."
    return f"{counted} {family_sentence(pairs)}".strip()


def _pairs(title: str, pairs: Sequence[PairVerdict]) -> list[str]:
    if not pairs:
        return []
    if len(pairs) > MAX_ROWS:
        return [f"**{title}, by metric**", "\n".join(_by_metric(pairs))]
    ordered = sorted(pairs, key=severity, reverse=True)
    head = ("metric", "where", "base", "new", "new ÷ base")
    lines = [_row(head), _row(["---"] * len(head), raw=True)]
    lines += [_row(_pair(pair)) for pair in ordered[:MAX_ROWS]]
    return [f"**{title}**", "\n".join(lines)]


def _by_metric(pairs: Sequence[PairVerdict]) -> list[str]:
    """Lines of a table of many pairs: one row for each metric with its largest change."""
    groups: dict[tuple[str, str], list[PairVerdict]] = {}
    for pair in sorted(pairs, key=severity, reverse=True):
        groups.setdefault((pair.benchmark, pair.metric), []).append(pair)
    head = ("metric", "pairs", "largest change", "where", "base", "new")
    lines = [_row(head), _row(["---"] * len(head), raw=True)]
    for found in list(groups.values())[:MAX_ROWS]:
        name, where, base, new, ratio = _pair(found[0])
        lines.append(_row((name, f"{len(found):,}", ratio, where, base, new)))
    left = len(groups) - MAX_ROWS
    return [*lines, *([f"\n… and {left:,} more metrics."] if left > 0 else [])]


def _pair(pair: PairVerdict) -> Iterable[str]:
    where = [pair.benchmark, pair.engine, point_name(pair.where)]
    if pair.vary != "run":
        where.append(f"{pair.new} against {pair.base}")
    return (
        f"{pair.metric} {pair_evidence(pair)}",
        ", ".join(filter(None, where)),
        in_words(pair.base_median, pair.unit),
        in_words(pair.new_median, pair.unit),
        ratio_text(pair),
    )


def _gaps(pairs: Sequence[PairVerdict]) -> list[str]:
    if not pairs:
        return []
    counts = Counter(f"{pair.verdict}: {pair.reason}" for pair in pairs)
    lines = [f"- {_text(reason)} ({count:,})" for reason, count in counts.most_common(MAX_ROWS)]
    return ["**Not comparable**", "\n".join(lines)]


def _unmet(found: Sequence[ExpectVerdict]) -> list[str]:
    bad = [item for item in found if item.status != ExpectStatus.MET]
    if not bad:
        return []
    lines = [f"- {_text(f'{item.name}: {item.reason}')}" for item in bad[:MAX_ROWS]]
    return [f"**{len(bad)} of {len(found)} expectations not met**", "\n".join(lines)]


def _environment(rows: Sequence[tuple[str, object, object]]) -> list[str]:
    if not rows:
        return []
    lines = [_row(("what", "before", "after")), _row(["---"] * 3, raw=True)]
    lines += [_row([key, _said(old), _said(new)]) for key, old, new in rows[:MAX_ROWS]]
    return ["**Different around the runs**", "\n".join(lines)]


def _said(value: object) -> str:
    return "unknown" if value is None else str(value)


def _text(value: str) -> str:
    return value.translate(_ESCAPES)


def _row(fields: Iterable[str], *, raw: bool = False) -> str:
    return "| " + " | ".join(field if raw else _text(field) for field in fields) + " |"
