"""The longest context that a config states, with its rotary scaling applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvbench.model import check
from kvbench.model.hf.fields import Fields

_NAMES = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
    "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len", "n_ctx",
)  # fmt: skip

#: Rotary scalings whose config states the scaled length already.
_ALREADY_SCALED = frozenset(
    {
        "default",
        "su",
        "longrope",
        "llama3",
        "yarn",
        "deepseek_yarn",
        "deepseek_llama_scaling",
        "mrope",
    }
)


def longest_context(fields: Fields) -> int | None:
    """Tokens of the longest context, ``None`` when the config states none.

    The smallest stated length counts, ``model_max_length`` before all others. Linear and dynamic
    rotary scaling multiply it; ``longrope`` starts from its original length. This is what vLLM
    takes as the default of ``max_model_len``.

    Raises:
        ModelError: A length that is no positive integer.
    """
    stated = {name: fields.get(name) for name in _NAMES}
    lengths = {
        name: check.integer(value, name, maximum=check.MAX_TOKENS)
        for name, value in stated.items()
        if value is not None
    }
    if not lengths:
        return None
    longest = lengths.get("model_max_length") or min(lengths.values())
    return _scaled(fields, longest)


def _scaled(fields: Fields, longest: int) -> int:
    if "gemma3" in fields.model_type:
        return longest
    factor = 1.0
    for rope in _rotary(fields.values):
        kind = rope.get("rope_type", rope.get("type"))
        if kind == "longrope":
            original = fields.get("original_max_position_embeddings")
            return original if isinstance(original, int) and original > 0 else longest
        stated = rope.get("factor")
        if kind not in _ALREADY_SCALED and isinstance(stated, int | float) and stated >= 1:
            factor = min(float(stated), 1024.0)
    return int(longest * factor)


def _rotary(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for name in ("rope_scaling", "rope_parameters"):
        rope = values.get(name)
        if not isinstance(rope, Mapping):
            continue
        nested = [item for item in rope.values() if isinstance(item, Mapping)]
        yield from nested or [rope]
