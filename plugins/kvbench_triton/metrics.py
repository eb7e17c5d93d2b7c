"""Every metric of the ``triton`` engine, once per kind of evidence."""

from __future__ import annotations

from kvbench.engine import Direction, Evidence, Metric
from kvbench.metrics import shared

_LOWER, _HIGHER, _NONE = Direction.LOWER, Direction.HIGHER, Direction.NONE
_ANALYTIC, _ENGINE, _DEVICE = Evidence.ANALYTIC, Evidence.ENGINE, Evidence.DEVICE

#: name, unit, direction, meaning: predicted by arithmetic.
_PREDICTED = (
    ("kv_read_bytes", "bytes", _LOWER, "Visible K and V of one decode step of one layer."),
    ("moved_bytes", "bytes", _LOWER, "All bytes one decode step of one layer has to move."),
    ("partial_bytes", "bytes", _LOWER, "Partial results that split sequences write and read."),
    ("decode_flops", "count", _NONE, "Operations of both matrix products of one layer's step."),
    ("floor_s", "s", _LOWER, "Moved bytes over the datasheet's bandwidth: no step is faster."),
    ("work_items", "count", _NONE, "Spans the sequences are cut into."),
    ("span_tokens", "tokens", _NONE, "Tokens of one span."),
)

#: The same for what a device measured.
_MEASURED = (
    ("decode_s", "s", _LOWER, "Seconds of one decode step of one layer, caches cold."),
    ("moved_bytes_per_s", "bytes_per_s", _HIGHER, "Predicted bytes over measured seconds."),
    ("copy_bytes_per_s", "bytes_per_s", _HIGHER, "Measured ceiling: bytes copied, read and write."),
    ("read_bytes_per_s", "bytes_per_s", _HIGHER, "Measured ceiling: bytes only read."),
    ("of_copy_ratio", "ratio", _HIGHER, "Share of the measured copy bandwidth."),
    ("of_read_ratio", "ratio", _HIGHER, "Share of the measured read-only bandwidth."),
    ("measured_floor_s", "s", _LOWER, "Predicted bytes over the measured read-only bandwidth."),
    ("reserved_bytes", "bytes", _LOWER, "Memory the framework's allocator holds."),
    ("allocated_bytes", "bytes", _LOWER, "Memory the allocator has handed out, rounded up."),
    ("requested_bytes", "bytes", _LOWER, "Memory asked of the allocator."),
)

_ERROR = (
    "error_ratio",
    "ratio",
    _LOWER,
    "Largest difference from float64 over the largest float64 value.",
)

_POOL = ("pool_bytes", "block_bytes", "used_blocks", "pool_blocks", "fragmentation_ratio")


def _metric(row: tuple[str, str, Direction, str], evidence: Evidence, *, exact: bool) -> Metric:
    name, unit, direction, meaning = row
    return Metric(
        name=name, unit=unit, direction=direction, evidence=evidence, meaning=meaning, exact=exact
    )


METRICS: tuple[Metric, ...] = (
    *(_metric(row, _ANALYTIC, exact=True) for row in _PREDICTED),
    *(_metric(row, _DEVICE, exact=False) for row in _MEASURED),
    _metric(_ERROR, _ENGINE, exact=True),
    _metric(_ERROR, _DEVICE, exact=False),
    *(shared(name, _ANALYTIC, exact=True) for name in _POOL),
    *(shared(name, _ENGINE, exact=True) for name in _POOL),
    Metric(
        name="live_tokens",
        unit="tokens",
        direction=_NONE,
        evidence=_ENGINE,
        meaning="Tokens written into the cache, over the fill.",
        exact=True,
    ),
    shared("device_used_bytes", _DEVICE),
    shared("process_used_bytes", _DEVICE),
)
