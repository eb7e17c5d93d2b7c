"""Public request traces, read as streams of ``Request``."""

from kvbench.workload.traces.lines import file_sha256
from kvbench.workload.traces.trace import (
    FORMATS,
    OnBadLine,
    Trace,
    TraceCounts,
    detect_format,
    open_trace,
)

__all__ = [
    "FORMATS",
    "OnBadLine",
    "Trace",
    "TraceCounts",
    "detect_format",
    "file_sha256",
    "open_trace",
]
