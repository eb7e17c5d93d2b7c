"""What stands between a device's memory and its KV pool, term by term.

The constants were fitted to public start-up reports (``benchmarks/fit_budget.py`` repeats it and
prints leave-one-out errors; ``docs/budget.md`` has the table). All sizes are bytes on one rank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kvbench.device.conditions import Conditions
from kvbench.device.estimate import Estimate
from kvbench.errors import DeviceError, ModelError
from kvbench.model.spec import ModelSpec, StateLayer, Widths

_GIB = 2**30
_MIB = 2**20
#: Bytes of an activation.
_WIDTH = 2
#: Bytes the sampler needs per logit at its peak: 16-bit and two fp32 copies, probabilities, masks.
SAMPLER_BYTES = 14.8
#: The same when it sorted the logits (releases before 0.17).
SORTING_SAMPLER_BYTES = 38.4
#: Tensors of the residual stream's size alive beside a feed-forward layer's.
RESIDUAL_COPIES = 4
#: Encoder outputs that a profiling step holds.
VISION_BYTES = round(0.2 * _GIB)
#: Residuals of the fit: relative, and absolute on top.
ACTIVATION_BELOW, ACTIVATION_ABOVE, ACTIVATION_MORE = 0.10, 0.08, round(0.45 * _GIB)
_UNKNOWN_WIDTHS = Widths(vocabulary=151_936)
_GRAPHS_SINCE = (0, 21)
_TRITON_SAMPLER_SINCE = (0, 17)
#: Peak of a device class whose engines set up multicast and fused all-reduce buffers.
_FUSED_FLOPS = 700 * 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One term of a budget.

    Attributes:
        name: ``weights``, ``activation``, ``graphs``, ``non_torch`` or ``safety``.
        size: Bytes on one rank.
        kind: ``headers``, ``formula``, ``measured``, ``assumed`` or ``stated``.
        provenance: Where it comes from, with its numbers; one sentence.
    """

    name: str
    size: Estimate
    kind: str
    provenance: str


