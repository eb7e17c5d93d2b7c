"""One request of a workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MultimodalItem:
    """An image, clip or recording whose embeddings stand in for tokens of a prompt.

    Attributes:
        identifier: What it is; equal items have equal identifiers.
        offset_tokens: First token of the prompt that it fills.
        tokens: Tokens that it fills.
    """

    identifier: str
    offset_tokens: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request as a workload states it; what happens to it is the simulator's business.

    Prefix identity is stated in one of two ways: ``hash_ids`` (each stands for ``hash_tokens``
    consecutive prompt tokens; equal leading ids mean equal leading tokens) or ``prompt_ids``
    (the token ids themselves). A request with neither shares nothing with any other.

    Attributes:
        arrival_ms: Arrival since the workload's start.
        prompt_tokens: Tokens of the prompt, at least 1.
        output_tokens: Tokens that will be generated, at least 1.
        hash_ids: Ids of the prompt's chunks, the last one possibly partial.
        hash_tokens: Tokens that one hash id stands for, 0 without ``hash_ids``.
        prompt_ids: Token ids of the prompt (any integer sequence, ``array`` or numpy included).
        output_ids: Token ids of the output, when the trace has them.
        parent: Index of the request this one forks from (agent trees), ``None`` otherwise.
        salt: Cache salt; requests with different salts share nothing.
        lora: Adapter identity; requests of different adapters share nothing.
        multimodal: Items of the prompt in order, none inside another. Token ids and hash ids say
            nothing about them: prompts are alike from an item on only if the item is the same
            and lies at the same place.
    """

    arrival_ms: float
    prompt_tokens: int
    output_tokens: int
    hash_ids: Sequence[int] = ()
    hash_tokens: int = 0
    prompt_ids: Sequence[int] | None = None
    output_ids: Sequence[int] | None = None
    parent: int | None = None
    salt: str = ""
    lora: str = ""
    multimodal: tuple[MultimodalItem, ...] = ()
