"""Defaults of omitted fields against transformers' own config classes."""

from __future__ import annotations

import dataclasses
import json
from importlib import resources
from typing import Any

import pytest

from kvbench.errors import ModelError
from kvbench.model.hf import spec_from_config
from kvbench.model.hf.read import family_defaults, text_type
from kvbench.model.spec import FullLayer, SlidingLayer

transformers = pytest.importorskip("transformers")

FACTS = json.loads(
    resources.files("kvbench.model.hf").joinpath("defaults.json").read_text(encoding="utf-8")
)
KNOWN = [family for family in FACTS["families"] if family in transformers.CONFIG_MAPPING]


def class_defaults(family: str) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    for field in dataclasses.fields(transformers.CONFIG_MAPPING[family]):
        value = field.default
        if value is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        defaults[field.name] = list(value) if isinstance(value, tuple) else value
    return defaults


def test_most_families_are_checked() -> None:
    assert len(KNOWN) > 120


@pytest.mark.parametrize("family", KNOWN)
def test_defaults_are_the_config_class(family: str) -> None:
    expected = class_defaults(family)
    for name, value in family_defaults(family).items():
        assert expected[name] == value, f"{family}.{name}"


@pytest.mark.parametrize("family", sorted(FACTS["language_model"]))
def test_language_model_of_multimodal_families(family: str) -> None:
    if family not in transformers.CONFIG_MAPPING:
        assert family in {
            "RefinedWeb",
            "RefinedWebModel",
            "internvl_chat",
            "kimi_vl",
            "phi3_v",
            "llava_llama",
        }
        return
    config = transformers.CONFIG_MAPPING[family]()
    assert config.get_text_config(decoder=True).model_type == text_type(family)


#: Families that say too little by default: a bare config of theirs is refused.
REFUSED = {
    "baichuan", "deepseek", "deepseek_v4", "glm4_moe", "glm4v_moe_text", "internlm", "internlm2",
    "internlm3", "kimi_linear", "lfm2_moe", "minimax_m3_vl_text", "nemotron_h", "olmo_hybrid",
    "qwen3_omni_moe_text", "zamba2",
}  # fmt: skip


@pytest.mark.parametrize("family", [family for family in KNOWN if family in REFUSED])
def test_bare_config_is_refused_where_the_class_says_too_little(family: str) -> None:
    with pytest.raises(ModelError, match=family):
        spec_from_config({"model_type": family}, name=family)


@pytest.mark.parametrize("family", [family for family in KNOWN if family not in REFUSED])
def test_default_config_agrees_with_its_instance(family: str) -> None:
    """Layers, KV heads and windows of a bare config equal those of the instantiated class."""
    model = spec_from_config({"model_type": family}, name=family)
    config = transformers.CONFIG_MAPPING[family]().get_text_config(decoder=True)
    plain = [layer for layer in model.layers if isinstance(layer, FullLayer | SlidingLayer)]
    types = getattr(config, "layer_types", None)
    if types and set(types) <= {"full_attention", "sliding_attention"}:
        owned = [
            (kind, layer)
            for kind, layer in zip(types, model.layers, strict=True)
            if layer.kind != "shared"
        ]
        assert [kind == "sliding_attention" for kind, _ in owned] == [
            isinstance(layer, SlidingLayer) for _, layer in owned
        ]
    kv_heads = getattr(config, "num_key_value_heads", None)
    if kv_heads and plain and family not in {"falcon", "gpt_bigcode", "dbrx", "whisper"}:
        assert {layer.kv_heads for layer in plain} == {kv_heads}
