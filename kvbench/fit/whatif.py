"""What changes when one setting changes: tables, break-even points, the smallest devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from kvbench.device.spec import DeviceSpec
from kvbench.errors import KvbenchError
from kvbench.fit.answer import Answer, answer
from kvbench.fit.question import Question

#: Values tried on each axis beside the question's own.
AXES: dict[str, tuple[Any, ...]] = {
    "kv_dtype": ("auto", "fp8_e4m3"),
    "block_size": (16, 32, 64, 128),
    "tp": (1, 2, 4, 8),
    "context": (2048, 4096, 8192, 16384, 32768, 65536, 131072),
}
#: Ranks tried for the smallest devices.
RANKS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The question with one setting changed.

    Attributes:
        axis: The setting.
        value: Its value.
        answer: The answer, ``None`` when it is refused.
        refusal: Why it is refused, empty otherwise.
        is_asked: The value is the question's own.
    """

    axis: str
    value: Any
    answer: Answer | None
    refusal: str = ""
    is_asked: bool = False


def alternatives(question: Question, axes: Iterable[str]) -> Iterator[Alternative]:
    """Yield the question's answers along each of ``axes``, one setting changed at a time."""
    for axis in axes:
        own = question.request_tokens if axis == "context" else getattr(question, axis)
        limit = question.model.max_context_tokens
        tried = {*AXES[axis], *([] if own is None else [own])}
        values = sorted(tried, key=lambda value: (isinstance(value, str), value))
        for value in values:
            if axis == "context" and limit is not None and value > limit:
                continue
            yield _alternative(question, axis, value, is_asked=value == own)


def _alternative(question: Question, axis: str, value: Any, *, is_asked: bool) -> Alternative:
    changes: dict[str, Any] = {axis: value}
    if axis == "tp":
        changes["gpus"] = 0
    try:
        found = answer(replace(question, **changes))
    except KvbenchError as error:
        return Alternative(
            axis=axis, value=value, answer=None, refusal=str(error), is_asked=is_asked
        )
    return Alternative(axis=axis, value=value, answer=found, is_asked=is_asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """Where the verdict changes.

    Attributes:
        knob: What is turned.
        value: Where the requests asked for begin or cease to fit, ``None`` when they never do.
        meaning: One sentence.
    """

    knob: str
    value: float | int | None
    meaning: str


def break_even(found: Answer) -> tuple[BreakEven, ...]:
    """Points at which the requests asked for begin or cease to fit, by the expected budget."""
    question = found.question
    asked = f"{question.concurrency:,} requests"
    points = [
        BreakEven(
            knob="context",
            value=found.max_context_tokens.expected,
            meaning=f"longest request of which {asked} run at once",
        ),
        BreakEven(
            knob="utilization",
            value=least_utilization(question),
            meaning=f"least utilization at which {asked} of {question.request_tokens:,} tokens fit",
        ),
    ]
    if question.kv_dtype in ("auto", "bf16", "fp16"):
        points += _eight_bits(question, asked)
    return tuple(points)


def _eight_bits(question: Question, asked: str) -> list[BreakEven]:
    try:
        eight = answer(replace(question, kv_dtype="fp8_e4m3"))
    except KvbenchError as error:
        return [BreakEven(knob="kv_dtype fp8_e4m3", value=None, meaning=f"refused: {error}")]
    return [
        BreakEven(
            knob="context with kv_dtype fp8_e4m3",
            value=eight.max_context_tokens.expected,
            meaning=f"longest request of which {asked} run at once with 8-bit elements",
        )
    ]


def least_utilization(question: Question) -> float | None:
    """Smallest utilization, to a thousandth, at which the requests asked for fit."""

    def fits(utilization: float) -> bool:
        found = answer(replace(question, utilization=utilization))
        return found.requests.expected >= question.concurrency

    if not fits(1.0):
        return None
    low, high = 0, 1000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle / 1000) else (middle, high)
    return high / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Devices that hold what was asked for.

    Attributes:
        device: The device.
        tp: Ranks.
        answer: The answer.
        certain: It fits even at the low end of the budget.
    """

    device: DeviceSpec
    tp: int
    answer: Answer
    certain: bool


def smallest(question: Question, devices: Iterable[DeviceSpec]) -> tuple[Candidate, ...]:
    """Devices and ranks on which the question fits, least memory in all first.

    Of each device only the fewest ranks that do are listed.
    """
    found = [
        candidate for device in devices if (candidate := _fewest(question, device)) is not None
    ]
    return tuple(sorted(found, key=lambda each: (each.tp * each.device.memory_bytes, each.tp)))


def _fewest(question: Question, device: DeviceSpec) -> Candidate | None:
    for tp in RANKS:
        try:
            found = answer(replace(question, device=device, tp=tp, pp=1, gpus=0))
        except KvbenchError:
            continue
        if found.requests.expected >= question.concurrency:
            return Candidate(device=device, tp=tp, answer=found, certain=found.fits)
    return None
