from __future__ import annotations

import pytest

from kvbench.report.quantities import binary, in_words, interval, percent, seconds


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (536_870_912, "bytes", "512 MiB"),
        (538_968_064, "bytes", "514 MiB"),
        (1023, "bytes", "1,023 B"),
        (1_073_741_824, "bytes", "1 GiB"),
        (0, "bytes", "0 B"),
        (131_072, "bytes_per_token", "128 KiB/token"),
        (1, "blocks", "1 block"),
        (257, "blocks", "257 blocks"),
        (10.25, "requests", "10.25 requests"),
        (4096, "tokens", "4,096 tokens"),
        (12 / 4112, "ratio", "0.292 %"),
        (0.0, "ratio", "0 %"),
        (3.35e12, "bytes_per_s", "3.35 TB/s"),
        (7, "count", "7"),
        (2.5, "furlongs", "2.5 furlongs"),
        (None, "bytes", "–"),
        (float("nan"), "bytes", "–"),
    ],
)
def test_numbers_read_as_a_person_would_say_them(value, unit, words):
    assert in_words(value, unit) == words


def test_an_interval_names_its_unit_once():
    assert interval(41, 47, "requests") == "41–47 requests"
    assert interval(512 * 1024, 2**20, "bytes") == "512 KiB–1 MiB"
    assert interval(3, 3, "blocks") == "3 blocks"


def test_prefixes_stay_readable():
    assert binary(1000 * 2**30) == "1,000 GiB"
    assert percent(1.25) == "125 %"
    assert seconds(0.0000015) == "1.5 µs"
    assert seconds(0.25) == "250 ms"
    assert seconds(12) == "12 s"
    assert seconds(600) == "10 min"
