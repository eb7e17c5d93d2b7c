"""The memory ladder and the timing, with figures injected."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvbench_triton import timing
from kvbench_triton.memory import (
    LEVELS,
    MemoryLadder,
    contradictions,
    decompose,
    explain,
    table,
)

FULL = MemoryLadder(
    moment="full",
    device=100,
    process=90,
    reserved=80,
    allocated=72,
    requested=70,
    kv_tensor=64,
    used_blocks=32,
    live_tokens=30,
)


def test_decomposition_names_every_step():
    assert decompose(FULL) == {
        "other processes and the driver": 10,
        "device context, kernels and libraries": 10,
        "cached by the allocator, free for reuse": 8,
        "rounding of the allocator": 2,
        "tensors other than the cache": 6,
        "free blocks of the pool": 32,
        "unfilled slots of last blocks": 2,
    }


@given(st.sampled_from(LEVELS))
def test_unknown_levels_make_their_steps_unknown_and_nothing_else(level):
    steps = decompose(replace(FULL, **{level: None}))
    edge = level in (LEVELS[0], LEVELS[-1])
    assert sum(value is None for value in steps.values()) == (1 if edge else 2)


def test_steps_add_up_to_the_whole():
    assert sum(decompose(FULL).values()) + FULL.live_tokens == FULL.device


def test_levels_that_contradict_each_other_are_told():
    assert contradictions(FULL) == ()
    wrong = replace(FULL, process=None, reserved=101)
    assert contradictions(wrong) == ("full: reserved (101 bytes) exceeds device (100 bytes)",)


def test_the_process_stays_while_the_pool_fills():
    empty = replace(FULL, moment="empty", used_blocks=0, live_tokens=0)
    text = explain([empty, FULL])
    assert "moved: used_blocks by +32 bytes, live_tokens by +30 bytes" in text
    assert "unchanged: device, process, reserved, allocated, requested, kv_tensor" in text
    assert "allocated once and stays allocated" in text


def test_a_pool_that_grows_is_not_explained_away():
    empty = replace(FULL, moment="empty", used_blocks=0, live_tokens=0, kv_tensor=0)
    assert "allocated once" not in explain([empty, FULL])


def test_what_nobody_reports_is_a_dash():
    header, row = table([MemoryLadder(moment="now", kv_tensor=5)]).splitlines()
    assert header.split() == ["moment", *LEVELS]
    assert row.split() == ["now", "-", "-", "-", "-", "-", "5", "-", "-"]


class FakeRuntime:
    """Replays take the seconds they are told to."""

    def __init__(self, seconds: list[float]) -> None:
        self.seconds, self.captured = iter(seconds), 0

    def capture(self, launches):
        self.captured = len(launches)
        return lambda: next(self.seconds)


def test_a_sample_is_a_replay_over_its_launches_and_the_first_is_dropped():
    runtime = FakeRuntime([99.0, 4.0, 8.0, 6.0])
    timed = timing.time_launches(runtime, [lambda: None] * 2, replays=3)
    assert runtime.captured == 2
    assert timed.seconds == (2.0, 4.0, 3.0)
    assert timed.median_s == 3.0


@pytest.mark.parametrize(
    ("launch", "l2", "buffers"),
    [(100, 60, 3), (240, 60, 1), (1000, 60, 1), (0, 60, 240), (5, 0, 1)],
)
def test_rotation_exceeds_four_times_the_cache(launch, l2, buffers):
    assert timing.rotation(launch, l2) == buffers


def test_doubts():
    steady = timing.Timing(seconds=(1.0,) * 10)
    assert timing.doubts(steady, (1000, 1000), 100, 0) == ()
    assert timing.doubts(steady, (None, 1000), 100, 100) == ()
    (clock,) = timing.doubts(steady, (2_000_000_000, 1_800_000_000), 100, 0)
    assert clock == "the clock moved from 2000 to 1800 MHz"
    (fast,) = timing.doubts(steady, (None, None), 101, 100)
    assert fast.startswith("faster than the datasheet")
    (spread,) = timing.doubts(timing.Timing(seconds=(1.0, 1.0, 1.0, 2.0)), (None, None), 1, 0)
    assert "spread by" in spread
