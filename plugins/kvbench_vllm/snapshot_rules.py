"""One reading of ``/metrics`` in sentences: the rules of a watch, as far as one look bears them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from kvbench.errors import CellFailed
from kvbench_vllm.report import facts_of
from kvbench_vllm.rules import Facts, prefixes_are_kept, requests_preempted, requests_queue

#: What begins every metric's name on a page of vLLM's.
_MARK = "# TYPE vllm:"


def explain_page(text: str) -> tuple[str, ...]:
    """Sentences about a ``/metrics`` page; none when ``text`` is something else."""
    if _MARK not in text:
        return ()
    if importlib.util.find_spec("prometheus_client") is None:
        return ("The server's present state is not read: pip install prometheus-client.",)
    from kvbench_vllm.scrape import parse

    try:
        snapshot = parse(text)
    except CellFailed as failure:
        return (f"The server's present state is not read: {failure}.",)
    values = {name: [value] for name, value in snapshot.values.items()}
    values["peak_waiting_requests"] = values.get("waiting_requests", [])
    facts = facts_of(values, dict(snapshot.cache_config))
    said = ((when, rule(facts)) for when, rule in _RULES)
    return tuple(f"{when}: {sentence}" for when, sentence in said if sentence)


def blocks_in_use(facts: Facts) -> str:
    """Say how full the pool is and who holds it."""
    if facts.usage_peak is None or not facts.usable_blocks:
        return ""
    used = round(facts.usage_peak * facts.usable_blocks)
    running = f"{facts.running_peak or 0:.0f} running request{_s(facts.running_peak)}"
    text = f"{used} of {facts.usable_blocks} blocks in use by {running} (engine)"
    if used and not facts.running_peak:
        return f"{text}: the gauge is that of the last step, before the engine freed its blocks."
    return f"{text}; the rest is free or holds prefixes of finished requests, which do not count."


def _s(count: float | None) -> str:
    return "" if count == 1 else "s"


_NOW, _SO_FAR = "Now", "Since the server started"
_RULES: tuple[tuple[str, Callable[[Facts], str]], ...] = (
    (_NOW, blocks_in_use),
    (_NOW, requests_queue),
    (_SO_FAR, prefixes_are_kept),
    (_SO_FAR, requests_preempted),
)
