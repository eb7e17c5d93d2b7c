"""What the figures of a start-up log say about each other, in words."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kvbench.explain.finding import Finding, Verdict
from kvbench.explain.rounding import GIB, Rounded, simplest_between
from kvbench_vllm.start_log import StartLog

_DERIVED, _WRONG = Verdict.DERIVED, Verdict.CONTRADICTED
_MISLEADING, _STATED = Verdict.MISLEADING, Verdict.STATED
#: Figures that need no more than to be shown when nothing bears on them.
_LABELS = {
    "loading_gib": ("model loading", "GiB"),
    "available_gib": ("available KV cache memory", "GiB"),
    "graph_gib": ("graph capture", "GiB"),
    "tokens": ("GPU KV cache size", "tokens"),
    "num_blocks": ("GPU blocks", "blocks"),
    "concurrency": ("maximum concurrency", "x"),
    "block_size": ("block size", "tokens"),
    "estimated_len": ("estimated maximum model length", "tokens"),
}


def finding(figure: str, logged: str, verdict: Verdict, words: str) -> Finding:
    """A finding by position."""
    return Finding(figure=figure, logged=logged, verdict=verdict, words=words)


def memory_findings(log: StartLog) -> Iterator[Finding]:
    """The memory budget: device, utilization, terms, what is left."""
    if log.has("total_gib", "utilization", "requested_gib"):
        yield _product(log)
    terms = [name for name in ("activation_gib", "non_torch_gib") if log.has(name)]
    if log.has("requested_gib", "available_gib", "weights_gib", *terms) and len(terms) == 2:
        yield _rest(log)
    elif log.has("non_kv_gib", "available_gib", "requested_gib"):
        yield _complement(log)
    if log.has("available_gib") and log.value("available_gib") <= 0:
        yield finding(
            "available KV cache memory", f"{log.numbers['available_gib'].text} GiB", _DERIVED,
            "utilization × total is less than weights, peak activation and the rest: the figure "
            "is printed below zero, and no block can be made",
        )  # fmt: skip
    if log.has("graph_estimate_gib") and log.value("graph_estimate_gib") < 0:
        yield finding(
            "estimated graph memory", f"{log.numbers['graph_estimate_gib'].text} GiB", _MISLEADING,
            "a negative estimate adds to the pool; free memory rose while the graphs were "
            "profiled, as shared memory does",
        )  # fmt: skip


def _product(log: StartLog) -> Finding:
    total, share, product = (
        log.numbers[name] for name in ("total_gib", "utilization", "requested_gib")
    )
    low, high = total.low * share.low, total.high * share.high
    agrees = low - product.half * 2 <= product.value <= high + product.half * 2
    return finding(
        "memory the engine may use", f"{product.text} GiB", _DERIVED if agrees else _WRONG,
        f"total × utilization = {total.text} GiB × {share.text} = {total.value * share.value:.2f} "
        f"GiB" + ("" if agrees else ", which is not what is printed"),
    )  # fmt: skip


def _rest(log: StartLog) -> Finding:
    names = ["requested_gib", "weights_gib", "activation_gib", "non_torch_gib"]
    subtracted = [log.numbers[name] for name in names[1:]]
    graphs = log.numbers.get("graph_estimate_gib")
    available = log.numbers["available_gib"]
    left = log.value("requested_gib") - sum(term.value for term in subtracted)
    slack = sum(log.numbers[name].half for name in names) + available.half + 1e-9
    words = f"{log.numbers['requested_gib'].text} − " + " − ".join(t.text for t in subtracted)
    if abs(left - available.value) <= slack:
        return _left(available, _DERIVED, f"{words} = {left:.2f} GiB (weights, peak, non-torch)")
    if graphs is not None and abs(left - graphs.value - available.value) <= slack + graphs.half:
        left -= graphs.value
        return _left(available, _DERIVED, f"{words} − {graphs.text} for graphs = {left:.2f} GiB")
    return _left(
        available, _WRONG,
        f"{words} = {left:.2f} GiB: {left - available.value:+.2f} GiB from the line; another rank "
        "may have less, or a term is missing",
    )  # fmt: skip


def _left(available: Rounded, verdict: Verdict, words: str) -> Finding:
    return finding("available KV cache memory", f"{available.text} GiB", verdict, words)


def _complement(log: StartLog) -> Finding:
    requested, other, available = (
        log.numbers[name] for name in ("requested_gib", "non_kv_gib", "available_gib")
    )
    graphs = log.numbers.get("graph_estimate_gib")
    left = requested.value - other.value
    slack = requested.half + other.half + available.half + 1e-9
    words = f"{requested.text} − {other.text} (all that is not cache) = {left:.2f} GiB"
    if graphs is not None and abs(left - available.value) > slack:
        left -= graphs.value
        slack += graphs.half
        words += f", − {graphs.text} for graphs = {left:.2f} GiB"
    agrees = abs(left - available.value) <= slack
    return _left(available, _DERIVED if agrees else _WRONG, words)


def pool_findings(log: StartLog) -> Iterator[Finding]:
    """The pool from its own figures: tokens, blocks, concurrency, bytes per token."""
    yield from _tokens_and_concurrency(log)
    yield from _blocks(log)
    yield from _bytes_per_token(log)
    yield from _too_long(log)
    yield from _states(log)


def _length(log: StartLog) -> int | None:
    return log.count("concurrency_len") or log.count("max_len")


def _tokens_and_concurrency(log: StartLog) -> Iterator[Finding]:
    length = _length(log)
    if not log.has("tokens", "concurrency"):
        return
    if not length:
        yield from _implied_length(log)
        return
    tokens, printed = log.count("tokens") or 0, log.numbers["concurrency"]
    ratio = tokens / length
    if printed.holds(ratio, slack=0.005):
        pair = simplest_between(Fraction(tokens, length), Fraction(tokens + 1, length))
        yield finding(
            "maximum concurrency", f"{printed.text}x", _DERIVED,
            f"tokens / length = {tokens:,} / {length:,} = {ratio:.2f}"
            + _pair_words(log, tokens, length, pair),
        )  # fmt: skip
        return
    yield finding(
        "GPU KV cache size", f"{tokens:,} tokens", _MISLEADING if ratio < printed.value else _WRONG,
        f"{tokens:,} / {length:,} = {ratio:.2f}, but {printed.text}x is printed: the token figure "
        "divides the blocks by the number of layer groups (releases before 0.21) and charges every "
        f"layer in full; the concurrency is right, so the pool holds about "
        f"{int(printed.value * length):,} tokens of such requests",
    )  # fmt: skip


def _implied_length(log: StartLog) -> Iterator[Finding]:
    tokens, printed = log.count("tokens") or 0, log.numbers["concurrency"]
    if printed.low <= 0:
        return
    low, high = tokens / (printed.high or 1), tokens / printed.low
    yield finding(
        "maximum concurrency", f"{printed.text}x", _STATED,
        f"the length is not stated: {tokens:,} / {printed.text} puts the longest request between "
        f"{low:,.0f} and {high:,.0f} tokens",
    )  # fmt: skip


def _pair_words(log: StartLog, tokens: int, length: int, pair: Fraction) -> str:
    if log.has("num_blocks"):
        return ""
    if tokens % 16 == 0 or pair.denominator > length // 16 + 64 or pair.denominator == 1:
        return ""
    return (
        f"; the token figure is then int(concurrency × length), here "
        f"int({pair.numerator:,} / {pair.denominator:,} × {length:,}): a pool of "
        f"{pair.numerator:,} blocks (or a multiple) of which one such request takes "
        f"{pair.denominator:,}"
    )


def _blocks(log: StartLog) -> Iterator[Finding]:
    blocks, tokens, length = log.count("num_blocks"), log.count("tokens"), _length(log)
    if not blocks:
        return
    if tokens and tokens % blocks == 0:
        size = tokens // blocks
        yield finding(
            "GPU KV cache size", f"{tokens:,} tokens", _DERIVED,
            f"blocks × block size = {blocks:,} × {size} = {tokens:,}: "
            "every layer holds every token",
        )  # fmt: skip
    elif log.has("concurrency") and length:
        printed = log.numbers["concurrency"]
        needed = round(blocks / printed.value) if printed.value > 0 else 0
        if needed and printed.holds(blocks / needed):
            words = f"{blocks:,} blocks / {needed:,} blocks a request = {blocks / needed:.4f}"
            if tokens and int(blocks * length / needed) == tokens:
                words += f"; tokens = int({blocks:,} / {needed:,} × {length:,}) = {tokens:,}"
            yield finding(
                "maximum concurrency", f"{printed.text}x", _DERIVED,
                f"{words}: one of the blocks is the null block and is never handed out",
            )  # fmt: skip
    elif not tokens and not log.has("state_blocks"):
        size = log.count("block_size", 16) or 16
        yield finding(
            "GPU blocks", f"{blocks:,} blocks", _STATED,
            f"{blocks * size:,} tokens at {size:,} a block if every layer holds every token",
        )  # fmt: skip


def _bytes_per_token(log: StartLog) -> Iterator[Finding]:
    tokens = log.count("tokens")
    if not tokens or not log.has("available_gib") or log.value("available_gib") <= 0:
        return
    size = log.value("available_gib") * GIB
    yield finding(
        "bytes per token", f"{size / tokens:,.0f} B", _STATED,
        f"available / tokens = {log.numbers['available_gib'].text} GiB / {tokens:,}; it is the "
        "rate per rank only if no layer has a window or a state",
    )  # fmt: skip


def _too_long(log: StartLog) -> Iterator[Finding]:
    if not log.has("needed_gib", "available_gib", "estimated_len"):
        return
    length = log.count("max_len")
    if not length:
        return
    needed, available = log.numbers["needed_gib"], log.numbers["available_gib"]
    estimate = log.count("estimated_len") or 0
    rate = needed.value * GIB / length
    low = available.low / needed.high * length
    high = available.high / needed.low * length
    if low - 32 <= estimate <= high + 32:
        yield finding(
            "estimated maximum model length", f"{estimate:,} tokens", _DERIVED,
            f"{needed.text} GiB / {length:,} = {rate:,.0f} B a token on this rank; "
            f"{available.text} GiB / {rate:,.0f} B = {available.value * GIB / rate:,.0f}, in whole "
            "blocks: the need is proportional to the length",
        )  # fmt: skip
        return
    slope = (needed.value - available.value) * GIB / max(1, length - estimate)
    fixed = available.value * GIB - slope * estimate
    yield finding(
        "estimated maximum model length", f"{estimate:,} tokens", _DERIVED,
        f"the need is affine: {needed.text} GiB at {length:,} and {available.text} GiB at "
        f"{estimate:,} give {slope:,.0f} B a token and {fixed / GIB:.2f} GiB for each request "
        "whatever its length (windows with tokens in flight, states)",
    )  # fmt: skip


def _states(log: StartLog) -> Iterator[Finding]:
    if log.has("padding_layers", "waste_pct") and log.value("waste_pct") > 0:
        padded, waste = log.count("padding_layers") or 0, log.numbers["waste_pct"]
        layers = padded / waste.value * 100
        yield finding(
            "padding layers", f"{padded} layers, {waste.text}%", _DERIVED,
            f"{padded} / {layers:.0f} layers of the grouped kind = {waste.text} %: groups are made "
            "equal by layers that hold nothing",
        )  # fmt: skip
    if log.has("state_padding_pct"):
        yield finding(
            "state page padding", f"{log.numbers['state_padding_pct'].text}%", _STATED,
            "one block of attention is made as wide as one sequence's state, in whole multiples "
            "of the kernel's block",
        )  # fmt: skip
    if log.has("max_num_seqs_refused", "state_blocks"):
        wanted, blocks = log.count("max_num_seqs_refused"), log.count("state_blocks")
        yield finding(
            "max_num_seqs", f"{wanted:,}", _WRONG,
            f"every running sequence holds a block of state and the pool has {blocks:,}: set "
            f"max_num_seqs to {blocks:,} or less, or give the pool more memory",
        )  # fmt: skip


def unexplained(log: StartLog, findings: list[Finding]) -> Iterator[Finding]:
    """Figures that nothing bears on, so that the reader sees they were read."""
    covered = {found.figure for found in findings}
    for name, (figure, unit) in _LABELS.items():
        if log.has(name) and figure not in covered:
            value = log.numbers[name]
            shown = value.text if "." in value.text else f"{int(value.value):,}"
            joint = "" if unit == "x" else " "
            yield finding(
                figure, f"{shown}{joint}{unit}", _STATED, "nothing else in the log bears on it"
            )
