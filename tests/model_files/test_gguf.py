"""GGUF headers, written by the reference package: geometry, windows, states, hostile files."""

from __future__ import annotations

import builtins
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFWriter

from kvbench.errors import ModelError
from kvbench.model.gguf import read_gguf
from kvbench.model.load import load_model
from kvbench.model.sizing import logical_size
from kvbench.model.spec import FullLayer, MlaLayer, SlidingLayer, StateLayer


def write(
    path: Path, arch: str, *, vocabulary: int = 64, names: list[str] | None = None, **keys: Any
) -> Path:
    """Write a GGUF file with one small embedding; ``a__b`` stands for the key ``a.b``."""
    writer = GGUFWriter(path, arch)
    for name, value in {"block_count": 4, "embedding_length": 256, **keys}.items():
        key = f"{arch}.{name.replace('__', '.')}"
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        else:
            writer.add_uint32(key, value)
    if names:
        writer.add_token_list(names)
    writer.add_tensor("token_embd.weight", np.zeros((vocabulary, 256), dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


HEADS = {"attention__head_count": 8, "attention__head_count_kv": 2}


def test_llama(tmp_path: Path) -> None:
    model = read_gguf(
        write(tmp_path / "m.gguf", "llama", **HEADS, context_length=8192, feed_forward_length=512)
    )
    assert model.layers == (FullLayer(kv_heads=2, head_dim_k=32, head_dim_v=32),) * 4
    assert (model.max_context_tokens, model.dtype, model.query_heads) == (8192, "fp16", 8)
    assert (model.weight_bytes, model.parameters) == (64 * 256 * 2, 64 * 256)
    assert model.widths is not None
    assert (model.widths.vocabulary, model.widths.inner) == (64, 512)


def test_the_command_line_finds_it(tmp_path: Path) -> None:
    path = write(tmp_path / "m.gguf", "qwen3", **HEADS, attention__key_length=64)
    assert load_model(str(path)).layers[0] == FullLayer(kv_heads=2, head_dim_k=64, head_dim_v=32)


def test_a_vocabulary_is_skipped_and_what_follows_is_read(tmp_path: Path) -> None:
    names = [f"token-{index}" for index in range(5000)]
    model = read_gguf(write(tmp_path / "m.gguf", "llama", **HEADS, names=names))
    assert len(model.layers) == 4


def test_gpt_oss_keeps_a_window_in_every_other_layer(tmp_path: Path) -> None:
    """Public report gguf-parser-go#32: 24,576 bytes a token and 3 GiB, not twice that."""
    model = read_gguf(
        write(
            tmp_path / "m.gguf",
            "gpt-oss",
            block_count=24,
            attention__head_count=64,
            attention__head_count_kv=8,
            attention__key_length=64,
            attention__value_length=64,
            attention__sliding_window=128,
        )
    )
    assert [layer.kind for layer in model.layers] == ["sliding", "full"] * 12
    size = logical_size(model, 131072)
    assert size.slope_bytes_per_token == 24_576
    windows = 12 * 128 * 2048
    assert size.logical_bytes == 3 * 2**30 + windows


@pytest.mark.parametrize(
    ("arch", "layers", "full"),
    [("gemma3", 62, 10), ("gemma2", 46, 23), ("cohere2", 32, 8), ("exaone4", 64, 16)],
)
def test_periods_of_windows(tmp_path: Path, arch: str, layers: int, full: int) -> None:
    model = read_gguf(
        write(
            tmp_path / "m.gguf", arch, **HEADS, block_count=layers, attention__sliding_window=1024
        )
    )
    assert sum(isinstance(layer, FullLayer) for layer in model.layers) == full
    assert not isinstance(model.layers[0], FullLayer)


def test_a_stated_pattern_wins_and_windows_may_have_heads_of_their_own(tmp_path: Path) -> None:
    model = read_gguf(
        write(
            tmp_path / "m.gguf",
            "gemma4",
            **HEADS,
            attention__sliding_window=64,
            attention__sliding_window_pattern=[True, False],
            attention__key_length=128,
            attention__key_length_swa=64,
            attention__value_length=128,
            attention__value_length_swa=64,
        )
    )
    assert model.layers[0] == SlidingLayer(kv_heads=2, head_dim_k=64, head_dim_v=64, window=64)
    assert model.layers[1] == FullLayer(kv_heads=2, head_dim_k=128, head_dim_v=128)


def test_latent_attention_and_files_from_before_it(tmp_path: Path) -> None:
    keys = {
        "attention__head_count": 8,
        "attention__head_count_kv": 1,
        "attention__kv_lora_rank": 512,
        "attention__key_length": 576,
        "attention__value_length": 512,
        "rope__dimension_count": 64,
    }
    new = read_gguf(write(tmp_path / "n.gguf", "deepseek2", **keys, attention__key_length_mla=192))
    assert isinstance(new.layers[0], MlaLayer)
    assert logical_size(new, 1).slope_bytes_per_token == 4 * 576 * 2
    keys |= {"attention__head_count_kv": 8, "attention__key_length": 192}
    old = read_gguf(write(tmp_path / "o.gguf", "deepseek2", **keys))
    assert isinstance(old.layers[0], FullLayer)
    assert any("expanded" in note for note in old.assumptions)


def test_state_beside_attention_as_llama_cpp_logs_it(tmp_path: Path) -> None:
    """Public report genie-claw#410: KV 768 MiB at 32,768 cells, R 0.98 MiB and S 72.00 MiB."""
    model = read_gguf(
        write(
            tmp_path / "m.gguf",
            "falcon-h1",
            block_count=24,
            attention__head_count=16,
            attention__head_count_kv=2,
            attention__key_length=128,
            attention__value_length=128,
            ssm__inner_size=3072,
            ssm__state_size=256,
            ssm__group_count=1,
            ssm__conv_kernel=4,
        )
    )
    assert logical_size(model, 1).slope_bytes_per_token * 32768 == 768 * 2**20
    states = [layer for layer in model.layers if isinstance(layer, StateLayer)]
    conv, ssm = states[0].tensors
    assert 24 * 4 * conv.shape[0] * conv.shape[1] / 2**20 == pytest.approx(0.98, abs=0.005)
    assert 24 * 4 * ssm.shape[0] * ssm.shape[1] == 72 * 2**20


def test_hybrids_by_interval_and_by_heads(tmp_path: Path) -> None:
    ssm = {"ssm__inner_size": 512, "ssm__state_size": 16, "ssm__conv_kernel": 4}
    nextn = read_gguf(write(tmp_path / "a.gguf", "qwen3next", **HEADS, **ssm))
    assert [layer.kind for layer in nextn.layers] == ["state", "state", "state", "full"]
    heads = {"attention__head_count": 8, "attention__head_count_kv": [0, 0, 2, 0]}
    jamba = read_gguf(write(tmp_path / "b.gguf", "jamba", **heads, **ssm))
    assert [layer.kind for layer in jamba.layers] == ["state", "state", "full", "state"]


def test_shared_caches_and_prediction_layers(tmp_path: Path) -> None:
    model = read_gguf(
        write(
            tmp_path / "m.gguf",
            "gemma3n",
            **HEADS,
            block_count=10,
            attention__sliding_window=512,
            attention__shared_kv_layers=4,
        )
    )
    assert [layer.kind for layer in model.layers[6:]] == ["shared"] * 4
    extra = read_gguf(write(tmp_path / "g.gguf", "glm4moe", **HEADS, nextn_predict_layers=1))
    assert len(extra.layers) == 3


@pytest.mark.parametrize(
    ("arch", "keys", "message"),
    [
        ("rwkv7", {"wkv__head_size": 64, **HEADS}, "wkv"),
        ("novel", {"attention__sliding_window": 64, **HEADS}, "neither a pattern nor"),
        ("novel", {"ssm__state_size": 64, **HEADS}, "which layers of novel keep a state"),
        ("llama", {}, "no llama.attention.head_count"),
        ("llama", {**HEADS, "block_count": 0}, "block_count"),
        ("llama", {**HEADS, "block_count": 4_000_000}, "block_count"),
        ("llama", {**HEADS, "attention__head_count_kv": [1, 1]}, "2 items for 4 layers"),
        ("llama", {**HEADS, "attention__head_count": True}, "head_count"),
    ],
)
def test_what_no_rule_covers_is_refused(
    tmp_path: Path, arch: str, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        read_gguf(write(tmp_path / "m.gguf", arch, **keys))


def head(version: int = 3, tensors: int = 0, entries: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a GGUF file|cut short"),
        (b"GGML" + bytes(64), "not a GGUF file"),
        (head(version=1), "version 1"),
        (head(tensors=1 << 60), "more than"),
        (head(entries=1 << 60), "more than"),
        (head(entries=1), "cut short"),
        (head(entries=1) + struct.pack("<Q", 1 << 62), "more than"),
        (head(entries=1) + struct.pack("<Q", 1) + b"k" + struct.pack("<I", 99), "unknown type 99"),
        (
            head(entries=1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 9, 5),
            "array of unknown type",
        ),
        (
            head(entries=1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 0, 1 << 50),
            "more than",
        ),
        (head(tensors=1) + struct.pack("<Q", 1) + b"t" + struct.pack("<I", 100), "dimensions"),
        (
            head(tensors=1) + struct.pack("<Q", 1) + b"t" + struct.pack("<IQQIQ", 2, 9, 9, 999, 0),
            "unknown type 999",
        ),
        (
            head(tensors=1)
            + struct.pack("<Q", 1)
            + b"t"
            + struct.pack("<IQQIQ", 2, 1 << 60, 1 << 60, 0, 0),
            "absurd shape",
        ),
        (head(), "no general.architecture"),
    ],
)
def test_hostile_headers(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=message):
        read_gguf(path)


def test_a_missing_package_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "m.gguf", "llama", **HEADS)
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("gguf"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ModelError, match=r"kvbench\[gguf\]"):
        read_gguf(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No such file"):
        read_gguf(tmp_path / "none.gguf")
