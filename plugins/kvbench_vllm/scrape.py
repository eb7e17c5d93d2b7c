"""The server's ``/metrics`` page as one snapshot, named alike for every vLLM version."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from kvbench.errors import CellFailed
from kvbench_vllm.endpoint import Endpoint
from kvbench_vllm.http import get_text

#: Our name -> sample names by vLLM version, newest first. Older ones called the
#: usage gauge after the GPU and had no prefix counters per token.
NAMES: Mapping[str, tuple[str, ...]] = {
    "usage_ratio": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "running_requests": ("vllm:num_requests_running",),
    "waiting_requests": ("vllm:num_requests_waiting",),
    "query_tokens": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "hit_tokens": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "preemptions_count": ("vllm:num_preemptions_total",),
    "prompt_tokens": ("vllm:prompt_tokens_total",),
    "generation_tokens": ("vllm:generation_tokens_total",),
}

#: Names that only ever grow while a server lives; read them as differences.
COUNTERS = frozenset(
    {"query_tokens", "hit_tokens", "preemptions_count", "prompt_tokens", "generation_tokens"}
)

_INFO = "vllm:cache_config_info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One reading of ``/metrics``.

    Attributes:
        at_s: Monotonic time of the reading.
        took_s: Seconds the page took.
        values: Our names with a value; summed over the engines of a data-parallel server,
            usage as the largest.
        missing: Our names without a value, each with the reason.
        cache_config: Labels of ``vllm:cache_config_info``, empty when the server has none.
    """

    at_s: float
    took_s: float
    values: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    cache_config: Mapping[str, str] = field(default_factory=dict)


def scrape(endpoint: Endpoint) -> Snapshot:
    """Read ``/metrics`` once.

    Raises:
        CellFailed: The page cannot be had, or is not in the Prometheus text format.
    """
    start = time.monotonic()
    page = get_text(endpoint, "/metrics")
    return parse(page, at_s=start, took_s=time.monotonic() - start)


def parse(page: str, *, at_s: float = 0.0, took_s: float = 0.0) -> Snapshot:
    """Turn a ``/metrics`` page into a snapshot.

    Raises:
        CellFailed: The page is not in the Prometheus text format.
    """
    try:
        samples = _samples(page)
    except (ValueError, KeyError, IndexError) as error:
        raise CellFailed(
            "metrics_unreadable", f"/metrics is not Prometheus text: {error}"
        ) from error
    values, missing = {}, {}
    for name, candidates in NAMES.items():
        found = next((samples[known] for known in candidates if known in samples), None)
        if found is None:
            missing[name] = f"the server exports none of {', '.join(candidates)}"
        elif math.isfinite(total := _total(name, found)):
            values[name] = total
        else:
            missing[name] = f"the server states {total} for it"
    info = samples.get(_INFO, [])
    return Snapshot(
        at_s=at_s,
        took_s=took_s,
        values=values,
        missing=missing,
        cache_config=dict(info[0].labels) if info else {},
    )


def differences(before: Snapshot, after: Snapshot) -> dict[str, float]:
    """Growth of every counter between two snapshots of one server's life.

    A counter that shrank belongs to a restarted server and counts from zero.
    """
    grown = {}
    for name in COUNTERS & before.values.keys() & after.values.keys():
        difference = after.values[name] - before.values[name]
        grown[name] = after.values[name] if difference < 0 else difference
    return grown


def _samples(page: str) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def _total(name: str, samples: Iterable[Sample]) -> float:
    values = [float(sample.value) for sample in samples]
    return max(values) if name == "usage_ratio" else sum(values)
