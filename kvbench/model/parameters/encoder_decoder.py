"""Parameters of Whisper: an encoder of audio frames and a decoder with cross attention."""

from __future__ import annotations

from collections import Counter

from kvbench.model.parameters.traits import Traits
from kvbench.model.parameters.values import Values


def whisper(values: Values, traits: Traits) -> Counter[str]:
    """Both stacks, the encoder's convolutions and its positions."""
    width, bins = values.hidden, values.number("num_mel_bins", default=80)
    encoder = values.number("encoder_layers") * _layer(values, "encoder_ffn_dim", attentions=1)
    decoder = values.number("decoder_layers") * _layer(values, "decoder_ffn_dim", attentions=2)
    convolutions = 3 * bins * width + width + 3 * width * width + width
    positions = values.number("max_source_positions", default=1500) * width
    positions += values.number("max_target_positions", default=448) * width
    return Counter(linear=encoder + decoder + convolutions, embedding=positions, small=2 * width)


def _layer(values: Values, inner: str, *, attentions: int) -> int:
    width, between = values.hidden, values.number(inner)
    # The key projection is the only one without a bias.
    attention = 4 * width * width + 3 * width + 2 * width
    feed_forward = 2 * width * between + between + width + 2 * width
    return attentions * attention + feed_forward
