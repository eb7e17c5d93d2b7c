"""Sections that the vLLM plugin adds to reports, from stored results only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kvbench.engine import Evidence, ReportSection
from kvbench_vllm.rules import Facts, explain

if TYPE_CHECKING:
    from kvbench.results import Results

_HEADER = (
    "phase",
    "requests (engine)",
    "peak usage (engine)",
    "peak blocks (engine)",
    "predicted blocks (analytic)",
    "waiting (engine)",
    "hit tokens (engine)",
    "preemptions (engine)",
    "process MiB (device)",
)
_MIB = 1024**2


def sections(results: Results) -> Sequence[ReportSection]:
    """Explain every served cell of the run, phase by phase."""
    cells = [cell for cell in results.cells.to_pylist() if cell["stage"] == "measure"]
    values = _values(results, {cell["cell_id"] for cell in cells if cell["plugin"] == "vllm"})
    served = [cell for cell in cells if cell["cell_id"] in values]
    if not served:
        return ()
    facts = [(_label(cell), facts_of(values[cell["cell_id"]], _settings(cell))) for cell in served]
    return (
        ReportSection(
            title="What the served engine's figures mean",
            text="\n".join(
                f"{label}: {sentence}" for label, fact in facts for sentence in explain(fact)
            ),
            evidence=Evidence.ENGINE,
            table=(_HEADER, *(_row(label, fact) for label, fact in facts)),
        ),
    )


def facts_of(values: Mapping[str, Sequence[float]], settings: Mapping[str, Any]) -> Facts:
    """Facts from samples in order, by metric, and the server's effective settings."""
    usage, running = values.get("usage_ratio", ()), values.get("running_requests", ())
    memory = values.get("process_used_bytes", ())
    return Facts(
        requests=int(_last(values, "requests_count") or 0),
        usage_start=usage[0] if usage else None,
        usage_peak=max(usage, default=None),
        usage_end=usage[-1] if usage else None,
        usable_blocks=_less_null(settings.get("num_gpu_blocks")),
        predicted_blocks=_whole(_last(values, "predicted_peak_blocks")),
        running_peak=max(running, default=None),
        running_end=running[-1] if running else None,
        waiting_peak=_last(values, "peak_waiting_requests"),
        hit_tokens=_last(values, "hit_tokens"),
        query_tokens=_last(values, "query_tokens"),
        preemptions=_last(values, "preemptions_count"),
        memory_low_bytes=_whole(min(memory, default=None)),
        memory_high_bytes=_whole(max(memory, default=None)),
        max_num_seqs=_number(settings.get("max_num_seqs")),
    )


def _values(results: Results, cell_ids: set[str]) -> dict[str, dict[str, list[float]]]:
    found: dict[str, dict[str, list[float]]] = {}
    for row in _last_repeats(results.samples.to_pylist(), cell_ids):
        found.setdefault(row["cell_id"], {}).setdefault(row["metric"], []).append(row["value"])
    return found


def _last_repeats(rows: Sequence[Mapping[str, Any]], cell_ids: set[str]) -> Iterator[Any]:
    measured = [row for row in rows if row["phase"] == "measure" and row["cell_id"] in cell_ids]
    last: dict[str, int] = {}
    for row in measured:
        last[row["cell_id"]] = max(last.get(row["cell_id"], 0), row["repeat"])
    return (row for row in measured if row["repeat"] == last[row["cell_id"]])


def _row(label: str, facts: Facts) -> tuple[str, ...]:
    peak = facts.usage_peak
    blocks = None if peak is None else round(peak * (facts.usable_blocks or 0))
    memory = facts.memory_high_bytes
    cells = (
        facts.requests,
        None if peak is None else f"{peak:.1%}",
        blocks,
        facts.predicted_blocks,
        _whole(facts.waiting_peak),
        _whole(facts.hit_tokens),
        _whole(facts.preemptions),
        None if memory is None else memory // _MIB,
    )
    return (label, *("unknown" if cell is None else str(cell) for cell in cells))


def _label(cell: Mapping[str, Any]) -> str:
    return str(cell.get("param_phase") or f"{cell['benchmark']} {cell['ordinal']}")


def _last(values: Mapping[str, Sequence[float]], name: str) -> float | None:
    return values[name][-1] if values.get(name) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _settings(cell: Mapping[str, Any]) -> dict[str, Any]:
    return {**_json(cell, "params_json"), **_json(cell, "effective_json")}


def _less_null(blocks: Any) -> int | None:
    total = _number(blocks)
    return None if total is None else total - 1


def _number(value: Any) -> int | None:
    return int(value) if str(value).isdigit() else None


def _json(cell: Mapping[str, Any], column: str) -> Mapping[str, Any]:
    value = json.loads(cell.get(column) or "{}")
    return value if isinstance(value, dict) else {}
