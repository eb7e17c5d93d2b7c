"""What ``kvbench fit`` answers: plain dictionaries for JSON, and sentences for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvbench.cli.quantities import show_bytes
from kvbench.device.estimate import Estimate
from kvbench.fit.answer import Answer, Range
from kvbench.fit.whatif import Alternative, BreakEven, Candidate

#: Columns of the flat formats.
COLUMNS = (
    "model", "gpu", "gpus", "tp", "layout", "kv_dtype", "block_size", "context", "kv_budget_bytes",
    "num_blocks", "capacity_tokens", "max_concurrency", "requests", "max_context_tokens",
    "bound_by",
)  # fmt: skip
WHATIF_COLUMNS = (
    "axis", "value", "asked", "kv_budget_bytes", "num_blocks", "requests", "requests_low",
    "requests_high", "max_context_tokens", "bound_by", "refusal",
)  # fmt: skip


def document(found: Answer) -> dict[str, Any]:
    """The answer as one JSON object; every figure for one replica unless it says requests."""
    question, size = found.question, found.budget.kv_bytes
    return {
        "model": question.model.name,
        "gpu": question.device.name,
        "gpus": question.replicas * question.tp * question.pp,
        "tp": question.tp,
        "pp": question.pp,
        "replicas": question.replicas,
        "layout": found.arrangement.layout,
        "kv_dtype": found.arrangement.kv_dtype,
        "block_size": found.arrangement.block_size,
        "context": question.request_tokens,
        "concurrency": question.concurrency,
        "utilization": question.utilization,
        "max_num_batched_tokens": found.budget.at.tokens,
        "max_num_seqs": found.budget.at.sequences,
        "evidence": "analytic",
        "requested_bytes": found.budget.requested.expected,
        "budget": {term.name: term.size.expected for term in found.budget.terms},
        "budget_terms": [_term(term.name, term) for term in found.budget.terms],
        "kv_budget_bytes": max(0, size.expected),
        "kv_budget_bytes_interval": [max(0, size.low), max(0, size.high)],
        "kv_shortfall_bytes": max(0, -size.expected),
        "bytes_per_block": found.arrangement.bytes_per_block,
        "num_blocks": found.num_blocks.expected,
        "num_blocks_interval": _interval(found.num_blocks),
        "capacity_tokens": found.capacity_tokens.expected,
        "capacity_tokens_interval": _interval(found.capacity_tokens),
        "max_concurrency": found.max_concurrency,
        "requests": found.requests.expected,
        "requests_interval": _interval(found.requests),
        "max_context_tokens": found.max_context_tokens.expected,
        "max_context_tokens_interval": _interval(found.max_context_tokens),
        "max_concurrency_by_workload": _workload(found),
        "fits": found.fits,
        "bound_by": found.bound_by,
        "assumptions": list(found.assumptions),
    }


def _term(name: str, term: Any) -> dict[str, Any]:
    size: Estimate = term.size
    return {
        "term": name,
        "bytes": size.expected,
        "low_bytes": size.low,
        "high_bytes": size.high,
        "kind": term.kind,
        "provenance": term.provenance,
    }


def _interval(found: Range) -> list[int]:
    return [found.low, found.high]


def _workload(found: Answer) -> dict[str, Any] | None:
    held = found.residents
    if held is None:
        return None
    return {
        "resident_tokens_p50": held.p50_tokens,
        "resident_tokens_p95": held.p95_tokens,
        "resident_tokens_p99": held.p99_tokens,
        "resident_tokens_mean": held.mean_tokens,
        "requests": held.requests,
        "requests_low": held.requests_low,
        "confidence": 0.99,
    }


def sentences(found: Answer, *, why: bool) -> Iterable[str]:
    """The answer in words: the verdict, the budget, both directions, doubts."""
    question = found.question
    ranks = question.replicas * question.tp * question.pp
    gpus = f"{ranks} × {question.device.name}"
    yield (
        f"{question.model.name} on {gpus} (tp {question.tp}): "
        f"{found.requests.words('requests')} of {question.request_tokens:,} tokens at once, "
        f"bound by {found.bound_by}."
    )
    yield ""
    yield from _budget_lines(found)
    yield ""
    yield f"pool      {found.num_blocks.words('blocks')}, expected {found.num_blocks.expected:,}"
    yield f"tokens    {found.capacity_tokens.words('tokens')} by the engine's own count"
    yield (
        f"longest   {found.max_context_tokens.words('tokens')} when {question.concurrency:,} "
        "run at once"
    )
    yield from _workload_lines(found)
    doubt = found.budget.largest_doubt
    yield (
        f"doubt     {doubt.name} most: {show_bytes(doubt.size.low)} to "
        f"{show_bytes(doubt.size.high)}"
    )
    yield from _why(found) if why else ()
    yield from ("", "assumptions:", *(f"  {line}" for line in found.assumptions))


def _budget_lines(found: Answer) -> Iterable[str]:
    budget = found.budget
    total = budget.requested
    name = f"{budget.at.device.name} × {budget.at.utilization:g}"
    yield _line(name, total, "")
    for term in budget.terms:
        yield _line(f"− {term.name}", term.size, term.kind)
    yield _line("= KV pool", budget.kv_bytes, "")


def _line(name: str, size: Estimate, kind: str) -> str:
    text = f"{name:22}{show_bytes(size.expected):>12}"
    if size.spread:
        text += f"   {show_bytes(size.low)} to {show_bytes(size.high)}"
    return f"{text}   {kind}".rstrip()


def _workload_lines(found: Answer) -> Iterable[str]:
    held = found.residents
    if held is not None:
        yield (
            f"workload  resident tokens P50 {held.p50_tokens:,}, P95 {held.p95_tokens:,}, "
            f"P99 {held.p99_tokens:,}; {held.requests:,} requests stay under the pool 99 % of the "
            f"time ({held.requests_low:,} at the low end)"
        )


def _why(found: Answer) -> Iterable[str]:
    question, arrangement = found.question, found.arrangement
    budget, blocks, tokens = found.budget, found.num_blocks.expected, question.request_tokens
    terms = " − ".join(f"{term.size.expected:,}" for term in budget.terms)
    memory = budget.at.device.memory_bytes
    needed = arrangement.admission_blocks(tokens)
    yield from (
        "",
        "why:",
        f"  M · u          = {memory:,} · {budget.at.utilization:g} "
        f"= {budget.requested.expected:,} B",
        f"  B_kv           = M · u − Σ terms = {budget.requested.expected:,} − {terms} "
        f"= {budget.kv_bytes.expected:,} B",
        f"  N              = ⌊B_kv / bytes_per_block⌋ = ⌊{max(0, budget.kv_bytes.expected):,} / "
        f"{arrangement.bytes_per_block:,}⌋ = {blocks:,} blocks",
        f"  n(T={tokens:,}) = N / blocks(T) = {blocks:,} / {needed:,} "
        f"= {arrangement.max_concurrency(blocks, tokens):.2f}",
    )
    yield from (f"  {term.name:14} {term.provenance}" for term in budget.terms)


def alternative_row(each: Alternative) -> dict[str, Any]:
    """One row of a what-if table."""
    row: dict[str, Any] = {"axis": each.axis, "value": each.value, "asked": each.is_asked}
    if each.answer is None:
        return {**row, "refusal": each.refusal}
    found = each.answer
    return {
        **row,
        "kv_budget_bytes": max(0, found.budget.kv_bytes.expected),
        "num_blocks": found.num_blocks.expected,
        "requests": found.requests.expected,
        "requests_low": found.requests.low,
        "requests_high": found.requests.high,
        "max_context_tokens": found.max_context_tokens.expected,
        "bound_by": found.bound_by,
    }


def break_even_row(point: BreakEven) -> dict[str, Any]:
    """One break-even point."""
    return {"knob": point.knob, "value": point.value, "meaning": point.meaning}


def candidate_row(each: Candidate) -> dict[str, Any]:
    """One device of the smallest that fit."""
    return {
        "gpu": each.device.name,
        "tp": each.tp,
        "total_memory_bytes": each.tp * each.device.memory_bytes,
        "requests": each.answer.requests.expected,
        "requests_low": each.answer.requests.low,
        "max_context_tokens": each.answer.max_context_tokens.expected,
        "certain": each.certain,
    }