def weights_term(model: ModelSpec, at: Conditions) -> Term:
    """Weights on the fullest rank, and the small buffers that load with them.

    Raises:
        ModelError: Nobody knows the model's weights.
    """
    if model.weight_bytes is None:
        reason = model.weight_source or "not known: the model has only its cache's geometry"
        raise ModelError(
            f"{model.name}: weights {reason}; state them (--weights SIZE) or give a checkpoint"
        )
    whole = model.weight_bytes - model.weight_replicated_bytes
    rank = model.weight_replicated_bytes + -(-whole // (at.tp * at.pp))
    is_read = "header" in model.weight_source or "total_size" in model.weight_source
    sure = is_read or "16 bits" in model.weight_source or model.weight_source == "stated"
    above = 64 * _MIB + (0 if sure and at.pp == 1 else rank // 20)
    padded = rank // 8 if "mxfp4" in model.weight_source else 0
    share = f" / {at.tp * at.pp} ranks" if at.tp * at.pp > 1 else ""
    return Term(
        name="weights",
        size=Estimate.around(rank + 32 * _MIB, 32 * _MIB, above + padded),
        kind="headers" if is_read else "formula",
        provenance=f"{model.weight_source}{share}, and 32 MiB of buffers",
    )


def activation_term(model: ModelSpec, at: Conditions) -> Term:
    """Peak of one profiling step: the sampler or a feed-forward layer, whichever is more.

    ``max(seqs · V · s + tokens · H · 2, tokens · 2 · (3 · I / tp + 4 · H)) + experts``, with
    ``experts = tokens · k · 2 · (max(2 · E / tp, H) + E / tp)`` held throughout.
    """
    widths = model.widths or _UNKNOWN_WIDTHS
    hidden = model.hidden_size or 8192
    sequences = min(at.sequences, at.tokens)
    per_logit = SAMPLER_BYTES if at.version >= _TRITON_SAMPLER_SINCE else SORTING_SAMPLER_BYTES
    sampler = sequences * widths.vocabulary * per_logit + at.tokens * hidden * _WIDTH
    inner = widths.inner or 0
    layer = at.tokens * _WIDTH * (3 * inner / at.tp + RESIDUAL_COPIES * hidden)
    expert = widths.expert_inner / at.tp
    routed = at.tokens * widths.experts_per_token * _WIDTH
    experts = routed * (max(2 * expert, hidden) + expert) if routed else 0.0
    vision = VISION_BYTES if widths.has_vision else 0
    expected = max(sampler, layer) + experts + vision
    doubt = 1.0 if model.widths and model.hidden_size else 3.0
    what = "sampler" if sampler >= layer else "feed-forward layer"
    below, above = _sorting_doubt(at, sequences * widths.vocabulary)
    return Term(
        name="activation",
        size=Estimate.around(
            expected,
            max(ACTIVATION_BELOW * doubt * expected, below),
            max(ACTIVATION_ABOVE * doubt * expected + ACTIVATION_MORE, above)
            + (experts + vision) / 2,
        ),
        kind="formula",
        provenance=(
            f"{what} at {at.tokens:,} tokens and {sequences:,} sequences of {widths.vocabulary:,} "
            f"logits, fitted to public start-up reports"
            + ("" if doubt == 1 else "; the model does not state its widths")
        ),
    )


def _sorting_doubt(at: Conditions, logits: int) -> tuple[float, float]:
    """Bytes below and above: some builds before 0.21 sorted the logits, some did not."""
    gap = logits * (SORTING_SAMPLER_BYTES - SAMPLER_BYTES)
    if at.version < _TRITON_SAMPLER_SINCE:
        return 1.1 * gap, 0.0
    return 0.0, 1.1 * gap if at.version < _GRAPHS_SINCE and at.sequences <= 256 else 0.0


def graphs_term(model: ModelSpec, at: Conditions) -> Term:
    """Captured graphs: reserved before the pool is made since release 0.21."""
    if at.eager or at.version < _GRAPHS_SINCE:
        why = "no graphs are captured" if at.eager else "not reserved by this release"
        return Term(name="graphs", size=Estimate.exactly(0), kind="formula", provenance=why)
    captured = graph_count(at.sequences, at.tokens)
    expected = 0.25 * _GIB + captured * 0.0065 * _GIB
    return Term(
        name="graphs",
        size=Estimate.around(expected, 0.7 * expected, 1.2 * expected + 0.2 * _GIB),
        kind="measured",
        provenance=f"{captured} graphs by the default capture sizes; 0.36 to 1.97 GiB in reports",
    )


def graph_count(sequences: int, tokens: int) -> int:
    """Graphs captured by default: piecewise up to twice the sequences, full for decode steps."""
    largest = min(2 * sequences, 512, tokens)
    sizes = [1, 2, 4, *range(8, 256, 8), *range(256, largest + 1, 16)]
    piecewise = [size for size in sizes if size <= largest]
    return len(piecewise) + len([size for size in piecewise if size <= sequences])


def non_torch_term(model: ModelSpec, at: Conditions) -> Term:
    """Libraries and communication buffers outside the allocator."""
    if at.tp == 1:
        low, expected, high, why = 0.02, 0.25, 0.50, "one rank: 0.02 to 0.46 GiB in reports"
    elif at.device.flops_per_s >= _FUSED_FLOPS:
        low, expected, high, why = 0.6, 2.1, 2.5, "fused all-reduce buffers: 2.0 to 2.2 GiB"
    else:
        low, expected, high, why = 0.15, 0.4, 1.5, "NCCL buffers: 0.2 to 0.7 GiB"
    if any(isinstance(layer, StateLayer) for layer in model.layers):
        expected, high = expected + 0.3, high + 2.5
        why += "; kernels of recurrent layers: up to 3.8 GiB reported"
    return Term(
        name="non_torch",
        size=Estimate.around(expected * _GIB, (expected - low) * _GIB, (high - expected) * _GIB),
        kind="measured",
        provenance=why,
    )


def safety_term(model: ModelSpec, at: Conditions) -> Term:
    """Left free on top of the utilization: nothing unless asked for."""
    return Term(
        name="safety",
        size=Estimate.exactly(0),
        kind="assumed",
        provenance="the engine keeps none beyond its utilization",
    )


#: Every term in the order of a budget.
TERMS: Mapping[str, Callable[[ModelSpec, Conditions], Term]] = MappingProxyType(
    {
        "weights": weights_term,
        "activation": activation_term,
        "graphs": graphs_term,
        "non_torch": non_torch_term,
        "safety": safety_term,
    }
)


def stated_term(name: str, size: int) -> Term:
    """A term that the user states.

    Raises:
        DeviceError: No such term.
    """
    if name not in TERMS:
        raise DeviceError(f"a budget has no term {name!r}; its terms: {', '.join(TERMS)}")
    return Term(name=name, size=Estimate.exactly(size), kind="stated", provenance="as stated")
