"""A running vLLM server, watched by ``kvbench observe``."""

from __future__ import annotations

from kvbench.engine import Reading
from kvbench.errors import CellFailed
from kvbench_vllm.endpoint import Endpoint
from kvbench_vllm.report import facts_of
from kvbench_vllm.rules import explain
from kvbench_vllm.scrape import COUNTERS, Snapshot, differences, scrape

#: Settings of ``vllm:cache_config_info`` worth keeping.
KEPT_SETTINGS = ("block_size", "cache_dtype", "num_gpu_blocks", "enable_prefix_caching")


class VllmObserver:
    """Reads ``/metrics``; counters are added up over restarts of the server."""

    def __init__(self, endpoint: Endpoint, first: Snapshot) -> None:
        """Start from a first snapshot of ``endpoint``."""
        self._endpoint, self._last = endpoint, first
        self._totals = dict.fromkeys(COUNTERS & first.values.keys(), 0.0)
        self._seen: dict[str, list[float]] = {}

    def read(self) -> Reading:
        """Look once; see ``kvbench.engine.Observer``."""
        now = scrape(self._endpoint)
        for name, grown in differences(self._last, now).items():
            self._totals[name] = self._totals.get(name, 0.0) + grown
        self._last = now
        gauges = {name: value for name, value in now.values.items() if name not in COUNTERS}
        self._remember(gauges)
        return Reading(
            gauges=gauges,
            totals=dict(self._totals),
            effective=settings(now),
            missing=now.missing,
        )

    def explain(self) -> tuple[str, ...]:
        """Apply the rules to everything seen so far."""
        values = {**self._seen, **{name: [total] for name, total in self._totals.items()}}
        peak = max(self._seen.get("waiting_requests", [0.0]))
        values["peak_waiting_requests"] = [peak]
        return tuple(explain(facts_of(values, settings(self._last))))

    def _remember(self, gauges: dict[str, float]) -> None:
        """Keep first, largest and last of each gauge: all that the rules look at."""
        for name, value in gauges.items():
            first, peak, _ = self._seen.get(name, [value, value, value])
            self._seen[name] = [first, max(peak, value), value]


def settings(snapshot: Snapshot) -> dict[str, str]:
    """Settings as the server states them."""
    config = snapshot.cache_config
    return {name: config[name] for name in KEPT_SETTINGS if name in config}


def observe(url: str) -> VllmObserver | None:
    """Return an observer when a vLLM server answers at ``url``, ``None`` for other servers.

    Raises:
        CellFailed: The server refuses access, or does not answer at all.
    """
    endpoint = Endpoint(url=url)
    try:
        first = scrape(endpoint)
    except CellFailed as failure:
        if failure.reason in ("endpoint_off", "metrics_unreadable"):
            return None
        raise
    return VllmObserver(endpoint, first) if first.values else None
