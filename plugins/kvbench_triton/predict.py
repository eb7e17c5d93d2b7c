"""Bytes and operations of one decode step, before it runs.

Bytes are those that have to cross the device's memory bus once: the visible K and V with their
scales, queries, outputs, block tables and, when sequences are split, the partial results written
and read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvbench_triton.plan import WorkPlan
from kvbench_triton.shape import KV_ITEM_BYTES, DecodeShape

_ID_BYTES = 4
_PARTIAL_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes moved by one decode step of one layer.

    Attributes:
        kv_bytes: Visible K and V, scales included.
        query_bytes: Queries.
        output_bytes: Outputs.
        table_bytes: Block ids that are read.
        partial_bytes: Partial results, written and read.
        flops: Multiplications and additions of both matrix products.
    """

    kv_bytes: int
    query_bytes: int
    output_bytes: int
    table_bytes: int
    partial_bytes: int
    flops: int

    @property
    def moved_bytes(self) -> int:
        """All bytes together."""
        return (
            self.kv_bytes
            + self.query_bytes
            + self.output_bytes
            + self.table_bytes
            + self.partial_bytes
        )

    def floor_s(self, bandwidth_bytes_per_s: float, flops_per_s: float = 0.0) -> float:
        """Roofline floor: the longer of moving the bytes and, if a rate is given, the products."""
        compute = self.flops / flops_per_s if flops_per_s else 0.0
        return max(self.moved_bytes / bandwidth_bytes_per_s, compute)


def predict_traffic(shape: DecodeShape, lengths: Sequence[int], plan: WorkPlan) -> Traffic:
    """Predict one step over sequences of ``lengths`` tokens."""
    visible = sum(map(shape.visible, lengths))
    item = KV_ITEM_BYTES[shape.query_dtype]
    heads = len(lengths) * shape.query_heads
    partial = len(plan.items) * shape.query_heads * (shape.head_dim_v + 1) * _PARTIAL_BYTES
    return Traffic(
        kv_bytes=visible * shape.token_bytes,
        query_bytes=heads * shape.head_dim_k * item,
        output_bytes=heads * shape.head_dim_v * item,
        table_bytes=_ID_BYTES * sum(_pages(shape, length) for length in lengths),
        partial_bytes=2 * partial if plan.split else 0,
        flops=2 * visible * shape.query_heads * (shape.head_dim_k + shape.head_dim_v),
    )


def _pages(shape: DecodeShape, length: int) -> int:
    """Pages that hold visible tokens."""
    first = (length - shape.visible(length)) // shape.page_size
    return -(-length // shape.page_size) - first
