"""Conversations: every turn's prompt repeats all that was said before it."""

from __future__ import annotations

import heapq
import itertools
import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvbench.workload.arrivals import arrival_times
from kvbench.workload.lengths import log_normal_tokens
from kvbench.workload.request import Request
from kvbench.workload.seeds import stream
from kvbench.workload.spec import WorkloadSpec


@dataclass(slots=True, order=True)
class _Conversation:
    """A conversation that waits for its next turn; ordered by (next turn, start)."""

    next_ms: float
    ordinal: int
    history: array[int]
    turns_left: int


class _Speakers:
    """Draws what users and the model say, as token ids that nobody else says."""

    def __init__(self, params: dict[str, Any], seed: int) -> None:
        self._fresh = itertools.count()
        self.system = self.say(params.get("system_tokens", 0))
        self._prompts, self._outputs = (
            log_normal_tokens(
                stream(seed, side), median=params[f"{side}_tokens"], sigma=params[f"{side}_sigma"]
            )
            for side in ("prompt", "output")
        )

    def say(self, tokens: int) -> array[int]:
        """Return ``tokens`` fresh token ids."""
        return array("q", itertools.islice(self._fresh, tokens))

    def turn(self, conversation: _Conversation) -> Request:
        """Take one turn: the history grows by the user's text and the model's answer."""
        history = conversation.history
        history.extend(self.say(next(self._prompts)))
        prompt = history[:]
        output = self.say(next(self._outputs))
        history.extend(output)
        conversation.turns_left -= 1
        return Request(
            arrival_ms=conversation.next_ms,
            prompt_tokens=len(prompt),
            output_tokens=len(output),
            prompt_ids=prompt,
            output_ids=output,
        )


def multi_turn(spec: WorkloadSpec, seed: int) -> Iterator[Request]:
    """Yield the turns of all conversations in order of arrival.

    Conversations start by the arrival process; the gap to the next turn is exponential. In
    memory are the conversations under way, not the finished ones.
    """
    params: dict[str, Any] = dict(spec.params)
    speakers = _Speakers(params, seed)
    think = stream(seed, spec.kind, "think")
    starts = itertools.islice(arrival_times(spec, seed), params["conversations"])
    waiting: list[_Conversation] = []
    for ordinal, start_ms in enumerate(starts):
        yield from _turns_until(start_ms, waiting, speakers, think, params["think_s"])
        fresh = _Conversation(start_ms, ordinal, speakers.system[:], params["turns"])
        heapq.heappush(waiting, fresh)
    yield from _turns_until(float("inf"), waiting, speakers, think, params["think_s"])


def _turns_until(
    limit_ms: float,
    waiting: list[_Conversation],
    speakers: _Speakers,
    think: random.Random,
    think_s: float,
) -> Iterator[Request]:
    while waiting and waiting[0].next_ms < limit_ms:
        conversation = heapq.heappop(waiting)
        yield speakers.turn(conversation)
        if conversation.turns_left:
            conversation.next_ms += think.expovariate(1.0) * think_s * 1000
            heapq.heappush(waiting, conversation)
