"""What a served engine's figures mean, by rule and from the data alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Resident memory of a process moves by this much without any cause of ours.
_NOISE_BYTES = 64 * 1024**2
#: Usage from which a pool counts as full: the next block may not be there.
_FULL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One phase of requests against a server; unknown figures are ``None``.

    Attributes:
        requests: Requests that were sent.
        usage_start: Used share of the usable blocks at the first reading (engine).
        usage_peak: Largest used share (engine).
        usage_end: Used share at the last reading (engine).
        usable_blocks: Blocks that usage is a share of (engine).
        predicted_blocks: Blocks of all requests at full length, all at once (analytic).
        running_peak: Most running requests (engine).
        running_end: Running requests at the last reading (engine).
        waiting_peak: Most waiting requests (engine).
        hit_tokens: Prompt tokens found in the cache (engine).
        query_tokens: Prompt tokens looked up (engine).
        preemptions: Preemptions (engine).
        memory_low_bytes: Least resident memory of the server's processes (device).
        memory_high_bytes: Most resident memory of the server's processes (device).
        max_num_seqs: Most requests the engine runs at once, as configured.
    """

    requests: int
    usage_start: float | None = None
    usage_peak: float | None = None
    usage_end: float | None = None
    usable_blocks: int | None = None
    predicted_blocks: int | None = None
    running_peak: float | None = None
    running_end: float | None = None
    waiting_peak: float | None = None
    hit_tokens: float | None = None
    query_tokens: float | None = None
    preemptions: float | None = None
    memory_low_bytes: int | None = None
    memory_high_bytes: int | None = None
    max_num_seqs: int | None = None


def explain(facts: Facts) -> list[str]:
    """Return one sentence for every rule that has something to say about ``facts``."""
    return [sentence for rule in RULES if (sentence := rule(facts))]


def usage_follows_tokens(facts: Facts) -> str:
    """Compare the largest usage with the blocks that the requests need."""
    if facts.usage_peak is None or not facts.usable_blocks or not facts.predicted_blocks:
        return ""
    seen = round(facts.usage_peak * facts.usable_blocks)
    text = (
        f"Usage peaked at {seen} of {facts.usable_blocks} blocks (engine); all requests at full "
        f"length need {facts.predicted_blocks} (analytic)"
    )
    if not seen:
        return f"{text}: no reading of /metrics fell into the time they ran; read it more often."
    if seen == facts.predicted_blocks:
        return f"{text}: the same."
    if facts.predicted_blocks > facts.usable_blocks:
        return f"{text}: more than the pool has, so they cannot all run at once."
    if seen > facts.predicted_blocks:
        return f"{text}: other requests were in the pool."
    if facts.hit_tokens and facts.requests > 1:
        return f"{text}: shared prefixes are held once."
    return f"{text}: not all were at full length when a reading was taken."


def memory_does_not_follow(facts: Facts) -> str:
    """Say why the process does not grow while usage does."""
    known = (facts.memory_low_bytes, facts.memory_high_bytes)
    if None in known or not facts.usage_peak or facts.usage_peak <= (facts.usage_start or 0.0):
        return ""
    moved = (facts.memory_high_bytes or 0) - (facts.memory_low_bytes or 0)
    if moved > _NOISE_BYTES:
        return (
            f"The server's processes grew by {moved} bytes (device) while usage rose (engine): "
            "more than a preallocated pool explains; look for activation or host memory."
        )
    return (
        "The server's processes kept their size (device) while usage rose (engine): the pool is "
        "allocated as a whole at the start, usage only says how much of it is handed out."
    )


def usage_not_back(facts: Facts) -> str:
    """Tell retained prefixes, referenced blocks and late readings apart."""
    if facts.usage_end is None or facts.usage_start is None or not facts.usage_peak:
        return ""
    if facts.usage_end <= facts.usage_start:
        kept = ", and retained prefixes do not count as used" if facts.query_tokens else ""
        return f"Usage came back to where it started: finished requests hold no blocks{kept}."
    if facts.running_end:
        return "Usage did not come back: requests are still running and hold their blocks."
    return (
        "Usage did not come back although nothing runs: the gauge is that of the last step and "
        "was read before the engine freed its blocks."
    )


def prefixes_are_kept(facts: Facts) -> str:
    """Show the retention that usage does not show."""
    if not facts.query_tokens:
        return ""
    if facts.hit_tokens:
        return (
            f"{facts.hit_tokens:.0f} of {facts.query_tokens:.0f} prompt tokens were found in the "
            "cache (engine): full blocks of finished requests are kept until they are evicted; "
            "the last, partial block is always computed again."
        )
    return "No prompt token was found in the cache: the prompt is new, or its blocks were evicted."


def requests_queue(facts: Facts) -> str:
    """Name what the waiting requests waited for."""
    if not facts.waiting_peak:
        return ""
    count = f"{facts.waiting_peak:.0f} request{'s' if facts.waiting_peak > 1 else ''}"
    waiting = f"Up to {count} waited (engine)"
    if facts.usage_peak is not None and facts.usage_peak >= _FULL:
        return f"{waiting} for cache: the pool was full."
    if facts.max_num_seqs and (facts.running_peak or 0) >= facts.max_num_seqs:
        return f"{waiting} for a place among the {facts.max_num_seqs} that may run at once."
    return f"{waiting} for the next step's token budget, or for room for their whole prompt."


def requests_preempted(facts: Facts) -> str:
    """Say what preemption means when it happened."""
    if not facts.preemptions:
        return ""
    return (
        f"{facts.preemptions:.0f} times a running request lost its blocks to an older one (engine) "
        "and was computed again: fewer requests at once, shorter ones, or a larger pool avoid it."
    )


RULES: tuple[Callable[[Facts], str], ...] = (
    usage_follows_tokens,
    memory_does_not_follow,
    usage_not_back,
    prefixes_are_kept,
    requests_queue,
    requests_preempted,
)
