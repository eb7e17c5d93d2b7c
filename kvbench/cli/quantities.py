"""Amounts as people type and read them: bytes with suffixes, lists of token counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    _IntType = click.ParamType[int]
    _IntsType = click.ParamType[tuple[int, ...]]
    _NamesType = click.ParamType[tuple[str, ...]]
else:
    _IntType = _IntsType = _NamesType = click.ParamType

_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?i?b?)\Z", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_MAX_BYTES = 1 << 60
_MAX_COUNT = 1 << 30


class ByteSize(_IntType):
    """A number of bytes: ``8GiB``, ``80GB``, ``512M`` (binary without the B), ``8589934592``."""

    name = "bytes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the bytes as an ``int``."""
        if isinstance(value, int):
            return value
        try:
            return parse_bytes(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Counts(_IntsType):
    """One count or several with commas: ``8192`` or ``4096,8192,128k`` (k = 1024)."""

    name = "count[,count…]"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the counts, or a range ``start:stop:step`` expanded."""
        if isinstance(value, tuple):
            return value
        try:
            found = tuple(count for part in str(value).split(",") for count in _counts(part))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return tuple(dict.fromkeys(found))


class Names(_NamesType):
    """One name or several with commas."""

    name = "name[,name…]"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the names."""
        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(part.strip() for part in str(value).split(",")))
        if not all(names):
            self.fail(f"an empty name in {value!r}", param, ctx)
        return names


def parse_bytes(text: str) -> int:
    """Bytes of ``text``; Ki, Mi … and bare K, M … are powers of 1024, KB, MB … of 1000.

    Raises:
        ValueError: Not an amount of bytes, or an absurd one.
    """
    match = _BYTES.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an amount of bytes; write 8GiB, 80GB or 8589934592")
    number, unit = match.group(1), match.group(2).lower()
    decimal = unit.endswith("b") and not unit.endswith("ib") and unit != "b"
    power = _POWERS[unit.rstrip("b").rstrip("i")]
    scale: int = (1000 if decimal else 1024) ** power
    size = int(number) * scale if "." not in number else round(float(number) * scale)
    if not 0 < size <= _MAX_BYTES:
        raise ValueError(f"{text!r} is out of range; expected between 1 byte and 1 EiB")
    return size


def show_bytes(size: float) -> str:
    """``size`` with a binary prefix: ``512.0 MiB``; exact bytes below 1 KiB."""
    if abs(size) < 1024:
        return f"{size:g} B"
    value = float(size)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if abs(value) < 1024:
            return f"{value:,.2f} {unit}"
    return f"{value / 1024:,.2f} PiB"


def _counts(part: str) -> Sequence[int]:
    pieces = [_count(piece) for piece in part.split(":")]
    if len(pieces) == 1:
        return pieces
    if len(pieces) != 3:
        raise ValueError(f"{part!r}: a range is start:stop:step")
    start, stop, step = pieces
    if stop < start or (stop - start) // step > 1_000_000:
        raise ValueError(f"{part!r}: a range goes up, in at most 1,000,000 steps")
    return range(start, stop + 1, step)


def _count(text: str) -> int:
    bare = text.strip().lower().replace("_", "")
    scale = 1024 if bare.endswith("k") else 1 << 20 if bare.endswith("m") else 1
    digits = bare[:-1] if scale > 1 else bare
    if not digits.isascii() or not digits.isdigit():
        raise ValueError(f"{text.strip()!r} is not a count; write 8192, 8k or 4096,8192")
    value = int(digits) * scale
    if not 1 <= value <= _MAX_COUNT:
        raise ValueError(f"{text.strip()!r} must be between 1 and {_MAX_COUNT:,}")
    return value
