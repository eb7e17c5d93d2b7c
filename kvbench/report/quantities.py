"""Numbers in words: binary prefixes, thousands separators, percentages. Display only."""

from __future__ import annotations

import math

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_DECIMAL_RATE = ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s")
_NOUNS = {"tokens": "token", "blocks": "block", "requests": "request"}


def in_words(value: float | None, unit: str) -> str:
    """Return ``value`` with its unit, as a reader would say it; ``None`` is a dash.

    Args:
        value: A number in ``unit``.
        unit: Unit of the metric registry; an unknown one is written behind the number.
    """
    if value is None or not math.isfinite(value):
        return "–"
    if unit in _WORDED:
        return _WORDED[unit](value)
    noun = _NOUNS.get(unit, unit) if value == 1 else unit
    return plain_number(value) if unit in {"count", ""} else f"{plain_number(value)} {noun}"


def plain_number(value: float) -> str:
    """Return a number without a unit: whole with separators, else four significant digits."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def binary(value: float) -> str:
    """Return bytes with the largest binary prefix, four significant digits, no padding."""
    return _prefixed(value, 1024, _BINARY)


def percent(value: float) -> str:
    """Return a share as a percentage."""
    share = value * 100
    if share == 0 or abs(share) >= 100:
        return f"{share:.0f} %"
    return f"{share:.3g} %"


def times(ratio: float) -> str:
    """Return a ratio as a factor: ``0.25×``."""
    return f"{ratio:.4g}×"


def interval(low: float, high: float, unit: str) -> str:
    """Return ``low`` to ``high``, or one number when both read the same."""
    first, last = in_words(low, unit), in_words(high, unit)
    if first == last:
        return last
    return f"{first.rsplit(' ', 1)[0] if _same_unit(first, last) else first}–{last}"


def seconds(value: float) -> str:
    """Return a duration with the prefix that keeps it readable."""
    size = abs(value)
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1, 1e3, "ms"), (300, 1, "s")):
        if size < limit:
            return f"{value * factor:.4g} {unit}"
    return f"{value / 60:.4g} min"


def _rate(value: float) -> str:
    return _prefixed(value, 1000, _DECIMAL_RATE)


def _prefixed(value: float, base: int, names: tuple[str, ...]) -> str:
    step = 0
    while abs(value) >= base and step < len(names) - 1:
        value, step = value / base, step + 1
    number = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{number} {names[step]}"


def _same_unit(first: str, last: str) -> bool:
    return " " in first and first.rsplit(" ", 1)[1] == last.rsplit(" ", 1)[-1]


_WORDED = {
    "bytes": binary,
    "bytes_per_token": lambda value: f"{binary(value)}/token",
    "bytes_per_s": _rate,
    "tokens_per_s": lambda value: f"{plain_number(value)} tokens/s",
    "ratio": percent,
    "s": seconds,
}
