"""A real paged cache on a device: one pool for each layer, block ids in any order.

The rows of one token and KV head lie side by side, key first, so K and V are views of one pool
with equal strides. 8-bit caches are quantised before they are written: per KV head for fp8 (or per
tensor, which is the same scale for every head), per token and head for int8.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kvbench_triton.shape import DecodeShape

TORCH_DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "int8": torch.int8,
}
_FP8_MAX = 448.0
_INT8_MAX = 127.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedCache:
    """One layer's pool.

    Attributes:
        shape: What is stored.
        pool: [blocks, page, kv heads, row] in the cache's element type.
        scales: fp8: [kv heads, 2] float32; int8: [blocks, page, kv heads, 2] float32; else empty.
    """

    shape: DecodeShape
    pool: torch.Tensor
    scales: torch.Tensor

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors."""
        return int(self.pool.nbytes + self.scales.nbytes)

    @property
    def keys(self) -> torch.Tensor:
        """[blocks, page, kv heads, head_dim_k]; the whole row for MLA."""
        return self.pool[..., : self.shape.head_dim_k]

    @property
    def values(self) -> torch.Tensor:
        """[blocks, page, kv heads, head_dim_v]; the latent for MLA."""
        first = 0 if self.shape.is_mla else self.shape.head_dim_k
        return self.pool[..., first : first + self.shape.head_dim_v]


def allocate_cache(shape: DecodeShape, blocks: int, device: str) -> PagedCache:
    """Allocate an unfilled pool of ``blocks`` blocks."""
    per_token = (blocks, shape.page_size, shape.kv_heads)
    pool = torch.empty(
        (*per_token, shape.row_elements), dtype=TORCH_DTYPES[shape.kv_dtype], device=device
    )
    scale_shape: tuple[int, ...] = (0,)
    if shape.kv_dtype == "int8":
        scale_shape = (*per_token, 2)
    elif shape.kv_dtype == "fp8_e4m3":
        scale_shape = (shape.kv_heads, 2)
    scales = torch.empty(scale_shape, dtype=torch.float32, device=device)
    return PagedCache(shape=shape, pool=pool, scales=scales)


def shuffled_tables(lengths: Sequence[int], page_size: int, blocks: int, seed: int) -> torch.Tensor:
    """Block tables [sequences, widest] int32 that hand out ``blocks`` ids in random order.

    Entries beyond a sequence's own pages hold -1.

    Raises:
        ValueError: The sequences need more blocks than there are.
    """
    pages = [-(-length // page_size) for length in lengths]
    if sum(pages) > blocks:
        raise ValueError(f"{sum(pages)} blocks needed, {blocks} in the pool")
    ids = list(range(blocks))
    random.Random(seed).shuffle(ids)
    width = -(-max(1, *pages) // 16) * 16
    tables = torch.full((len(lengths), width), -1, dtype=torch.int32)
    for row, count in enumerate(pages):
        tables[row, :count] = torch.tensor(ids[:count], dtype=torch.int32)
        del ids[:count]
    return tables


def slots_of(tables: torch.Tensor, lengths: Sequence[int], page_size: int) -> torch.Tensor:
    """Slot (block id * page size + place) of every token, sequence after sequence, int64."""
    rows = []
    for row, length in enumerate(lengths):
        token = torch.arange(length, dtype=torch.int64)
        rows.append(
            tables[row].cpu().to(torch.int64)[token // page_size] * page_size + token % page_size
        )
    return torch.cat(rows) if rows else torch.empty(0, dtype=torch.int64)


def quantise(rows: torch.Tensor, shape: DecodeShape, scales: torch.Tensor) -> torch.Tensor:
    """Return float rows [tokens, kv heads, row] as the cache stores them.

    Args:
        rows: Key then value of each token and KV head, float32.
        shape: What is stored.
        scales: fp8: [kv heads, 2]; int8: [tokens, kv heads, 2] (see ``token_scales``).
    """
    if shape.kv_dtype not in ("fp8_e4m3", "int8"):
        return rows.to(TORCH_DTYPES[shape.kv_dtype])
    widths = torch.tensor([shape.head_dim_k, shape.head_dim_v], device=rows.device)
    divided = rows / torch.repeat_interleave(scales, widths, dim=-1)
    if shape.kv_dtype == "int8":
        return divided.round().clamp(-_INT8_MAX, _INT8_MAX).to(torch.int8)
    return divided.clamp(-_FP8_MAX, _FP8_MAX).to(torch.float8_e4m3fn)


def token_scales(rows: torch.Tensor, shape: DecodeShape) -> torch.Tensor:
    """Scales [tokens, kv heads, 2] that map each key's and value's largest element to 127."""
    key, value = rows[..., : shape.head_dim_k], rows[..., shape.head_dim_k :]
    peaks = torch.stack([key.abs().amax(-1), value.abs().amax(-1)], dim=-1)
    return peaks.clamp_min(1e-6) / _INT8_MAX


def dequantised(cache: PagedCache) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of the whole pool as float64, scales applied."""
    keys, values = cache.keys.to(torch.float32).double(), cache.values.to(torch.float32).double()
    if cache.scales.numel() == 0:
        return keys, values
    scales = cache.scales.double()
    return keys * scales[..., 0].unsqueeze(-1), values * scales[..., 1].unsqueeze(-1)
