"""Bytes as people write and read them: binary prefixes at the edges, integers in between."""

from __future__ import annotations

import re
from fractions import Fraction

from kvbench.errors import KvbenchError

#: Bytes per unit. "GB" is decimal here, as on a datasheet; engines' logs that say GB mean GiB.
UNITS = {
    "": 1,
    "b": 1,
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgtp", 1)},
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgtp", 1)},
    **{prefix: 1024**power for power, prefix in enumerate("kmgtp", 1)},
}
_QUANTITY = re.compile(r"\s*([0-9][0-9_,]*(?:\.[0-9]+)?|\.[0-9]+)\s*([A-Za-z]*)\s*\Z")
_PREFIXES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


class QuantityError(KvbenchError):
    """A size that cannot be read."""


def parse_bytes(text: str | int) -> int:
    """Return the bytes that ``text`` states.

    Args:
        text: An integer, or a number with a unit: ``8GiB``, ``8G`` (binary), ``80GB`` (decimal),
            ``512 MiB``, ``1_073_741_824``.

    Raises:
        QuantityError: Not a size, or not a whole number of bytes to within one.
    """
    if isinstance(text, bool):
        raise QuantityError(f"expected a size such as 8GiB, got {text!r}")
    if isinstance(text, int):
        return _not_negative(text)
    match = _QUANTITY.match(text) if isinstance(text, str) else None
    if match is None or match[2].lower() not in UNITS:
        raise QuantityError(f"expected a size such as 8GiB, 80GB or 8589934592, got {text!r}")
    number = Fraction(match[1].replace("_", "").replace(",", ""))
    return int(number * UNITS[match[2].lower()])


def format_bytes(value: int) -> str:
    """Return ``value`` with the largest binary prefix that leaves a number of at least 1."""
    sign, size = ("-", -value) if value < 0 else ("", value)
    step = max(0, min((size.bit_length() - 1) // 10, len(_PREFIXES) - 1))
    if step == 0:
        return f"{sign}{size} B"
    return f"{sign}{size / 1024**step:,.2f} {_PREFIXES[step]}"


def gib(value: int) -> float:
    """Return ``value`` bytes in GiB."""
    return value / 2**30


def _not_negative(value: int) -> int:
    if value < 0:
        raise QuantityError(f"a size is not negative, got {value}")
    return value
