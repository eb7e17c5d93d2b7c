"""Parameters of DeepSeek V4: compressed latent attention with hyper-connections."""

from __future__ import annotations

from collections import Counter

from kvbench.model.parameters.feedforward import experts
from kvbench.model.parameters.traits import Traits
from kvbench.model.parameters.values import Values

#: Compression by this ratio or less overlaps neighbouring groups and has an indexer.
_OVERLAPPING = 4


def deepseek_v4(values: Values, traits: Traits) -> Counter[str]:
    """Sum over the decoder layers, and the connection in front of the output projection."""
    hidden, streams = values.hidden, values.number("hc_mult", default=4)
    ratios = values.sequence("compress_ratios")
    mix = streams * (2 + streams)
    found = Counter(small=streams * streams * hidden + streams + 1)
    for layer in range(values.layers):
        found.update(_attention(values))
        found.update(experts(values, traits))
        found["small"] += 2 * hidden + 2 * (mix * streams * hidden + mix + 3)
        ratio = ratios[layer] if layer < len(ratios) else 0
        if isinstance(ratio, int) and ratio > 0:
            found.update(_compressor(values, ratio))
    return found


def _attention(values: Values) -> Counter[str]:
    hidden, heads, dim = values.hidden, values.heads, values.head_dim
    rank, out_rank = values.number("q_lora_rank"), values.number("o_lora_rank")
    groups = values.number("o_groups", default=1)
    output = heads * dim * out_rank + groups * out_rank * hidden
    return Counter(
        latent=hidden * rank + hidden * dim,
        linear=rank * heads * dim + output,
        small=rank + dim + heads,
    )


def _compressor(values: Values, ratio: int) -> Counter[str]:
    dim, overlap = values.head_dim, 2 if ratio <= _OVERLAPPING else 1
    found = _pooling(values.hidden, dim, ratio, overlap)
    if overlap == 2:
        heads, index_dim = values.number("index_n_heads"), values.number("index_head_dim")
        found.update(_pooling(values.hidden, index_dim, ratio, overlap))
        query = values.number("q_lora_rank") * heads * index_dim
        found["latent"] += query + values.hidden * heads
    return found


def _pooling(hidden: int, dim: int, ratio: int, overlap: int) -> Counter[str]:
    return Counter(latent=2 * hidden * overlap * dim, small=ratio * overlap * dim + dim)
