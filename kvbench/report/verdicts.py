"""The answer first: sentences that a reader can repeat, each with its numbers and evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pandas as pd

from kvbench.report.capacity import ALLOWED, cases, told_cases
from kvbench.report.frames import ROLES, RunFrames
from kvbench.report.labels import (
    differing_axes,
    in_plain_words,
    missing,
    point_name,
    with_series,
)
from kvbench.report.ladder import WORDS, Ladder, Step
from kvbench.report.quantities import binary, in_words, interval, percent, plain_number, times
from kvbench.report.rows import Row, extremes, groups_of, rows_of
from kvbench.results.schema import PARAM_PREFIX
from kvbench.results.verdict import ExpectVerdict, PairVerdict

#: Sentences of one topic on the first screen, and of comparisons behind a capacity review's.
MAX_SENTENCES = 4
MAX_CASES, MAX_BESIDE_CASES = 6, 2

#: Characters of a metric's meaning that a sentence begins with, and figures of one sentence.
MAX_MEANING, MAX_FACTS = 90, 6
#: Metrics that repeat what the suite set.
_SETTINGS = ("pool_blocks", "pool_bytes", "null_blocks", "block_bytes", "block_size_tokens")

_CONCURRENCY = ("concurrent_requests", "max_concurrency_requests")
_FIRST_TOKEN = "p99_ttft_s"
_FRAGMENTATION = ("fragmentation_ratio", "workload_fragmentation_ratio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One statement with the kind of evidence that stands behind it.

    Attributes:
        text: The sentence.
        evidence: Kinds of evidence of its numbers.
        topic: What it is about, for grouping.
    """

    text: str
    evidence: tuple[str, ...]
    topic: str


def verdict_sentences(run: RunFrames, rungs: Sequence[Ladder]) -> list[Sentence]:
    """Return the sentences of a run's first screen, from its numbers alone."""
    told = [*islice(_cases(run), MAX_CASES)]
    return [
        *told,
        *_capped(_capacity(run)),
        *_capped(_latency(run)),
        *_first_comparisons(run, MAX_BESIDE_CASES if told else MAX_SENTENCES),
        *islice(_fragmentation(run), 1 if told else MAX_SENTENCES),
        *_capped(_sharing(run)),
        *_capped(_ladder(rungs)),
        *_capped(_extremes(run)),
    ]


def _capped(sentences: Iterator[Sentence]) -> list[Sentence]:
    return [*islice(sentences, MAX_SENTENCES)]


def _cases(run: RunFrames) -> Iterator[Sentence]:
    for case, rest in told_cases(cases(run)):
        topic = f"capacity ({case.benchmark})"
        yield Sentence(text=case.sentence + rest, evidence=(case.evidence,), topic=topic)


def _capacity(run: RunFrames) -> Iterator[Sentence]:
    """A sentence for each benchmark that says what fits in a budget stated in bytes."""
    on_devices = run.values[run.values["metric"] == ALLOWED]["benchmark"]
    values = run.values[~run.values["benchmark"].isin(on_devices)]
    metric = next((name for name in _CONCURRENCY if (values["metric"] == name).any()), "")
    rows = values[values["metric"] == metric]
    for (benchmark, evidence), frame in groups_of(rows, "benchmark", "evidence"):
        context = _telling(frame, "context")
        at = frame[frame["context"] == context] if context is not None else frame
        if at["value"].nunique() < 2 and len(at) > 1:
            at = at.head(1)
        yield Sentence(
            text=_fits(at, context) + _bound(at),
            evidence=(str(evidence),),
            topic=f"capacity ({benchmark})",
        )


