"""Models written out in TOML tables, and tables that inherit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvbench.errors import ModelError
from kvbench.model.inline import inline_model
from kvbench.model.load import load_model
from kvbench.model.sizing import logical_size

BASE: dict[str, Any] = {"layers": 32, "query_heads": 32, "kv_heads": 8, "head_dim": 128}


def slope(model_tables: dict[str, dict[str, Any]], name: str, tokens: int = 4096) -> object:
    return logical_size(load_model(name, tables=model_tables), tokens).slope_bytes_per_token


def test_uniform_geometry() -> None:
    model = inline_model("gqa8", BASE)
    assert {layer.kind for layer in model.layers} == {"full"}
    assert (len(model.layers), model.query_heads, model.dtype) == (32, 32, "bf16")


@pytest.mark.parametrize(
    ("extra", "kind"),
    [({}, "full"), ({"window": 4096}, "sliding"), ({"chunk": 8192}, "chunked")],
)
def test_keys_decide_the_kind(extra: dict[str, Any], kind: str) -> None:
    assert inline_model("m", {**BASE, **extra}).layers[0].kind == kind


def test_latent_geometry_with_indexer() -> None:
    table = {"layers": 61, "latent_dim": 512, "rope_dim": 64, "indexer_bytes_per_token": 132}
    model = inline_model("v32", table)
    assert [layer.kind for layer in model.layers[:2]] == ["mla", "indexer"]
    assert model.decoder_layers[-1] == 60
    assert logical_size(model, 1).slope_bytes_per_token == 78_324


def test_pattern_repeats() -> None:
    table = {**BASE, "layers": 7, "window": 128, "pattern": ["sliding", "sliding", "full"]}
    kinds = [layer.kind for layer in inline_model("p", table).layers]
    assert kinds == ["sliding", "sliding", "full"] * 2 + ["sliding"]


def test_every_kind_has_its_keys() -> None:
    table = {
        **BASE,
        "layers": 7,
        "window": 16,
        "chunk": 32,
        "latent_dim": 64,
        "rope_dim": 8,
        "state_bytes": 1000,
        "encoder_tokens": 10,
        "pattern": ["full", "sliding", "chunked", "mla", "state", "cross", "none"],
    }
    model = inline_model("all", table)
    assert [layer.kind for layer in model.layers] == table["pattern"]
    pair = 2 * 8 * 128 * 2
    fixed = 1000 + 10 * pair + 16 * pair + 32 * pair
    assert logical_size(model, 100).logical_bytes == 100 * (pair + 144) + fixed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kv_head": 1}, "unknown key 'kv_head'; did you mean 'kv_heads'"),
        ({"kv_heads": 0}, "kv_heads must be between"),
        ({"kv_heads": "8"}, "kv_heads must be an integer"),
        ({"kv_heads": True}, "kv_heads must be an integer"),
        ({"layers": 10**6}, "layers must be between"),
        ({"layers": 1.0}, "layers must be an integer"),
        ({"head_dim": None}, "head_dim must be an integer"),
        ({"dtype": "int4"}, "dtype 'int4' is not one of"),
        ({"pattern": []}, "pattern must be an array"),
        ({"pattern": "full"}, "pattern must be an array"),
        ({"pattern": ["fulll"]}, "no layer kind 'fulll'; did you mean 'full'"),
        ({"pattern": ["sliding"]}, "window is missing"),
        ({"window": -1}, "window must be between"),
    ],
)
def test_mistakes_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match="model 'm': ") as caught:
        inline_model("m", {**BASE, **change})
    assert message in str(caught.value)


def test_missing_key_says_what_it_is() -> None:
    with pytest.raises(ModelError, match=r"head_dim is missing \(elements of a key head"):
        inline_model("m", {"layers": 2, "kv_heads": 1})


def test_inherits_a_table_a_chain_and_the_catalog() -> None:
    tables: dict[str, dict[str, Any]] = {
        "mha": {**BASE, "kv_heads": 32},
        "gqa": {"inherits": "mha", "kv_heads": 8},
        "mqa": {"inherits": "gqa", "kv_heads": 1},
        "narrow": {"inherits": "Llama-3.1-8B", "kv_heads": 1},
        "wider": {"inherits": "narrow", "head_dim": 256},
    }
    assert [slope(tables, name) for name in tables] == [524_288, 131_072, 16_384, 16_384, 32_768]


def test_inherits_changes_the_window_of_every_layer_that_has_one() -> None:
    tables = {"wide": {"inherits": "gemma-3-27b-it", "window": 4096}}
    assert slope(tables, "wide", 2000) == 62 * 8192
    assert slope(tables, "wide", 5000) == 10 * 8192


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"m": {"inherits": "m"}}, "circle"),
        ({"m": {"inherits": "n"}, "n": {"inherits": "m"}}, "circle"),
        ({"m": {"inherits": "Llama-3.1-9B"}}, "did you mean 'Llama-3.1-8B'"),
        ({"m": {"inherits": "Llama-3.1-8B", "window": 5}}, "window does not apply"),
        ({"m": {"inherits": "gemma-3-27b-it", "layers": 5}}, "layers differ"),
        ({"m": {"inherits": "Llama-3.1-8B", "pattern": ["full"]}}, "pattern cannot change"),
        ({"m": {"inherits": 5}}, "inherits must be a name"),
        ({"m": {"inherits": "a", "config": "b"}}, "exclude each other"),
        ({"m": {"config": 5}}, "config must be a path"),
        ({"m": {"config": "nowhere/config.json"}}, "no such file"),
        ({"m": []}, "expected a table"),
    ],
)
def test_inheritance_mistakes(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_model("m", tables=tables)
    assert message in str(caught.value)


def test_config_path_is_relative_to_the_suite(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "config.json").write_text(
        '{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, '
        '"hidden_size": 64, "dtype": "float16"}',
        encoding="utf-8",
    )
    for reference in ("models", "models/config.json"):
        model = load_model("own", tables={"own": {"config": reference}}, base=tmp_path)
        assert (model.name, model.dtype, len(model.layers)) == ("own", "fp16", 2)


def test_a_toml_file_names_its_table(tmp_path: Path) -> None:
    path = tmp_path / "shapes.toml"
    path.write_text(
        "[models.a]\nlayers = 2\nkv_heads = 1\nhead_dim = 64\n[models.b]\ninherits = 'a'\n",
        encoding="utf-8",
    )
    assert len(load_model(f"{path}#b").layers) == 2
    with pytest.raises(ModelError, match=r"name one table as FILE\.toml#NAME"):
        load_model(str(path))
    with pytest.raises(ModelError, match=r"no table \[models.c\]"):
        load_model(f"{path}#c")


@pytest.mark.parametrize(
    ("content", "message"),
    [("models = ", "not a TOML file"), ("[suite]\nname = 'x'", "no \\[models.NAME\\] table")],
)
def test_broken_toml(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ModelError, match=message):
        load_model(str(path))


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("", "empty"),
        ("Lama-3.1-8B", "did you mean 'Llama-3.1-8B'"),
        ("zzz", "`kvbench models` lists the catalog"),
        ("missing/config.json", "no such file"),
        ("./missing", "no such file"),
        ("missing.gguf", "no such file"),
        ("bad\0name", "no model"),
    ],
)
def test_unknown_references(reference: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(reference)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "spelling",
    ["Llama-3.1-8B", "llama-3.1-8b", "meta-llama/Llama-3.1-8B", "Meta-Llama-3.1-8B"],
)
def test_catalog_spellings(spelling: str) -> None:
    assert load_model(spelling).name == "Llama-3.1-8B"


def test_a_path_wins_over_a_catalog_name(tmp_path: Path) -> None:
    folder = tmp_path / "Llama-3.1-8B"
    folder.mkdir()
    (folder / "config.json").write_text(
        '{"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, '
        '"hidden_size": 64}',
        encoding="utf-8",
    )
    assert len(load_model("./Llama-3.1-8B", base=tmp_path).layers) == 2
    assert len(load_model("Llama-3.1-8B", base=tmp_path).layers) == 32


def test_weights_are_left_out_on_request() -> None:
    assert load_model("Llama-3.1-8B", weights=False).weight_bytes is None
