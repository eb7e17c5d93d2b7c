"""CSV traces: Azure LLM inference 2023 and 2024, BurstGPT."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from datetime import datetime, timedelta

from kvbench.names import did_you_mean
from kvbench.workload.request import Request
from kvbench.workload.traces.fields import BadLine, whole_text

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
BURSTGPT_COLUMNS = ("Timestamp", "Request tokens", "Response tokens")

_ZERO = timedelta(0)


def split_row(line: str) -> list[str]:
    """Return the fields of one CSV line."""
    if '"' not in line:
        return line.split(",")
    return next(csv.reader([line]))


class _Columns:
    """The columns that a reader needs, found by name in the header."""

    def __init__(self, header: str, wanted: Sequence[str]) -> None:
        names = [name.strip() for name in split_row(header)]
        for column in wanted:
            if column not in names:
                near = did_you_mean(column, names)
                raise BadLine(f"the header has no column {column!r}{near}")
        self._count = len(names)
        self._at = [names.index(column) for column in wanted]

    def pick(self, line: str) -> list[str]:
        fields = split_row(line)
        if len(fields) != self._count:
            raise BadLine(f"{len(fields)} fields; expected {self._count} as in the header")
        return [fields[at] for at in self._at]


class AzureRows:
    """Azure LLM inference traces 2023 and 2024 (github.com/Azure/AzurePublicDataset).

    Timestamps are wall-clock times; arrivals count from the file's first request, cut to
    microseconds. Rows share no prefix.
    """

    def __init__(self, header: str) -> None:
        self._columns = _Columns(header, AZURE_COLUMNS)
        self._start: datetime | None = None

    def __call__(self, line: str) -> Request:
        """Parse one row."""
        stamp, context, generated = self._columns.pick(line)
        return Request(
            prompt_tokens=whole_text(context, "ContextTokens", minimum=1),
            output_tokens=whole_text(generated, "GeneratedTokens", minimum=0),
            arrival_ms=self._since_start(stamp).total_seconds() * 1000,
        )

    def _since_start(self, stamp: str) -> timedelta:
        try:
            moment = datetime.fromisoformat(stamp.strip())
            since = _ZERO if self._start is None else moment - self._start
        except (ValueError, TypeError):
            raise BadLine(
                f"TIMESTAMP is {stamp!r}; expected a time such as '2023-11-16 18:17:03.9799600'"
            ) from None
        if self._start is None:
            self._start = moment
        return since


class BurstGptRows:
    """BurstGPT (github.com/HPMLL/BurstGPT), with or without the session columns.

    Timestamps are seconds on the trace's own clock; arrivals count from the first request. A
    response of 0 tokens marks a failed call of the origin. Rows share no prefix.
    """

    def __init__(self, header: str) -> None:
        self._columns = _Columns(header, BURSTGPT_COLUMNS)
        self._start_s: float | None = None

    def __call__(self, line: str) -> Request:
        """Parse one row."""
        stamp, prompt, response = self._columns.pick(line)
        prompt_tokens = whole_text(prompt, "Request tokens", minimum=1)
        output_tokens = whole_text(response, "Response tokens", minimum=0)
        now_s = self._seconds(stamp)
        if self._start_s is None:
            self._start_s = now_s
        return Request(
            arrival_ms=(now_s - self._start_s) * 1000,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
        )

    def _seconds(self, stamp: str) -> float:
        try:
            seconds = float(stamp)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < float("inf"):
            raise BadLine(f"Timestamp is {stamp!r}; expected seconds, 0 or more")
        return seconds