def _fits(frame: pd.DataFrame, context: float | None) -> str:
    named = with_series(frame, ROLES["context"])
    ordered = named.sort_values("value", ascending=False).drop_duplicates("series")
    length = f"of {plain_number(context)} tokens " if context is not None else ""
    whose = _whose(frame)
    if len(ordered) == 1:
        return f"{_count(rows_of(ordered)[0])} concurrent requests {length}fit{whose}."
    shown = ordered if len(ordered) <= 4 else pd.concat([ordered.head(2), ordered.tail(2)])
    facts = [f"{row.series}: {_count(row)}" for row in rows_of(shown)]
    left = len(ordered) - len(shown)
    rest = f" ({left} more between them)" if left else ""
    return f"Concurrent requests {length}that fit{whose}: {'; '.join(facts)}{rest}."


def _latency(run: RunFrames) -> Iterator[Sentence]:
    """Say within which time almost all requests had their first token."""
    rows = run.values[run.values["metric"] == _FIRST_TOKEN]
    for (benchmark, evidence), frame in groups_of(rows, "benchmark", "evidence"):
        low, high = extremes(frame)
        within = in_words(low["value"], low["unit"])
        if frame["value"].nunique() > 1:
            within += f" ({_point(low, frame)}) to {in_words(high['value'], high['unit'])}"
            within += f" ({_point(high, frame)})"
        yield Sentence(
            text=f"99 % of the requests have their first token within {within}.",
            evidence=(str(evidence),),
            topic=f"latency ({benchmark})",
        )


def _whose(frame: pd.DataFrame) -> str:
    """Model, device and ranks that all rows share, in words."""
    found = {
        role: frame[role].iloc[0]
        for role in ("model", "device", "tp")
        if frame[role].nunique() == 1 and not missing(frame[role].iloc[0])
    }
    ranks = int(found.get("tp", 1))
    words = [f" for {found['model']}"] if "model" in found else []
    if "device" in found:
        words.append(f" on {ranks} × {found['device']}" if ranks > 1 else f" on {found['device']}")
    elif ranks > 1:
        words.append(f" on {ranks} ranks")
    return "".join(words)


def _count(row: Row) -> str:
    low, high, value = row.low, row.high, row.value
    if low < high:
        return f"{int(value):,} (between {int(low):,} and {int(high):,})"
    return f"{int(value):,}"


def _bound(frame: pd.DataFrame) -> str:
    none = frame[frame["value"] < 1]
    if none.empty:
        return ""
    return f" Not even one request fits in {len(none)} of {len(frame)} cases."


def _first_comparisons(run: RunFrames, most: int) -> list[Sentence]:
    found = [*_comparisons(run.results.metadata.comparisons)]
    left = len(found) - most
    more = f"{left:,} more {'comparison is' if left == 1 else 'comparisons are'} in their section."
    rest = [Sentence(text=more, evidence=(), topic="comparison")] if left > 0 else []
    return [*found[:most], *rest]


def _comparisons(pairs: Sequence[PairVerdict]) -> Iterator[Sentence]:
    """One sentence for each pair of values; metrics that say the same share it."""
    table: dict[tuple[str, ...], list[PairVerdict]] = {}
    for pair in pairs:
        if pair.ratio is not None:
            kinds = (pair.base_evidence, pair.evidence)
            key = (pair.comparison, str(pair.base), str(pair.new), *kinds, pair.metric)
            table.setdefault(key, []).append(pair)
    told: dict[tuple[str, ...], list[str]] = {}
    for point, found in table.items():
        said = (*point[:-1], _ratios(found), _tally(found))
        told.setdefault(said, []).append(point[-1])
    for (name, base, new, base_kind, kind, ratios, tally), metrics in told.items():
        mixed = base_kind != kind
        new_name, base_name = (f"{new} ({kind})", f"{base} ({base_kind})") if mixed else (new, base)
        subject = _and([in_plain_words(metric) for metric in metrics])
        yield Sentence(
            text=f"{name}: {subject} of {new_name} {_are(metrics)} {ratios} that of "
            f"{base_name} ({tally}).",
            evidence=(base_kind, kind) if mixed else (kind,),
            topic="comparison",
        )


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _are(names: Sequence[str]) -> str:
    is_plural = len(names) > 1 or in_plain_words(names[0]).endswith("s")
    return "are" if is_plural else "is"


