"""A request under way in the batched simulator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from kvbench.workload.request import Request
from kvbench_pool.digest import scheduled_part
from kvbench_pool.vllm_policy.config import PoolConfig
from kvbench_pool.vllm_policy.free_blocks import NO_BLOCKS, Blocks, FreeBlocks
from kvbench_pool.vllm_policy.prefix_keys import Keys, PrefixKeys, renumbered
from kvbench_pool.vllm_policy.simulation import Counts, RequestRecord


@dataclass(slots=True, eq=False)
class Flow:
    """A request and how far it has come.

    While it decodes it computes one token per step, so that its progress follows from the step:
    ``lead + k`` tokens are computed before step ``k``.

    Attributes:
        index: Place of the request in the workload, from 0.
        request: The request.
        arrive_step: Step from which it can run.
        total_tokens: Prompt and output together.
        known: Known tokens at its last admission.
        computed: Tokens computed while its prompt is being worked on.
        lead: Tokens computed before step 0, had it decoded since then.
        keys: Keys of its leading blocks that others (or itself, later) could find.
        keyed_blocks: How many keys there are; they cover the output if it is keyed.
        is_keyed_to_end: The blocks of its output have keys as well.
        table: Room for all its blocks; the leading ``held`` ones are taken for the prompt.
        held: Blocks taken for the prompt.
        tail: Blocks taken while decoding.
        finish_step: Step in which it ends if nothing intervenes, -1 before it decodes.
    """

    index: int
    request: Request
    arrive_step: int
    total_tokens: int
    known: int
    keys: Keys | None = None
    keyed_blocks: int = 0
    is_keyed_to_end: bool = False
    computed: int = 0
    lead: int = 0
    table: Blocks = field(default_factory=lambda: NO_BLOCKS)
    held: int = 0
    tail: list[int] = field(default_factory=list)
    finish_step: int = -1
    first_step: int = -1
    hit_tokens: int = 0
    rehit_tokens: int = 0
    preemptions: int = 0

    @property
    def num_blocks(self) -> int:
        """Blocks held now."""
        return self.held + len(self.tail)

    def block(self, place: int) -> int:
        """Return one block of the table."""
        ahead = place - self.held
        return self.tail[ahead] if ahead >= 0 else int(self.table[place])

    def blocks(self) -> Blocks:
        """Return all blocks held."""
        end = self.num_blocks
        self.table[self.held : end] = self.tail
        return self.table[:end]

    def record(self) -> RequestRecord:
        """Return what happened to the request, once it has ended."""
        return RequestRecord(
            index=self.index,
            prompt_tokens=self.request.prompt_tokens,
            output_tokens=self.request.output_tokens,
            arrive_step=self.arrive_step,
            first_step=self.first_step,
            finish_step=self.finish_step,
            hit_tokens=self.hit_tokens,
            preemptions=self.preemptions,
            rehit_tokens=self.rehit_tokens,
            blocks=self.num_blocks,
        )


#: A part of a prompt computed in a step: the request, its tokens, those computed before.
Chunk: TypeAlias = tuple[Flow, int, int]


def flows(requests: Iterable[Request], config: PoolConfig, counts: Counts) -> Iterator[Flow]:
    """Yield the requests that can fit as they come; count them and the others."""
    last, most = 0, config.most_tokens
    for index, request in enumerate(requests):
        total = request.prompt_tokens + request.output_tokens
        if total > most:
            counts.dropped += 1
            continue
        counts.requests += 1
        last = max(last, config.arrival_step(request.arrival_ms))
        yield Flow(index, request, last, total, request.prompt_tokens)


def forget_prefixes(prefixes: PrefixKeys, free: FreeBlocks, flows_left: Iterable[Flow]) -> None:
    """Forget the prefixes that are neither cached nor asked for, so that memory is bounded."""
    keyed = [flow for flow in flows_left if flow.keys is not None]
    named = [flow.keys for flow in keyed if flow.keys is not None]
    stay = prefixes.forget(np.unique(np.concatenate((free.live_keys(), *named))))
    free.renumber(stay)
    for flow, keys in zip(keyed, named, strict=True):
        flow.keys = renumbered(keys, stay)


def step_parts(
    config: PoolConfig,
    step: int,
    running: Iterable[Flow],
    prefilling: Flow | None,
    chunks: Sequence[Chunk],
) -> list[str]:
    """Return a step's scheduled requests in order, as a digest takes them.

    Args:
        config: Pool and scheduler.
        step: The step, its blocks taken and its tokens not yet counted.
        running: Running requests in order of admission.
        prefilling: The one whose prompt was under way when the step began.
        chunks: Parts of prompts computed in the step.
    """
    size, ahead = config.block_size, config.lookahead_tokens
    in_prompt = {flow for flow, _, _ in chunks} | {prefilling}
    parts = []
    for flow in running:
        if flow in in_prompt:
            continue
        computed = flow.lead + step
        new = [flow.tail[-1]] if (computed + ahead) % size == 0 else []
        parts.append(scheduled_part(flow.index, 1, computed, [new]))
    for flow, tokens, computed in chunks:
        before = -(-(computed + ahead) // size) if flow is prefilling else 0
        new = flow.table[before : flow.held].tolist()
        parts.append(scheduled_part(flow.index, tokens, computed, [new]))
    return parts
