"""Checked fields of one row of a trace."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kvbench.names import did_you_mean
from kvbench.workload.request import Request

#: Nanoseconds of 30 years: no trace's clock goes further.
MAX_CLOCK = 1e18

#: Positions are 32-bit integers in every engine; longer is a damaged row.
MAX_TOKENS = 2**31 - 1


class BadLine(ValueError):  # noqa: N818 - it is a line, not a program, that is wrong
    """A row that is not a request; the message says what is wrong and what was expected."""


class RowParser(Protocol):
    """Turns the data rows of one file, in order, into requests.

    A parser may keep state between rows (the first timestamp of an absolute clock), so each
    pass over a file has its own.
    """

    def __call__(self, line: str) -> Request:
        """Parse one row.

        Raises:
            BadLine: The row is not a request.
        """


def whole(value: Any, key: str, *, minimum: int) -> int:
    """Return ``value`` if it is an integer of at least ``minimum``."""
    if type(value) is not int:
        raise BadLine(f"{key} is {value!r}; expected an integer of at least {minimum}")
    if value < minimum:
        raise BadLine(f"{key} is {value}; expected at least {minimum}")
    if value > MAX_TOKENS:
        raise BadLine(f"{key} is too large; expected at most {MAX_TOKENS}")
    return value


def whole_text(text: str, key: str, *, minimum: int) -> int:
    """Return the integer that ``text`` spells."""
    try:
        value = int(text)
    except ValueError:
        raise BadLine(f"{key} is {text!r}; expected an integer of at least {minimum}") from None
    return whole(value, key, minimum=minimum)


def number(value: Any, key: str) -> float:
    """Return ``value`` if it is a finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadLine(f"{key} is {value!r}; expected a number, 0 or more")
    if not 0 <= value <= MAX_CLOCK:
        raise BadLine(f"{key} is {value!r:.24}; expected a number from 0 to {MAX_CLOCK:.0e}")
    return value


def ids(value: Any, key: str) -> array[int]:
    """Return a list of 64-bit integers as a compact array."""
    if not isinstance(value, list):
        raise BadLine(f"{key} is {value!r:.40}; expected a list of integers")
    try:
        return array("q", value)
    except (TypeError, OverflowError):
        raise BadLine(f"{key} holds something that is not a 64-bit integer") from None


def token_ids(value: Any, key: str, *, count: int, count_key: str) -> array[int]:
    """Return token ids, one per token of a prompt or output of ``count`` tokens."""
    found = ids(value, key)
    if len(found) != count:
        raise BadLine(f"{key} has {len(found)} ids; expected {count} ({count_key})")
    return found


def hash_chunks(value: Any, *, tokens: int, hash_tokens: int) -> array[int]:
    """Return hash ids, one per started chunk of ``hash_tokens`` of a prompt of ``tokens``."""
    found = ids(value, "hash_ids")
    wanted = -(-tokens // hash_tokens)
    if len(found) != wanted:
        raise BadLine(
            f"hash_ids has {len(found)} ids; expected {wanted} "
            f"({tokens} prompt tokens in chunks of {hash_tokens})"
        )
    return found


def text(value: Any, key: str) -> str:
    """Return ``value`` if it is a string."""
    if not isinstance(value, str):
        raise BadLine(f"{key} is {value!r}; expected a string")
    return value


def need(row: Mapping[str, Any], key: str) -> Any:
    """Return a required key of a row."""
    try:
        return row[key]
    except KeyError:
        raise BadLine(f"key {key!r} is missing{did_you_mean(key, row)}") from None


def refuse_unknown(row: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse keys that the format does not have."""
    for key in row:
        if key not in known:
            raise BadLine(f"unknown key {key!r}{did_you_mean(key, known)}")
