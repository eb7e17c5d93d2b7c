"""A request under way in the step-by-step scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """A request and how far it has come.

    Attributes:
        index: Place of the request in the workload, from 0.
        prompt_tokens: Tokens of the prompt.
        output_tokens: Tokens to generate.
        keys: Prefix keys of all full blocks, output included.
        arrive_step: Step from which it can run.
        known: Tokens whose values are known: the prompt and what was sampled.
        computed: Tokens scheduled so far, those in flight included.
        placeholders: Output tokens that are scheduled but not yet known (async).
        in_flight: Tokens scheduled but not yet settled.
        stale: Share of ``in_flight`` that was scheduled before a preemption.
        preemptions: Times it lost its blocks.
        reached: Tokens computed when it last lost them.
        first_step: Step in which it was first scheduled, -1 before.
        hit_tokens: Prompt tokens found at its first admission.
        rehit_tokens: Tokens found when it came back after preemptions.
        requery_tokens: Tokens looked up then.
        finish_step: Step in which it ended, -1 before.
        arrive_s: Simulated seconds at which it arrives.
        scheduled_s: When it was first scheduled, -1 before or where only steps are counted.
        first_token_s: When its first token was there, -1 likewise.
        parting_tokens: Where it left the longest prefix that any cache group knew, if the groups
            together knew less; 0 otherwise.
    """

    index: int
    prompt_tokens: int
    output_tokens: int
    keys: Sequence[int]
    arrive_step: int
    known: int
    computed: int = 0
    placeholders: int = 0
    in_flight: int = 0
    stale: int = 0
    preemptions: int = 0
    reached: int = 0
    first_step: int = -1
    hit_tokens: int = 0
    rehit_tokens: int = 0
    requery_tokens: int = 0
    finish_step: int = -1
    arrive_s: float = 0.0
    scheduled_s: float = -1.0
    first_token_s: float = -1.0
    parting_tokens: int = 0

    @property
    def is_done(self) -> bool:
        """Whether all output tokens are known."""
        return self.known == self.prompt_tokens + self.output_tokens

    @property
    def last_token_in_flight(self) -> bool:
        """Whether what is scheduled already ends the request."""
        if not self.placeholders:
            return False
        ahead = self.computed + 2 - self.placeholders
        return ahead >= self.prompt_tokens + self.output_tokens
