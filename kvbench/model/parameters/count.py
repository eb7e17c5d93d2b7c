"""All parameters of a model by formula, sorted by what engines do with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvbench.errors import ModelError
from kvbench.model.parameters import layers
from kvbench.model.parameters.traits import TRAITS, Traits
from kvbench.model.parameters.values import Values, class_defaults
from kvbench.model.parameters.vision import vision_parameters

#: Keys under which multimodal configs keep their language model.
_NESTED = ("thinker_config", "text_config", "language_config", "llm_config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Parameters of a model by role.

    Attributes:
        embedding: Input embedding and learned positions.
        head: Output projection, 0 when it is the embedding.
        linear: Attention, dense feed-forward and state projections: sharded, quantized.
        experts: Routed experts: sharded, quantized.
        latent: Down projections of latent attention and indexers: on every rank, quantized.
        router: Routers of experts: on every rank, not quantized.
        small: Norms, biases, convolutions, scalars: on every rank, not quantized.
        vision: Vision tower and its projector: not quantized.
        notes: What was assumed, one sentence each.
    """

    embedding: int = 0
    head: int = 0
    linear: int = 0
    experts: int = 0
    latent: int = 0
    router: int = 0
    small: int = 0
    vision: int = 0
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Parameters in all."""
        return (
            self.embedding + self.head + self.linear + self.experts
            + self.latent + self.router + self.small + self.vision
        )  # fmt: skip

    @property
    def replicated(self) -> int:
        """Parameters that every tensor-parallel rank holds in full."""
        return self.latent + self.router + self.small


def count_parameters(config: Mapping[str, Any]) -> Counts:
    """Count the parameters of the model that ``config`` describes.

    Args:
        config: Parsed ``config.json``.

    Raises:
        ModelError: A family without a formula, or a config that lacks a number.
    """
    values, tied = _language(config)
    traits = TRAITS.get(values.family)
    if traits is None:
        raise ModelError(f"no parameter formula for model_type {values.family!r}")
    found = layers.all_layers(values, traits)
    found.update(_ends(values, traits, traits.tied if tied is None else tied))
    vision, notes = vision_parameters(config, values)
    return Counts(**found, vision=vision, notes=notes)


def language_values(config: Mapping[str, Any]) -> Values:
    """The values that describe the language model.

    Raises:
        ModelError: The config is not an object or names no family.
    """
    return _language(config)[0]


def _language(config: Mapping[str, Any]) -> tuple[Values, bool | None]:
    from kvbench.model.hf.read import text_type

    if not isinstance(config, Mapping):
        raise ModelError(f"a config is a JSON object, got {type(config).__name__}")
    family, values = config.get("model_type"), config
    tied = config.get("tie_word_embeddings")
    for key in _NESTED:
        inner = values.get(key)
        if isinstance(inner, Mapping):
            family = inner.get("model_type") or family
            tied = inner.get("tie_word_embeddings", tied)
            values = inner
    if not isinstance(family, str):
        raise ModelError("the config has no model_type")
    if family not in TRAITS:
        family = text_type(family) or family
    found = Values(values, family, class_defaults(family))
    return found, found.get("tie_word_embeddings") if tied is None else bool(tied)


def _ends(values: Values, traits: Traits, tied: bool) -> Counter[str]:
    hidden, rows = values.hidden, values.vocabulary
    per_norm = 2 if traits.norm_bias else 1
    width = values.number("word_embed_proj_dim", default=hidden) or hidden
    found = Counter(embedding=rows * width, small=hidden * per_norm * (1 + traits.embedding_norms))
    if width != hidden:
        found["linear"] += 2 * width * hidden
    if traits.positions is not None:
        names = ("max_position_embeddings", "n_positions", "n_ctx")
        found["embedding"] += (values.number(*names) + traits.positions) * hidden
    if values.family == "olmo":
        found["small"] -= hidden
    if not tied:
        found["head"] += rows * hidden
        found["small"] += rows if traits.head_bias or values.flag("lm_head_bias") else 0
    found.update(layers.per_layer_embeddings(values))
    return found
