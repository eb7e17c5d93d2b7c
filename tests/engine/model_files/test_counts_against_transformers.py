"""Formulas against the parameters of the published classes, built without memory."""

from __future__ import annotations

from typing import Any

import pytest

from kvbench.model.catalog import catalog_config as stated_config
from kvbench.model.catalog import catalog_names
from kvbench.model.parameters import count_parameters

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

#: Families whose classes keep these parameters as buffers, or leave them to the checkpoint.
BUFFERS = {
    "deepseek_v3", "deepseek_v32", "deepseek_v4", "glm4_moe", "glm_moe_dsa", "gemma4",
    "kimi_linear", "mimo_v2_flash", "nemotron_h",
}  # fmt: skip
#: Families that ``transformers`` builds only in part (the language model, the decoder), or that
#: need a package of their own.
IN_PART = {"qwen3_5", "qwen3_5_moe", "llama4", "whisper", "gemma3n"}


def catalog_config(name: str) -> dict[str, Any]:
    config = stated_config(name)
    return {key: value for key, value in config.items() if key != "quantization_config"}


def built_parameters(config: dict[str, Any]) -> int:
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    values = {key: value for key, value in config.items() if key != "auto_map"}
    values.setdefault("pad_token_id", None)
    built = CONFIG_MAPPING[config["model_type"]].from_dict(values)
    several = "vision_config" in config
    factory = AutoModelForImageTextToText if several else AutoModelForCausalLM
    with torch.device("meta"):
        model = factory.from_config(built)
    return sum(parameter.numel() for parameter in model.parameters())


def whole_models() -> list[str]:
    """Catalog models that ``transformers`` builds in full."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    families = {name: catalog_config(name)["model_type"] for name in catalog_names()}
    return [
        name for name, family in families.items()
        if family in CONFIG_MAPPING and family not in IN_PART
    ]  # fmt: skip


def test_most_of_the_catalog_is_compared() -> None:
    assert len(whole_models()) >= 60


@pytest.mark.parametrize("name", whole_models())
def test_count(name: str) -> None:
    config = catalog_config(name)
    counted, built = count_parameters(config).total, built_parameters(config)
    if config["model_type"] in BUFFERS:
        assert 0 <= counted - built < 25_000
    else:
        assert counted == built