def _ratios(pairs: Sequence[PairVerdict]) -> str:
    ratios = [pair.ratio for pair in pairs if pair.ratio is not None]
    low, high = times(min(ratios)), times(max(ratios))
    lows = [pair.ratio_low for pair in pairs if pair.ratio_low is not None]
    highs = [pair.ratio_high for pair in pairs if pair.ratio_high is not None]
    text = low if low == high else f"{low} to {high}"
    if lows and highs:
        text += f" (intervals within {times(min(lows))} to {times(max(highs))})"
    return text


def _tally(pairs: Sequence[PairVerdict]) -> str:
    verdicts = [str(pair.verdict) for pair in pairs]
    counts = {name: verdicts.count(name) for name in dict.fromkeys(verdicts)}
    words = ", ".join(f"{count} {name}" for name, count in counts.items())
    return f"{words}, of {len(pairs)} {'pair' if len(pairs) == 1 else 'pairs'}"


def _fragmentation(run: RunFrames) -> Iterator[Sentence]:
    rows = run.values[run.values["metric"].isin(_FRAGMENTATION)]
    wasted = rows.groupby(["benchmark", "metric", "evidence"])["value"].transform("max") > 0
    rows = rows[wasted]
    for (benchmark, metric, evidence), frame in groups_of(rows, "benchmark", "metric", "evidence"):
        low, high = extremes(frame)
        if percent(low["value"]) == percent(high["value"]):
            text = f"Fragmentation is {percent(high['value'])} in every case."
        else:
            text = (
                f"Fragmentation runs from {percent(low['value'])} ({_point(low, frame)}) "
                f"to {percent(high['value'])} ({_point(high, frame)})."
            )
        of = "over a workload" if str(metric).startswith("workload") else "per request"
        yield Sentence(text=text, evidence=(str(evidence),), topic=f"{benchmark}, {of}")


def _sharing(run: RunFrames) -> Iterator[Sentence]:
    in_bytes = run.values[run.values["metric"] == "shared_saved_bytes"]["benchmark"]
    for metric, verb in (
        ("shared_saved_bytes", "saves"),
        ("shared_saved_blocks", "saves"),
        ("prefix_hit_ratio", "finds"),
    ):
        rows = run.values[(run.values["metric"] == metric) & (run.values["value"] > 0)]
        if metric == "shared_saved_blocks":  # where bytes are known too, they say the same
            rows = rows[~rows["benchmark"].isin(in_bytes)]
        for (benchmark, evidence), frame in groups_of(rows, "benchmark", "evidence"):
            best = extremes(frame)[1]
            span = interval(frame["value"].min(), frame["value"].max(), best["unit"])
            what = " of the prompt tokens in the cache" if verb == "finds" else ""
            where = f", most with {_point(best, frame)}" if frame["value"].nunique() > 1 else ""
            yield Sentence(
                text=f"Prefix sharing {verb} {span}{what}{where}.",
                evidence=(str(evidence),),
                topic=str(benchmark),
            )


def _ladder(rungs: Sequence[Ladder]) -> Iterator[Sentence]:
    best = next((ladder for ladder in rungs if ladder.kinds > 1), None)
    if best is None:
        return
    parts = [
        f"{binary(step.value_bytes)} {_step_words(step)} ({step.evidence})" for step in best.steps
    ]
    ran = next((step.cause for step in best.steps if "run at once" in step.cause), "")
    because = f"; {ran.split(', ')[0]}" if ran else ""
    yield Sentence(
        text=f"From formula to machine, {best.name}: {' → '.join(parts)}{because}.",
        evidence=tuple(dict.fromkeys(step.evidence for step in best.steps)),
        topic="evidence ladder",
    )


def _step_words(step: Step) -> str:
    plain = step.metric.removesuffix("_bytes").replace("_", " ")
    return WORDS.get((step.metric, step.evidence), plain)


