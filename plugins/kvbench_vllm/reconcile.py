"""One term after another: predicted, simulated, reported, measured, and what sets them apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from kvbench.engine import Evidence, ReportSection
from kvbench.results.schema import MEASURED, Phase

if TYPE_CHECKING:
    from kvbench.results import Results

#: Cells that a report reconciles; the results hold the others.
MOST_CELLS = 24

#: Metric -> what the table calls it. The order is that of the table.
TERMS: Mapping[str, str] = {
    "block_bytes": "bytes of one block",
    "pool_blocks": "blocks",
    "pool_bytes": "bytes of the pool",
    "capacity_tokens": "tokens of the pool",
    "max_concurrency_requests": "most requests at once",
    "weight_bytes": "bytes of the weights",
    "steps_count": "steps",
    "peak_used_blocks": "most blocks in use",
    "mean_used_blocks": "blocks in use, mean of the steps",
    "hit_tokens": "prompt tokens found in the cache",
    "preemptions_count": "preemptions",
    "evicted_blocks": "cached blocks evicted",
}
_SERIES = "used_blocks"
_MEASURED = "process_used_bytes"
_HEADER = (
    "cell",
    "term",
    "predicted (analytic)",
    "simulated (pool)",
    "reported (engine)",
    "measured (device)",
    "difference",
    "cause",
)
#: Two settings that name the same thing differently in every engine, or say nothing about memory.
_NOT_COMPARED = frozenset({"layout", "policy", "study", "limit", "step_ms", "requests"})


@dataclass(slots=True, kw_only=True)
class Column:
    """A cell with its values.

    Attributes:
        cell: Row of the results.
        params: What was requested.
        effective: What the engine made of it.
        values: (metric, evidence) -> last value.
        steps: Microseconds -> blocks in use.
    """

    cell: Mapping[str, Any]
    params: Mapping[str, Any]
    effective: Mapping[str, Any]
    values: dict[tuple[str, str], float] = field(default_factory=dict)
    steps: dict[int, float] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The cell's place in words."""
        axes = {
            name.removeprefix("param_"): value
            for name, value in self.cell.items()
            if name.startswith("param_") and value is not None
        }
        return ", ".join(f"{name} {value}" for name, value in axes.items())

    def stands_beside(self, other: Column) -> bool:
        """Whether both were asked the same: equal in every setting that both have."""
        common = (self.params.keys() & other.params.keys()) - _NOT_COMPARED
        return all(self.params[name] == other.params[name] for name in common)


def sections(results: Results) -> Sequence[ReportSection]:
    """Return the reconciliation of every vLLM cell beside the cells that were asked the same."""
    columns = list(_columns(results))
    engines = [
        one for one in columns if one.cell["plugin"] == "vllm" and one.cell["stage"] != "measure"
    ]
    rows = [row for one in engines[:MOST_CELLS] for row in _rows(one, columns)]
    if not rows:
        return ()
    # What a device holds beside the pool is no term of the engine's accounting.
    compared = [row for row in rows if row[-2] and not row[5]]
    agreed = sum(row[-1] == "none" for row in compared)
    left = len(engines) - MOST_CELLS
    return (
        ReportSection(
            title="vLLM's own figures, term by term",
            text=(
                f"{agreed} of {len(compared)} terms that can be compared agree exactly. "
                "The difference is reported (engine) less simulated, or less predicted where "
                "nothing was simulated. Cells stand beside each other when they were asked the "
                "same." + (f" {left} further cells are left out." if left > 0 else "")
            ),
            evidence=Evidence.ENGINE,
            table=(_HEADER, *rows),
        ),
    )


def _columns(results: Results) -> Iterator[Column]:
    found = {
        cell["cell_id"]: Column(
            cell=cell, params=_json(cell["params_json"]), effective=_json(cell["effective_json"])
        )
        for cell in results.cells.to_pylist()
        if cell["status"] in MEASURED
    }
    wanted = [*TERMS, _SERIES, _MEASURED]
    samples = results.samples
    kept = samples.filter(pc.is_in(samples["metric"], value_set=pa.array(wanted)))
    for row in kept.to_pylist():
        column = found.get(row["cell_id"])
        if column is None or row["phase"] != Phase.MEASURE:
            continue
        if row["metric"] == _SERIES:
            column.steps[row["t_offset_us"] or 0] = row["value"]
        else:
            column.values[row["metric"], row["evidence"]] = row["value"]
    return iter(found.values())


