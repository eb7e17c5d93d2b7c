"""The interface of step-time models, and the two that need no device."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Protocol

from kvbench.errors import KvbenchError
from kvbench_pool.step_time.work import StepWork


class StepTime(Protocol):
    """How long a step lasts. A new model is one class with these three members."""

    @property
    def name(self) -> str:
        """What ``step_time`` selects it by."""

    def seconds(self, work: StepWork) -> float:
        """Return the simulated seconds of a step that does ``work`` on at least one request."""

    def assumptions(self) -> tuple[str, ...]:
        """Return what the seconds rest on, as sentences for a reader of the results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalSteps:
    """Every step lasts the same, whatever it computes.

    The simulator counts such steps instead of seconds: a request joins at the first step that
    starts at or after its arrival, as in the decision logs of vLLM.

    Attributes:
        step_ms: Milliseconds of a step.
    """

    step_ms: float = 50.0

    @property
    def name(self) -> str:
        """``logical``."""
        return "logical"

    def seconds(self, work: StepWork) -> float:
        """Return the fixed duration."""
        return self.step_ms / 1000

    def assumptions(self) -> tuple[str, ...]:
        """Say that time is counted in steps."""
        return (f"A step is {self.step_ms:g} ms whatever it computes.",)


def clock_model(model: StepTime) -> StepTime | None:
    """Return what a simulated clock runs on, ``None`` where steps are only counted."""
    return None if isinstance(model, LogicalSteps) else model


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredConstants:
    """A line through measured steps.

    ``seconds = base + prefill_token * prefill tokens + decode_request * decode requests +
    context_token * context tokens``: the constants are the user's, fitted to an engine's steps.

    Attributes:
        step_base_s: Seconds of any step.
        prefill_token_s: Seconds per token of a chunk of several tokens.
        decode_request_s: Seconds per request that computes one token.
        context_token_s: Seconds per cached token that attention reads.
    """

    step_base_s: float = 0.0
    prefill_token_s: float = 0.0
    decode_request_s: float = 0.0
    context_token_s: float = 0.0

    def __post_init__(self) -> None:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in values.items():
            if not (value >= 0 and math.isfinite(value)):
                raise KvbenchError(f"{name} is {value}; expected a finite number from 0 up")
        if not any(values.values()):
            raise KvbenchError(f"step time 'measured' needs constants above 0: {', '.join(values)}")

    @property
    def name(self) -> str:
        """``measured``."""
        return "measured"

    def seconds(self, work: StepWork) -> float:
        """Return the value of the line."""
        return (
            self.step_base_s
            + self.prefill_token_s * work.prefill_tokens
            + self.decode_request_s * work.decode_requests
            + self.context_token_s * work.context_tokens
        )

    def assumptions(self) -> tuple[str, ...]:
        """State the line and whose constants they are."""
        return (
            f"A step lasts {self.step_base_s:g} s + {self.prefill_token_s:g} s per prefill token "
            f"+ {self.decode_request_s:g} s per decoding request + {self.context_token_s:g} s per "
            "cached token read; the constants are as stated, and nothing here measured them.",
        )
