"""The roofline of a step: its arithmetic or its memory traffic, whichever takes longer.

Williams, Waterman and Patterson, "Roofline" (CACM 52(4), 2009), over a whole step instead of one
kernel. The arithmetic of a dense layer is 2 FLOPs per parameter and token (Kaplan et al., 2020,
table 1); what attention adds, and the bytes, are derived in ``docs/step_time.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvbench_pool.step_time.work import StepWork


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCost:
    """Layers whose queries see equally far, summed, on one rank.

    Attributes:
        window_tokens: Tokens that a query sees, ``None`` for all.
        bytes_per_token: Cache bytes of one token.
        prefill_flops_per_pair: FLOPs of a query-key pair in a chunk of several tokens.
        decode_flops_per_pair: FLOPs of a pair in a chunk of one token.
    """

    window_tokens: int | None
    bytes_per_token: float
    prefill_flops_per_pair: float
    decode_flops_per_pair: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightCost:
    """Weights on one rank, and the arithmetic of a token in them.

    Attributes:
        always_bytes: Bytes that every step reads.
        expert_bytes: Bytes of the routed experts, of which a step reads those it visits.
        visited_share: Share of the routed experts that one token visits.
        flops_per_token: FLOPs of one token, experts that it does not visit left out.
    """

    always_bytes: int
    expert_bytes: int = 0
    visited_share: float = 1.0
    flops_per_token: float

    def read_bytes(self, tokens: int) -> float:
        """Return the bytes that a step of ``tokens`` tokens reads.

        An expert stays unread with probability ``(1 - visited_share) ** tokens`` when tokens
        choose their experts evenly and independently.
        """
        if not self.expert_bytes:
            return self.always_bytes
        unread = (1 - self.visited_share) ** tokens
        return self.always_bytes + self.expert_bytes * (1 - unread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """``seconds = max(FLOPs / flops_per_s, bytes / bytes_per_s) + overhead_s`` on one rank.

    Attributes:
        flops_per_s: FLOP/s that are reached.
        weight_speedup: How many times as fast products with the weights are (fp8).
        bytes_per_s: Bytes/s that are reached.
        overhead_s: Seconds of any step beside both.
        weights: What the weights cost.
        attention: What attention costs, by how far its queries see.
        request_bytes: Bytes of fixed-size state that a request reads and writes.
        notes: What the figures rest on.
    """

    flops_per_s: float
    weight_speedup: float = 1.0
    bytes_per_s: float
    overhead_s: float
    weights: WeightCost
    attention: tuple[AttentionCost, ...]
    request_bytes: int = 0
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """``roofline``."""
        return "roofline"

    def seconds(self, work: StepWork) -> float:
        """Return the longer of the two times, and the overhead."""
        flops, size = self.cost(work)
        flops -= self.weights.flops_per_token * work.new_tokens * (1 - 1 / self.weight_speedup)
        return max(flops / self.flops_per_s, size / self.bytes_per_s) + self.overhead_s

    def cost(self, work: StepWork) -> tuple[float, float]:
        """Return the FLOPs and the bytes of a step."""
        tokens = work.new_tokens
        flops = self.weights.flops_per_token * tokens
        size = self.weights.read_bytes(tokens) + self.request_bytes * work.requests
        for layers in self.attention:
            done = work.attention(layers.window_tokens)
            size += layers.bytes_per_token * done.read_tokens
            flops += layers.prefill_flops_per_pair * done.prefill_pairs
            flops += layers.decode_flops_per_pair * done.decode_pairs
        return flops, size

    def assumptions(self) -> tuple[str, ...]:
        """Return what the figures rest on."""
        return self.notes
