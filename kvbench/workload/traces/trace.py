"""Open a public trace as a stream of requests, counting whatever is not taken as it stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from kvbench.errors import TraceError
from kvbench.names import counted, did_you_mean
from kvbench.workload.request import Request
from kvbench.workload.traces.csv_rows import (
    AZURE_COLUMNS,
    BURSTGPT_COLUMNS,
    AzureRows,
    BurstGptRows,
    split_row,
)
from kvbench.workload.traces.fields import BadLine, RowParser
from kvbench.workload.traces.json_rows import (
    BailianRows,
    OwnRows,
    mooncake_row,
    parse_object,
    sharegpt_row,
)
from kvbench.workload.traces.lines import iter_lines, read_magic
from kvbench.workload.traces.parquet_rows import MAGIC as PARQUET_MAGIC
from kvbench.workload.traces.parquet_rows import iter_rows

OnBadLine: TypeAlias = Literal["refuse", "count"]

_CSV: dict[str, Callable[[str], RowParser]] = {"azure": AzureRows, "burstgpt": BurstGptRows}
_JSON: dict[str, Callable[[], RowParser]] = {
    "mooncake": lambda: mooncake_row,
    "bailian": BailianRows,
    "sharegpt": lambda: sharegpt_row,
    "kvbench": OwnRows,
}

#: Format names on the command line and in suites.
FORMATS: tuple[str, ...] = (*_CSV, *_JSON, "parquet")

#: Keys that tell one JSON format from the others, the first complete set wins.
_JSON_MARKS = (
    ("bailian", ("chat_id", "input_length", "output_length", "timestamp")),
    ("mooncake", ("input_length", "output_length", "timestamp")),
    ("sharegpt", ("input_toks", "output_toks", "arrival_time_ns")),
    ("kvbench", ("prompt_tokens", "output_tokens")),
)
_CSV_MARKS = (("azure", AZURE_COLUMNS), ("burstgpt", BURSTGPT_COLUMNS))

_KEPT_MESSAGES = 5


@dataclass(slots=True, kw_only=True)
class TraceCounts:
    """What one pass over a trace met.

    Attributes:
        requests: Requests handed out.
        rejected: Bad lines, always 0 with ``on_bad_line="refuse"``.
        zero_outputs: Rows that state 0 output tokens; they are handed out with 1.
        reordered: Rows that arrive before their predecessor; they are handed out with its
            arrival, since requests join in row order.
        messages: The first few rejections, each with ``file:line``.
    """

    requests: int = 0
    rejected: int = 0
    zero_outputs: int = 0
    reordered: int = 0
    messages: list[str] = dataclasses.field(default_factory=list)


class Trace:
    """Requests of a trace file, read anew and in constant memory by every iteration.

    Attributes:
        path: The file.
        format: One of ``FORMATS``.
        counts: What the last (or current) pass met.
    """

    def __init__(
        self, path: Path, format_name: str, on_bad_line: OnBadLine, limit: int | None
    ) -> None:
        self.path = path
        self.format = format_name
        self.counts = TraceCounts()
        self._on_bad_line = on_bad_line
        self._limit = limit

    def __iter__(self) -> Iterator[Request]:
        """Yield the requests in row order.

        Raises:
            TraceError: A bad line (``file:line`` and what was expected) under
                ``on_bad_line="refuse"``, an unreadable file, or a file without any request.
        """
        counts = self.counts = TraceCounts()
        last_ms = 0.0
        for line, outcome in self._rows():
            if self._limit is not None and counts.requests + counts.rejected >= self._limit:
                break
            if isinstance(outcome, Request) and outcome.parent is not None and counts.rejected:
                outcome = BadLine("parent counts rows, which is void after a rejected line")
            if isinstance(outcome, BadLine):
                self._reject(f"{self.path}:{line}: {outcome}")
                continue
            request = self._normalised(outcome, last_ms)
            last_ms = request.arrival_ms
            counts.requests += 1
            yield request
        if not counts.requests:
            bad = f"; {self.remarks()[0]}" if counts.rejected else ""
            raise TraceError(f"{self.path}: holds no request ({self.format} expected){bad}")

    def remarks(self) -> tuple[str, ...]:
        """Return what the last pass did not take as it stands, one sentence each."""
        counts, name = self.counts, self.path.name
        found = {
            f"{counted(counts.rejected, 'bad line')} of {name} left out, first "
            f"{''.join(counts.messages[:1])}": counts.rejected,
            f"{counted(counts.zero_outputs, 'request')} of {name} with 0 output tokens, "
            "taken to have 1": counts.zero_outputs,
            f"{counted(counts.reordered, 'request')} of {name} with an arrival before the "
            "predecessor's, taken to arrive with it": counts.reordered,
        }
        return tuple(f"{sentence}." for sentence, count in found.items() if count)

    def _reject(self, message: str) -> None:
        if self._on_bad_line == "refuse":
            raise TraceError(message)
        self.counts.rejected += 1
        if len(self.counts.messages) < _KEPT_MESSAGES:
            self.counts.messages.append(message)

    def _normalised(self, request: Request, last_ms: float) -> Request:
        if request.output_tokens < 1:
            self.counts.zero_outputs += 1
            request = dataclasses.replace(request, output_tokens=1, output_ids=None)
        if request.arrival_ms < last_ms:
            self.counts.reordered += 1
            request = dataclasses.replace(request, arrival_ms=last_ms)
        return request

    def _rows(self) -> Iterator[tuple[int, Request | BadLine]]:
        if self.format == "parquet":
            return iter_rows(self.path)
        if self.format in _JSON:
            return _parse(_numbered(self.path), _JSON[self.format]())
        return self._csv_rows()

    def _csv_rows(self) -> Iterator[tuple[int, Request | BadLine]]:
        lines = _numbered(self.path)
        number, header = next(lines, (1, ""))
        try:
            parse = _CSV[self.format](header if isinstance(header, str) else "")
        except BadLine as error:
            raise TraceError(f"{self.path}:{number}: {error}") from None
        return _parse(lines, parse)


def _numbered(path: Path) -> Iterator[tuple[int, str | BadLine]]:
    """Yield decoded lines with their numbers; blank lines are bad except at the end."""
    blank: list[int] = []
    for number, raw in enumerate(iter_lines(path), start=1):
        if not raw.strip():
            blank.append(number)
            continue
        for skipped in blank:
            yield skipped, BadLine("blank line; expected a row")
        blank.clear()
        yield number, _decoded(raw, number)


def _decoded(raw: bytes, number: int) -> str | BadLine:
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r")
    except UnicodeDecodeError as error:
        return BadLine(f"not UTF-8 text (byte {error.start})")


def _parse(
    lines: Iterator[tuple[int, str | BadLine]], parse: RowParser
) -> Iterator[tuple[int, Request | BadLine]]:
    for number, line in lines:
        if isinstance(line, BadLine):
            yield number, line
            continue
        try:
            yield number, parse(line)
        except BadLine as error:
            yield number, error


def detect_format(path: Path) -> str:
    """Return the format of a trace, told by its first row or its magic bytes.

    Raises:
        TraceError: The file cannot be read, or is in none of ``FORMATS``.
    """
    if read_magic(path) == PARQUET_MAGIC:
        return "parquet"
    number, line = next(_numbered(path), (1, ""))
    found = _mark_of(line) if isinstance(line, str) else None
    if found is None:
        why = f"{line}; " if isinstance(line, BadLine) else "" if line.strip() else "no text; "
        raise TraceError(
            f"{path}:{number}: {why}not a trace kvbench knows; expected one of {', '.join(FORMATS)}"
        )
    return found


def _mark_of(line: str) -> str | None:
    if not line.lstrip().startswith("{"):
        names = {name.strip() for name in split_row(line)}
        return _first_match(names, _CSV_MARKS)
    try:
        return _first_match(set(parse_object(line)), _JSON_MARKS)
    except BadLine:
        return None


def _first_match(names: set[str], marks: Any) -> str | None:
    return next((name for name, keys in marks if names.issuperset(keys)), None)


def open_trace(
    path: str | Path,
    format: str | None = None,  # noqa: A002 - the word of the command line and of suites
    on_bad_line: OnBadLine = "refuse",
    limit: int | None = None,
) -> Trace:
    """Open a trace; plain, gzip and zstd files are told apart by their first bytes.

    Args:
        path: The file.
        format: One of ``FORMATS``, detected when ``None``.
        on_bad_line: ``refuse`` stops at the first bad line, ``count`` leaves it out and counts
            it in ``Trace.counts``.
        limit: Rows to read (bad ones included), ``None`` for all.

    Raises:
        TraceError: The file cannot be read, its format is unknown, or an argument is wrong.
    """
    path = Path(path)
    if on_bad_line not in ("refuse", "count"):
        raise TraceError(f"on_bad_line is {on_bad_line!r}; expected 'refuse' or 'count'")
    if limit is not None and (type(limit) is not int or limit < 1):
        raise TraceError(f"limit is {limit!r}; expected a number of rows, at least 1")
    if format is None:
        format = detect_format(path)  # noqa: A001
    elif format not in FORMATS:
        raise TraceError(f"unknown trace format {format!r}{did_you_mean(format, FORMATS)}")
    read_magic(path)
    return Trace(path, format, on_bad_line, limit)
