"""A start-up log against the model's geometry: blocks, tokens and concurrency, computed anew."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kvbench.errors import ModelError
from kvbench.explain.finding import Finding, Verdict
from kvbench.explain.rounding import GIB
from kvbench.layout import Arrangement, LayoutOptions
from kvbench.model.spec import ModelSpec
from kvbench_vllm.layout import VllmLayout
from kvbench_vllm.start_log import StartLog
from kvbench_vllm.start_log_words import finding

#: Tokens of one step tried when the log does not say: an API server's and a script's defaults.
_STEPS = (8192, 2048, 16384, 32768)
#: Pools tried within the rounding of the available memory.
_MOST_POOLS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Settings under which the geometry gives a figure of the log.

    Attributes:
        arrangement: The model as it was arranged.
        blocks: Blocks of the pool.
        step: Tokens of one step.
        is_async: A second step is scheduled meanwhile.
        words: The formula with its numbers.
    """

    arrangement: Arrangement
    blocks: int
    step: int
    is_async: bool
    words: str


def geometry_findings(log: StartLog, model: ModelSpec) -> tuple[list[Finding], list[str]]:
    """Findings from the geometry, and what had to be inferred."""
    try:
        tried = list(_arrangements(log, model))
    except ModelError as error:
        refusal = finding("model", model.name, Verdict.CONTRADICTED, f"the layout refuses: {error}")
        return [refusal], []
    first = tried[0][0]
    found = [*_block_size(log, first), *_needed(log, first)]
    assumptions: list[str] = []
    if log.has("tokens"):
        match = _best(log, [m for each in tried for m in _token_matches(log, *each)])
        found.append(_token_finding(log, first, match))
        if match is not None:
            found += _concurrency(log, match)
            assumptions += _inferred(log, match)
    return found, assumptions


def _arrangements(log: StartLog, model: ModelSpec) -> Iterator[tuple[Arrangement, int, bool]]:
    stated = log.count("batched_tokens")
    for step in (stated,) if stated else _STEPS:
        # Windows hold the tokens in flight; states hold another block when prefixes are kept.
        for is_async, keeps in itertools.product((True, False), (None, False)):
            options = {"async_scheduling": is_async, "enable_prefix_caching": keeps}
            yield _arrange(log, model, step, options), step, is_async
    yield from _older_blocks(log, model, stated or _STEPS[0])


def _older_blocks(
    log: StartLog, model: ModelSpec, step: int
) -> Iterator[tuple[Arrangement, int, bool]]:
    """Hybrids of older releases, whose wide blocks were aligned differently."""
    tokens = log.count("tokens") or 0
    options: dict[str, object] = {"enable_prefix_caching": False}
    usual = _arrange(log, model, step, options)
    if not any(group.kind == "state" for group in usual.groups):
        return
    for size in range(16, 2 * usual.block_size, 16):
        if size != usual.block_size and tokens % size == 0 and size > usual.block_size // 2:
            yield _arrange(log, model, step, options, size), step, True


def _arrange(
    log: StartLog,
    model: ModelSpec,
    step: int,
    options: Mapping[str, object],
    block_size: int | None = None,
) -> Arrangement:
    length = log.count("concurrency_len") or log.count("max_len")
    options = {**options, "max_num_batched_tokens": step}
    if length:
        options["max_model_len"] = length
    return VllmLayout().arrange(
        model,
        LayoutOptions(
            block_size=block_size,
            kv_dtype=log.words.get("kv_dtype", "auto"),
            tp=log.count("tp", 1) or 1,
            pp=log.count("pp", 1) or 1,
            engine=options,
        ),
    )


def _pools(log: StartLog, arrangement: Arrangement) -> range:
    """Pools that the log allows: its blocks, or what its memory buys within rounding."""
    blocks = log.count("num_blocks")
    if blocks:
        return range(blocks, blocks + 1)
    if not log.has("available_gib") or log.value("available_gib") <= 0:
        return range(0)
    available = log.numbers["available_gib"]
    low = arrangement.num_blocks(int(available.low * GIB))
    high = arrangement.num_blocks(int((available.high + available.half) * GIB)) + 1
    return range(low, min(high + 1, low + _MOST_POOLS))


def _token_matches(
    log: StartLog, arrangement: Arrangement, step: int, is_async: bool
) -> Iterator[Match]:
    tokens = log.count("tokens") or 0
    length = log.count("concurrency_len") or log.count("max_len") or 0
    groups, size = len(arrangement.groups), min(g.block_size for g in arrangement.groups)
    needed = arrangement.admission_blocks(length) if length else 0
    for blocks in _pools(log, arrangement):
        words = ""
        if needed and int(blocks / needed * length) == tokens:
            words = f"int({blocks:,} blocks / {needed:,} a request × {length:,} tokens)"
        elif blocks // groups * size == tokens:
            divided = f" // {groups} groups" if groups > 1 else ""
            words = f"{blocks:,} blocks{divided} × {size} tokens"
        if words:
            yield Match(
                arrangement=arrangement, blocks=blocks, step=step, is_async=is_async, words=words
            )