def _extremes(run: RunFrames) -> Iterator[Sentence]:
    """Say something about the first directed metric when nothing else could be said."""
    covered = {*_CONCURRENCY, *_FRAGMENTATION, "prefix_hit_ratio"}
    if run.values.empty or run.values["metric"].isin(covered).any():
        return
    registry = run.results.metadata.metrics
    directed = {key for key, metric in registry.items() if metric.direction != "none"}
    rows = run.values[~run.values["metric"].isin(_SETTINGS)]
    for (benchmark, evidence), frame in groups_of(rows, "benchmark", "evidence"):
        found = [
            (str(metric), part)
            for metric, part in groups_of(frame, "metric")
            if (str(metric), str(evidence)) in directed
        ]
        texts = [_range(registry[metric, evidence].meaning, metric, part) for metric, part in found]
        if len(found) > 1 and all(len(part) == 1 for _, part in found):
            texts = [_one_case(str(benchmark), found)]
        for text in texts:
            yield Sentence(text=text, evidence=(str(evidence),), topic=str(benchmark))


def _one_case(benchmark: str, found: Sequence[tuple[str, pd.DataFrame]]) -> str:
    """The figures of a benchmark that has one of each, in one sentence."""
    facts = [
        f"{in_plain_words(metric)} {_without_noun(row)}"
        for metric, part in found
        for row in rows_of(part)
    ]
    return f"{in_plain_words(benchmark).capitalize()}: {', '.join(facts[:MAX_FACTS])}."


def _without_noun(row: Row) -> str:
    return in_words(row.value, "" if row.unit in str(row.metric) else row.unit)


def _range(meaning: str, metric: str, frame: pd.DataFrame) -> str:
    low, high = extremes(frame)
    words = in_words(low.value, low.unit), in_words(high.value, high.unit)
    short = meaning.rstrip(".")
    said = short if short and ". " not in short and len(short) <= MAX_MEANING else ""
    name = said or in_plain_words(metric).capitalize()
    if low.value == high.value:
        return f"{name}: {words[0]}" + (" in every case." if len(frame) > 1 else ".")
    return f"{name}: from {words[0]} ({_point(low, frame)}) to {words[1]} ({_point(high, frame)})."


def expectation_sentence(found: Sequence[ExpectVerdict]) -> str:
    """Return the state of all expectations in one sentence, empty when there are none."""
    if not found:
        return ""
    bad = [item for item in found if item.status != "met"]
    if not bad:
        return f"All {len(found)} expectations are met." if len(found) > 1 else (
            "The one expectation is met."
        )  # fmt: skip
    names = ", ".join(dict.fromkeys(item.name for item in bad))
    return f"{len(bad)} of {len(found)} expectations are not met: {names}."


def coverage_sentence(cells: pd.DataFrame) -> str:
    """Return how many cells passed and why the others did not."""
    passed = int((cells["status"] == "passed").sum())
    text = f"{passed:,} of {len(cells):,} cells passed"
    holes = cells[cells["status"] != "passed"]
    if holes.empty:
        return f"{text}."
    parts = [
        f"{len(part):,} {status} ({reason}{_one_error(part)})"
        for (status, reason), part in sorted(
            groups_of(holes, "status", "reason"), key=lambda group: group[0]
        )
    ]
    return f"{text}; {', '.join(parts)}."


def _one_error(holes: pd.DataFrame) -> str:
    """What the engine said, where it said the same short thing about all these cells."""
    said = holes["error"].fillna("").unique().tolist()
    is_short = len(said) == 1 and 0 < len(said[0]) <= MAX_MEANING and "\n" not in said[0]
    return f": {said[0].rstrip('.')}" if is_short else ""


def _telling(frame: pd.DataFrame, role: str) -> float | None:
    """The middle value of a role, which neither flatters nor frightens."""
    values = sorted(value for value in frame[role].unique() if not missing(value))
    return values[len(values) // 2] if values else None


def _point(row: Row, frame: pd.DataFrame) -> str:
    axes = differing_axes(frame)
    return point_name({axis: row[PARAM_PREFIX + axis] for axis in axes}) or str(row["engine"])
