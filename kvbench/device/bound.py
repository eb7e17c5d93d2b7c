"""What limits the number of requests: a term of the budget, the pool, or the scheduler."""

from __future__ import annotations

from collections.abc import Mapping

#: What binds when it is no term of the budget.
KV_POOL, SCHEDULER = "kv_pool", "max_num_seqs"


def bound_by(
    *,
    requested_bytes: float,
    terms: Mapping[str, float],
    kv_bytes: float,
    requests: float,
    seats: float,
) -> str:
    """Name what binds, from the expected figures of one rank.

    Args:
        requested_bytes: Bytes of the device that the engine may use.
        terms: What it uses for other things, bytes by name.
        kv_bytes: What is left for the pool; nothing at or below 0.
        requests: Requests that the pool holds, as the engine computes it (a fraction).
        seats: Requests that one step may schedule (``max_num_seqs``).

    Returns:
        ``weights`` when they alone exceed what the engine may use, the largest other term when
        all together leave no pool, ``max_num_seqs`` when the pool holds more than may run, else
        ``kv_pool``.
    """
    if terms.get("weights", 0) > requested_bytes:
        return "weights"
    if kv_bytes <= 0:
        others = {name: size for name, size in terms.items() if name != "weights"}
        return max(others, key=lambda name: others[name]) if others else "weights"
    return SCHEDULER if requests > seats else KV_POOL