def _best(log: StartLog, matches: list[Match]) -> Match | None:
    """The first match that also gives the printed concurrency, else the first."""
    agreeing = (match for match in matches if _agrees(log, match))
    return next(agreeing, matches[0] if matches else None)


def _agrees(log: StartLog, match: Match) -> bool:
    length = log.count("concurrency_len") or log.count("max_len")
    if not log.has("concurrency") or not length:
        return True
    computed = match.arrangement.max_concurrency(match.blocks, length)
    return log.numbers["concurrency"].holds(computed, slack=0.005)


def _token_finding(log: StartLog, arrangement: Arrangement, match: Match | None) -> Finding:
    tokens = log.count("tokens") or 0
    if match is None:
        pools = _pools(log, arrangement)
        span = [arrangement.capacity_tokens(blocks) for blocks in (pools[0], pools[-1])] if pools \
            else []  # fmt: skip
        what = f"{span[0]:,} to {span[1]:,}" if span else "nothing without the available memory"
        return finding(
            "GPU KV cache size", f"{tokens:,} tokens", Verdict.CONTRADICTED,
            f"the geometry gives {what} tokens at {arrangement.bytes_per_block:,} B a block: "
            "another model, type, rank count or release, or a flag that the log does not show",
        )  # fmt: skip
    grouped = len(match.arrangement.groups) > 1
    old = "//" in match.words
    verdict = Verdict.MISLEADING if grouped else Verdict.DERIVED
    note = ""
    if grouped:
        note = "; the groups share the pool, so this is not what one long request can hold"
        note += ": the old formula" if old else ": it holds for requests of that length only"
    return finding(
        "GPU KV cache size", f"{tokens:,} tokens", verdict,
        f"{match.words} = {tokens:,}; a block is {match.arrangement.bytes_per_block:,} B on this "
        f"rank, {match.blocks:,} of them {_pool_gib(match):.3f} GiB{note}",
    )  # fmt: skip


def _pool_gib(match: Match) -> float:
    return match.blocks * match.arrangement.bytes_per_block / GIB


def _concurrency(log: StartLog, match: Match) -> Iterator[Finding]:
    length = log.count("concurrency_len") or log.count("max_len")
    if not log.has("concurrency") or not length:
        return
    printed = log.numbers["concurrency"]
    computed = match.arrangement.max_concurrency(match.blocks, length)
    needed = match.arrangement.admission_blocks(length)
    yield finding(
        "maximum concurrency", f"{printed.text}x",
        Verdict.DERIVED if _agrees(log, match) else Verdict.CONTRADICTED,
        f"{match.blocks:,} blocks / {needed:,} that a request of {length:,} tokens needs "
        f"= {computed:.2f}",
    )  # fmt: skip


def _block_size(log: StartLog, arrangement: Arrangement) -> Iterator[Finding]:
    printed = log.count("attention_block")
    if printed:
        same = printed == arrangement.block_size
        yield finding(
            "block size", f"{printed:,} tokens", Verdict.DERIVED if same else Verdict.CONTRADICTED,
            f"attention pages as wide as one sequence's state take {arrangement.block_size:,} "
            "tokens by the geometry",
        )  # fmt: skip


def _needed(log: StartLog, arrangement: Arrangement) -> Iterator[Finding]:
    length = log.count("max_len")
    if not log.has("needed_gib") or not length:
        return
    printed = log.numbers["needed_gib"]
    blocks = arrangement.admission_blocks(length)
    size = arrangement.admission_bytes(length) / GIB
    yield finding(
        "KV cache needed", f"{printed.text} GiB",
        Verdict.DERIVED if printed.holds(size, slack=0.005) else Verdict.CONTRADICTED,
        f"a request of {length:,} tokens takes {blocks:,} blocks × "
        f"{arrangement.bytes_per_block:,} B = {size:.2f} GiB",
    )  # fmt: skip


def _inferred(log: StartLog, match: Match) -> Iterator[str]:
    windowed = any(group.window_tokens for group in match.arrangement.groups)
    if windowed and "//" not in match.words and not log.has("batched_tokens"):
        steps = "two steps" if match.is_async else "one step"
        yield f"inferred: max_num_batched_tokens {match.step:,}, {steps} in flight"
    if not log.has("tp"):
        yield "the log does not say how many ranks share the model: one is assumed"