def _rows(engine: Column, columns: Sequence[Column]) -> Iterator[tuple[str, ...]]:
    beside = [one for one in columns if one is not engine and engine.stands_beside(one)]
    for metric, term in TERMS.items():
        reported = engine.values.get((metric, "engine"))
        if reported is None:
            continue
        predicted = _first(beside, metric, "analytic")
        simulated = _first(beside, metric, "simulated")
        reference = predicted if simulated is None else simulated
        yield (
            engine.label,
            term,
            *(_number(value) for value in (predicted, simulated, reported)),
            "",
            *_difference(engine, reported, reference),
        )
    yield from _step_row(engine, beside)
    yield from _memory_row(engine)


def _step_row(engine: Column, beside: Sequence[Column]) -> Iterator[tuple[str, ...]]:
    """Compare the series step by step; the simulator keeps peaks of long runs only."""
    simulated = next((one for one in beside if one.cell["plugin"] == "pool" and one.steps), None)
    if simulated is None or not engine.steps:
        return
    differing = sum(engine.steps.get(at) != value for at, value in simulated.steps.items())
    yield (
        engine.label,
        "blocks in use, step by step",
        "",
        f"{len(simulated.steps)} steps",
        f"{len(engine.steps)} steps",
        "",
        "0" if not differing else f"{differing} steps differ",
        "none" if not differing else _cause(engine),
    )


def _memory_row(engine: Column) -> Iterator[tuple[str, ...]]:
    pool = engine.values.get(("pool_bytes", "engine"))
    measured = engine.values.get((_MEASURED, "device"))
    if pool is not None and measured is not None:
        yield (
            engine.label,
            "growth of the process over the pool's bytes",
            "",
            "",
            _number(pool),
            _number(measured),
            f"{measured - pool:+,.0f}",
            "weights, activations and runtime beside the pool; pages not yet touched",
        )


def _first(columns: Sequence[Column], metric: str, evidence: str) -> float | None:
    values = (one.values.get((metric, evidence)) for one in columns)
    return next((value for value in values if value is not None), None)


def _difference(engine: Column, reported: float, reference: float | None) -> tuple[str, str]:
    if reference is None:
        return "", "nothing else in this run was asked the same"
    # Concurrency is a quotient; its last binary digit is not a difference.
    if abs(reported - reference) <= 1e-9 * abs(reference):
        return "0", "none"
    return f"{reported - reference:+,.10g}", _cause(engine)


def _cause(engine: Column) -> str:
    """Name what the engine did otherwise than it was asked."""
    if engine.cell["status"] == "invalid":
        return str(engine.cell["error"] or engine.cell["reason"])
    if engine.effective.get("async_scheduling") and not engine.params.get("async_scheduling"):
        return "the engine schedules a step ahead, the simulator was not told so"
    windowed = any(kind in str(engine.effective.get("groups")) for kind in ("Sliding", "Mamba"))
    interval = engine.effective.get("prefix_cache_retention_interval", 0)
    if windowed and interval != engine.params.get("prefix_cache_retention_interval", 0):
        return (
            f"the engine keeps prefixes of windowed layers every {interval} tokens, the simulator "
            "was not told so (prefix_cache_retention_interval)"
        )
    changed = [
        f"{name} {engine.params[name]} became {engine.effective[name]}"
        for name in sorted(engine.params.keys() & engine.effective.keys())
        if name not in ("dtype", "kv_dtype") and engine.params[name] != engine.effective[name]
    ]
    return "; ".join(changed) or "unexplained: the engine and the mirrored version differ"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4f}"


def _json(text: str | None) -> Mapping[str, Any]:
    value = json.loads(text or "{}")
    return value if isinstance(value, dict) else {}
