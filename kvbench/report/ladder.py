"""The evidence ladder: from the bytes a formula needs to the bytes a device spends.

Each step is one metric of one kind of evidence; the difference to the step below is named and
sized. A step that no cell of the run has is left out, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pandas as pd

from kvbench.report.frames import RunFrames
from kvbench.report.labels import missing, point_name
from kvbench.report.rows import rows_of

#: Ladders that a report shows.
MAX_LADDERS = 12

#: Why a replay uses less than all requests would, as long as it does not say how many ran.
NOT_LIVE = "requests that are not live at the same time"

#: (metric, evidence) -> why it differs from the step below, for one request.
_REQUEST: dict[tuple[str, str], str] = {
    ("logical_bytes", "analytic"): "",
    ("paged_bytes", "analytic"): "unused slots of the last blocks, and page padding",
    ("admission_bytes", "analytic"): "blocks that must be free before admission "
    "(window and chunk in flight, lookahead)",
    ("admission_bytes", "engine"): "what the engine insists on beyond the arithmetic",
}

#: The same for all requests of a workload together.
_WORKLOAD: dict[tuple[str, str], str] = {
    ("workload_logical_bytes", "analytic"): "",
    ("workload_paged_bytes", "analytic"): "unused slots of the last blocks, and page padding",
    ("peak_used_bytes", "simulated"): f"{NOT_LIVE}, shared prefixes, blocks held in advance",
    ("peak_used_bytes", "engine"): "what the engine schedules and keeps differently",
    ("pool_bytes", "engine"): "pool preallocated by the engine and idle at the peak",
    ("process_used_bytes", "device"): "weights, activations, graphs, allocator retention",
    ("device_used_bytes", "device"): "everything else on the device",
}

#: What a step's bytes are, where its name alone would read as if all steps were one quantity.
WORDS: dict[tuple[str, str], str] = {
    ("workload_logical_bytes", "analytic"): "if all requests were live at full length",
    ("workload_paged_bytes", "analytic"): "the same in whole blocks",
    ("peak_used_bytes", "simulated"): "used at the peak of a replay",
    ("peak_used_bytes", "engine"): "used at the peak in the engine",
    ("pool_bytes", "engine"): "set aside by the engine",
    ("process_used_bytes", "device"): "held by its process",
    ("device_used_bytes", "device"): "in use on the device",
}

#: Settings that two cells must not differ in to stand on one ladder.
_POINT = ("model", "block_size", "kv_dtype", "tp", "device")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a ladder.

    Attributes:
        metric: Metric of the step.
        evidence: Its kind of evidence.
        engine: Engine of the cell it comes from.
        value_bytes: The number.
        difference_bytes: To the step below, ``None`` on the first one.
        cause: What the difference is made of, empty on the first one.
    """

    metric: str
    evidence: str
    engine: str
    value_bytes: float
    difference_bytes: float | None
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Steps of one point, in words and numbers."""

    name: str
    scope: str
    steps: tuple[Step, ...]

    @property
    def kinds(self) -> int:
        """Different kinds of evidence on it."""
        return len({step.evidence for step in self.steps})

    @property
    def differences(self) -> int:
        """Steps that differ from the one below."""
        return sum(1 for step in self.steps if step.difference_bytes)


@lru_cache(maxsize=1)
def ladders(run: RunFrames) -> tuple[Ladder, ...]:
    """Return the ladders of a run: most kinds of evidence first, then the largest.

    Kept for the next caller: sentences, charts and tables all ask for the ladders of one run.
    """
    found = [
        *_of_scope(run.values, "one request", _REQUEST, "context"),
        *_of_scope(run.values, "the whole workload", _WORKLOAD, "workload"),
    ]
    found.sort(key=lambda ladder: (-ladder.kinds, -ladder.differences, -_top(ladder)))
    return tuple(found[:MAX_LADDERS])


def _of_scope(
    values: pd.DataFrame, scope: str, causes: Mapping[tuple[str, str], str], anchor: str
) -> Iterator[Ladder]:
    metrics = {metric for metric, _ in causes}
    rows = values[values["metric"].isin(metrics) & values[anchor].notna()]
    same = (*_POINT, anchor)
    rows = rows.drop_duplicates([*same, "metric", "evidence", "engine"])
    at_once = _at_once(values)
    rows = rows.sort_values("value", ascending=False)
    seen: list[Mapping[str, Any]] = []
    for record in rows_of(rows):
        if len(seen) == 4 * MAX_LADDERS:
            return
        if any(_agree(record, other, same) for other in seen):
            continue
        seen.append(record)
        steps = _steps(rows_of(_agreeing(rows, record, same)), causes, at_once)
        if len(steps) > 1:
            yield Ladder(name=_name(record, same), scope=scope, steps=steps)


def _at_once(values: pd.DataFrame) -> dict[str, str]:
    """How few of its requests a replay ran at once, by cell: most of a workload's difference."""
    rows = values[values["metric"].isin(["peak_running_requests", "requests_count"])]
    wide = rows.pivot_table(index="cell_id", columns="metric", values="value", sort=False)
    if len(wide.columns) < 2:
        return {}
    return {
        str(cell): f"at most {int(running):,} of {int(count):,} requests run at once"
        for cell, running, count in zip(
            wide.index.tolist(),
            wide["peak_running_requests"].tolist(),
            wide["requests_count"].tolist(),
            strict=True,
        )
        if running < count
    }


def _steps(
    records: Sequence[Mapping[str, Any]],
    causes: Mapping[tuple[str, str], str],
    at_once: Mapping[str, str],
) -> tuple[Step, ...]:
    steps: list[Step] = []
    for (metric, evidence), cause in causes.items():
        found = [r for r in records if (r["metric"], r["evidence"]) == (metric, evidence)]
        if not found:
            continue
        value, below = found[0]["value"], steps[-1].value_bytes if steps else None
        steps.append(
            Step(
                metric=metric,
                evidence=evidence,
                engine=found[0]["engine"],
                value_bytes=value,
                difference_bytes=None if below is None else value - below,
                cause="" if below is None else _said(cause, at_once.get(found[0]["cell_id"], "")),
            )
        )
    return tuple(steps)


def _said(cause: str, at_once: str) -> str:
    return cause.replace(NOT_LIVE, at_once) if at_once else cause


def _agreeing(rows: pd.DataFrame, record: Mapping[str, Any], same: Sequence[str]) -> pd.DataFrame:
    """The rows that ``_agree`` with ``record``."""
    kept = pd.Series(data=True, index=rows.index)
    for role in same:
        if not missing(record[role]):
            kept &= rows[role].isna() | (rows[role] == record[role])
    return rows[kept]


def _agree(first: Mapping[str, Any], second: Mapping[str, Any], same: Sequence[str]) -> bool:
    """Whether two rows are about the same point: no setting that both state differs."""
    return all(
        first[role] == second[role]
        for role in same
        if not missing(first[role]) and not missing(second[role])
    )


def _name(record: Mapping[str, Any], same: Sequence[str]) -> str:
    order = ("model", *same[-1:], *same[1:-1])
    return point_name({role: record[role] for role in order if not missing(record[role])})


def _top(ladder: Ladder) -> float:
    return max(step.value_bytes for step in ladder.steps)
