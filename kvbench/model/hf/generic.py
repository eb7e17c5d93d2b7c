"""The strict generic adapter: a plain decoder of an unknown family that states everything."""

from __future__ import annotations

from collections.abc import Mapping

from kvbench.model.hf.attention import HEAD_DIM, HIDDEN, KV_HEADS, QUERY_HEADS, heads
from kvbench.model.hf.fields import Fields
from kvbench.model.hf.registry import Decoder, one_each
from kvbench.model.hf.smells import nested_smells
from kvbench.model.spec import FullLayer

_LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")

_ENCODER_HEADS = ("ForMaskedLM", "Classification", "ForQuestionAnswering", "Encoder", "Embedding")

#: Sub-objects that describe something else than the decoder's layers.
_OTHER_OBJECTS = frozenset(
    {"rope_scaling", "rope_parameters", "quantization_config", "auto_map", "id2label", "label2id"}
)


def generic(fields: Fields) -> Decoder:
    """Full attention in every layer of a decoder that states layers, heads, KV heads and width.

    Raises:
        ModelError: Anything is missing, or the model is no plain decoder; the message names the
            field. Fields that hint at another cache structure are refused afterwards, by name.
    """
    family = fields.model_type
    for names in (_LAYERS, QUERY_HEADS, KV_HEADS):
        if not fields.states(*names):
            fields.fail(f"no adapter for model_type {family!r}, and its config has no {names[0]}")
    if not fields.states(*HEAD_DIM, *HIDDEN):
        fields.fail(f"no adapter for model_type {family!r}, and its config has no head_dim")
    if fields.get("is_encoder_decoder") is True:
        fields.fail(f"no adapter for model_type {family!r}, an encoder-decoder")
    _refuse_nested(fields)
    _refuse_encoder(fields)
    layer = FullLayer(**heads(fields))
    return Decoder(
        layers=one_each([layer] * fields.layer_count()),
        assumptions=(
            f"no adapter knows model_type {family!r}: sized as a plain decoder by its stated "
            "layers, KV heads and head width",
        ),
    )


def _refuse_encoder(fields: Fields) -> None:
    stated = fields.get("architectures")
    names = stated if isinstance(stated, list) else []
    if any(part in str(name) for name in names for part in _ENCODER_HEADS):
        fields.fail(f"architecture {names[0]!r} does not generate text: it keeps no cache")


def _refuse_nested(fields: Fields) -> None:
    for name, value in fields.values.items():
        if not isinstance(value, Mapping) or name in _OTHER_OBJECTS:
            continue
        if "attn" in name or "attention" in name or nested_smells(fields.values, name):
            fields.fail(
                f"no adapter for model_type {fields.model_type!r}, and its field {name!r} may "
                "describe another kind of cache"
            )
