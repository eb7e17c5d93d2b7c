"""Bytes of a model's weights: from its checkpoint's headers, else by formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from kvbench.errors import ModelError
from kvbench.model.checkpoint import Checkpoint, read_checkpoint
from kvbench.model.parameters import Counts, count_parameters
from kvbench.model.parameters.count import language_values
from kvbench.model.parameters.feedforward import (
    dense_width,
    expert_count,
    expert_width,
    experts_per_token,
)
from kvbench.model.quantization import Precision, weight_precision
from kvbench.model.spec import RoutedExperts, Widths

#: Bytes of an element that is not quantized: engines run fp32 checkpoints in 16 bits too.
ELEMENT_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights of a whole model, before any parallelism.

    Attributes:
        bytes: Bytes as an engine holds them, ``None`` when they are not known.
        parameters: How many parameters, ``None`` when not known.
        source: Where both come from, or why they are not known; one phrase.
        replicated_bytes: Bytes that every tensor-parallel rank holds in full.
        exact: The bytes were read from headers, not computed.
        widths: What the memory of a forward pass depends on, ``None`` when the config does not
            say.
        experts: Routed experts, ``None`` when there are none or no formula counts them.
    """

    bytes: int | None
    parameters: int | None
    source: str
    replicated_bytes: int = 0
    exact: bool = False
    widths: Widths | None = None
    experts: RoutedExperts | None = None

    def rank_bytes(self, tp: int) -> int | None:
        """Bytes on the fullest of ``tp`` tensor-parallel ranks."""
        if self.bytes is None:
            return None
        return self.replicated_bytes + -(-(self.bytes - self.replicated_bytes) // tp)


def weight_bytes(config: Mapping[str, Any], folder: Path | None = None) -> Weights:
    """Size the weights of the model that ``config`` describes.

    Args:
        config: Parsed ``config.json``.
        folder: Folder of the checkpoint, when it is at hand: its headers win over the formula.

    Returns:
        The weights; ``bytes`` is ``None`` with the reason in ``source`` when the family has no
        formula and there is no checkpoint.

    Raises:
        ModelError: A checkpoint whose headers are broken.
    """
    counts, reason = _counts(config)
    weights = _weigh(config, folder, counts, reason)
    return replace(weights, widths=_widths(config), experts=_experts(config, counts, weights))


def _weigh(
    config: Mapping[str, Any], folder: Path | None, counts: Counts | None, reason: str
) -> Weights:
    checkpoint = _checkpoint(config, folder, counts)
    if checkpoint is not None:
        return _measured(config, checkpoint, counts)
    if counts is None:
        return Weights(bytes=None, parameters=None, source=f"not known: {reason}")
    try:
        precision = weight_precision(config, ELEMENT_BYTES)
    except ModelError as error:
        return Weights(bytes=None, parameters=counts.total, source=f"not known: {error}")
    return _computed(config, counts, precision)


def _counts(config: Mapping[str, Any]) -> tuple[Counts | None, str]:
    try:
        return count_parameters(config), ""
    except ModelError as error:
        return None, str(error)


def _widths(config: Mapping[str, Any]) -> Widths | None:
    try:
        values = language_values(config)
        routed = expert_count(values) > 0
        return Widths(
            vocabulary=values.vocabulary,
            inner=0 if routed else dense_width(values),
            experts_per_token=experts_per_token(values) if routed else 0,
            expert_inner=expert_width(values) if routed else 0,
            has_vision=isinstance(config.get("vision_config"), Mapping),
        )
    except ModelError:
        return None


def _experts(
    config: Mapping[str, Any], counts: Counts | None, weights: Weights
) -> RoutedExperts | None:
    if counts is None or not counts.experts or weights.bytes is None:
        return None
    values = language_values(config)
    try:
        size = round(counts.experts * weight_precision(config, ELEMENT_BYTES).experts)
    except ModelError:
        # A checkpoint of unknown precision: as if all parameters had the same.
        size = weights.bytes * counts.experts // counts.total
    return RoutedExperts(
        count=expert_count(values),
        per_token=experts_per_token(values),
        parameters=counts.experts,
        weight_bytes=min(size, weights.bytes),
    )


def _checkpoint(
    config: Mapping[str, Any], folder: Path | None, counts: Counts | None
) -> Checkpoint | None:
    if folder is None:
        return None
    tied = counts is not None and counts.head == 0
    return read_checkpoint(folder, layers=_layers(config), tied=tied)


def _layers(config: Mapping[str, Any]) -> int | None:
    try:
        return language_values(config).layers
    except ModelError:
        return None


def _measured(config: Mapping[str, Any], checkpoint: Checkpoint, counts: Counts | None) -> Weights:
    parameters = checkpoint.parameters
    if parameters is None and counts is not None:
        parameters = counts.total
    source = checkpoint.source
    if checkpoint.skipped_bytes:
        source += f", without {checkpoint.skipped_bytes:,} bytes that are not loaded"
    return Weights(
        bytes=checkpoint.bytes,
        parameters=parameters,
        source=source,
        replicated_bytes=_replicated(config, counts),
        exact=True,
    )


def _replicated(config: Mapping[str, Any], counts: Counts | None) -> int:
    if counts is None:
        return 0
    try:
        precision = weight_precision(config, ELEMENT_BYTES)
    except ModelError:
        precision = Precision()
    return _replicated_bytes(counts, precision)


def _computed(config: Mapping[str, Any], counts: Counts, precision: Precision) -> Weights:
    unquantized = counts.embedding + counts.head + counts.router + counts.small + counts.vision
    size = (
        unquantized * Fraction(ELEMENT_BYTES)
        + (counts.linear + counts.latent) * precision.linear
        + counts.experts * precision.experts
    )
    family = language_values(config).family
    how = precision.name or "16 bits each"
    notes = f" ({'; '.join(counts.notes)})" if counts.notes else ""
    return Weights(
        bytes=round(size),
        parameters=counts.total,
        source=f"formula for {family}: {counts.total:,} parameters, {how}{notes}",
        replicated_bytes=_replicated_bytes(counts, precision),
    )


def _replicated_bytes(counts: Counts, precision: Precision) -> int:
    return round(counts.latent * precision.linear + (counts.router + counts.small) * ELEMENT_BYTES)
