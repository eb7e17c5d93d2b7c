"""Parameters of feed-forward layers, dense and of experts, and which layers have which."""

from __future__ import annotations

from collections import Counter

from kvbench.errors import ModelError
from kvbench.model.parameters.attention import biased
from kvbench.model.parameters.traits import Traits
from kvbench.model.parameters.values import Values

_EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_WIDTHS = ("moe_intermediate_size", "intermediate_size")


def dense(values: Values, traits: Traits, width: int) -> Counter[str]:
    """A dense layer of ``width`` inner elements."""
    matrices = 3 if traits.gated else 2
    small = 0
    if biased(values, traits.mlp_bias):
        small = width * (matrices - 1) + values.hidden
    return Counter(linear=matrices * values.hidden * width, small=small)


def experts(values: Values, traits: Traits) -> Counter[str]:
    """The experts of one layer with their router and shared experts."""
    hidden, count = values.hidden, expert_count(values)
    width = expert_width(values)
    through = values.number("moe_latent_size", default=0) or hidden
    matrices = 3 if traits.gated else 2
    found = Counter(experts=count * matrices * through * width, router=hidden * count)
    if through != hidden:
        found["linear"] += 2 * hidden * through
    shared = _shared_width(values, width)
    found["linear"] += matrices * hidden * shared
    if shared and traits.shared_gate:
        found["small"] += hidden
    if traits.correction:
        found["small"] += count
    if values.family == "gpt_oss":
        found["small"] += count * (2 * width + hidden) + count
    return found


def expert_count(values: Values) -> int:
    """Routed experts of a layer, 0 for a dense model."""
    return values.number(*_EXPERTS, default=0)


def expert_width(values: Values) -> int:
    """Inner elements of one routed expert."""
    return values.number(*_WIDTHS)


def experts_per_token(values: Values) -> int:
    """Routed experts that a token visits."""
    names = ("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk")
    return values.number(*names, default=1)


def _shared_width(values: Values, width: int) -> int:
    stated = values.get(
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
    )
    if stated is not None:
        return values.number(
            "shared_expert_intermediate_size",
            "moe_shared_expert_intermediate_size",
            "shared_intermediate_size",
        )
    if values.family == "llama4_text":
        return width
    names = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
    return width * values.number(*names, default=0)


def has_experts(values: Values, layer: int) -> bool:
    """Whether decoder layer ``layer`` routes to experts."""
    if not expert_count(values):
        return False
    pattern = values.get("moe_layer_freq", "mlp_layer_types")
    if isinstance(pattern, list):
        if layer >= len(pattern):
            raise ModelError(f"moe_layer_freq has {len(pattern)} entries, layer {layer} needs one")
        return pattern[layer] in (1, True, "sparse", "moe")
    if layer in values.sequence("mlp_only_layers"):
        return False
    return layer >= _first(values) and _is_step(values, layer)


def _first(values: Values) -> int:
    return values.number("first_k_dense_replace", "moe_layer_start_index", default=0)


def _is_step(values: Values, layer: int) -> bool:
    if values.family == "llama4_text":
        return (layer + 1) % max(1, values.number("interleave_moe_layer_step", default=1)) == 0
    if values.family == "jamba":
        period = max(1, values.number("expert_layer_period", default=2))
        return layer % period == values.number("expert_layer_offset", default=1)
    names = ("decoder_sparse_step", "moe_layer_freq", "moe_layer_interval")
    step = max(1, values.number(*names, default=1))
    return (layer + 1) % step == 0 if values.get("decoder_sparse_step") else layer % step == 0


def dense_width(values: Values) -> int:
    """Inner elements of a dense layer."""
    if values.family == "llama4_text":
        return values.number("intermediate_size_mlp", "intermediate_size")
    if values.family == "lfm2" and values.flag("block_auto_adjust_ff_dim", default=True):
        multiple = max(1, values.number("block_multiple_of", default=256))
        width = 2 * values.number("block_ff_dim", "intermediate_size") // 3
        return -(-width // multiple) * multiple
    return values.inner
