"""Sizes in and out of words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvbench.quantity import QuantityError, format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (7, 7),
        ("7", 7),
        ("8GiB", 8 * 2**30),
        ("8 gib", 8 * 2**30),
        ("8G", 8 * 2**30),
        ("80GB", 80 * 10**9),
        ("1.5KiB", 1536),
        ("1_073_741_824", 2**30),
        ("25,250,627,584 B", 25_250_627_584),
        (".5 MiB", 2**19),
    ],
)
def test_sizes_are_read(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1e9", "8 GiBs", "1 2", "nan", "٣GiB", -1, True])
def test_what_is_no_size_is_refused(text: str | int) -> None:
    with pytest.raises(QuantityError):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (2**30 - 1, "1,024.00 MiB"),
        (8 * 2**30, "8.00 GiB"),
        (-(2**30), "-1.00 GiB"),
        (5000 * 2**50, "5,000.00 PiB"),
    ],
)
def test_sizes_are_written(size: int, text: str) -> None:
    assert format_bytes(size) == text


@given(st.integers(min_value=0, max_value=2**60))
def test_writing_and_reading_agree_to_the_digits_shown(size: int) -> None:
    assert abs(parse_bytes(format_bytes(size)) - size) <= size * 0.005
