"""Safetensors headers: bytes of what is loaded, and headers that lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvbench.errors import ModelError
from kvbench.model.checkpoint import read_checkpoint
from kvbench.model.weights import weight_bytes

from .test_weights import tiny


def write_shard(file: Path, tensors: dict[str, tuple[str, list[int], int]]) -> None:
    """Write a safetensors file whose data is a hole of the right size."""
    header, begin = {}, 0
    for name, (dtype, shape, size) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, begin + size]}
        begin += size
    write_header(file, json.dumps(header).encode(), begin)


def write_header(file: Path, header: bytes, data_bytes: int = 0, stated: int | None = None) -> None:
    length = len(header) if stated is None else stated
    with file.open("wb") as stream:
        stream.write(length.to_bytes(8, "little") + header)
        stream.truncate(8 + len(header) + data_bytes)


LAYER = "model.layers.{}.mlp.up_proj.weight"


def test_one_file(tmp_path: Path) -> None:
    write_shard(
        tmp_path / "model.safetensors",
        {LAYER.format(0): ("BF16", [64, 32], 4096), "model.norm.weight": ("F32", [64], 256)},
    )
    weights = weight_bytes(tiny(), tmp_path)
    assert (weights.bytes, weights.parameters, weights.exact) == (4352, 2112, True)
    assert "1 safetensors header" in weights.source


def test_shards_of_an_index_and_layers_that_engines_leave_out(tmp_path: Path) -> None:
    names = [LAYER.format(0), LAYER.format(1), LAYER.format(2), "mtp.fc.weight"]
    for shard, name in enumerate(names):
        write_shard(tmp_path / f"model-{shard}.safetensors", {name: ("BF16", [8, 8], 128)})
    write_index(tmp_path, {name: f"model-{shard}.safetensors" for shard, name in enumerate(names)})
    weights = weight_bytes(tiny(), tmp_path)
    assert weights.bytes == 2 * 128
    assert "without 256 bytes" in weights.source


def write_index(folder: Path, weight_map: dict[str, str], total: Any = 1) -> None:
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_a_stored_copy_of_tied_embeddings_is_not_loaded(tmp_path: Path) -> None:
    write_shard(
        tmp_path / "model.safetensors",
        {"model.embed_tokens.weight": ("BF16", [4, 4], 32), "lm_head.weight": ("BF16", [4, 4], 32)},
    )
    assert weight_bytes(tiny(tie_word_embeddings=True), tmp_path).bytes == 32
    assert weight_bytes(tiny(), tmp_path).bytes == 64


def test_packed_tensors_keep_the_formula_for_the_count(tmp_path: Path) -> None:
    write_shard(tmp_path / "model.safetensors", {LAYER.format(0): ("I32", [8, 8], 256)})
    weights = weight_bytes(tiny(quantization_config={"quant_method": "gptq"}), tmp_path)
    assert (weights.bytes, weights.parameters) == (256, weight_bytes(tiny()).parameters)


def test_an_index_without_its_shards_gives_its_total(tmp_path: Path) -> None:
    write_index(tmp_path, {"a": "model-1.safetensors"}, total=4096)
    assert weight_bytes(tiny(), tmp_path).bytes == 4096


def test_a_folder_without_a_checkpoint_is_the_formula(tmp_path: Path) -> None:
    assert weight_bytes(tiny(), tmp_path) == weight_bytes(tiny())


def test_adapters_and_consolidated_copies_are_not_weights(tmp_path: Path) -> None:
    tensor = {LAYER.format(0): ("BF16", [8, 8], 128)}
    for name in ("consolidated", "adapter_model", "part-1", "part-2"):
        write_shard(tmp_path / f"{name}.safetensors", tensor)
    assert weight_bytes(tiny(), tmp_path).bytes == 256


ENTRY = {"dtype": "BF16", "shape": [8, 8], "data_offsets": [0, 128]}


@pytest.mark.parametrize(
    ("header", "stated", "message"),
    [
        (b"{}", 1 << 60, "not a safetensors file"),
        (b"{}", 3, "not a safetensors file"),
        (b"", 0, "not a safetensors file"),
        (b"not json", None, "not JSON"),
        (b"[" * 100_000, None, "not JSON"),
        (b"[1]", None, "not an object"),
        (b"\xff\xfe", None, "not JSON"),
        (json.dumps({"a": 5}).encode(), None, "unknown dtype"),
        (json.dumps({"a": {**ENTRY, "dtype": "Q9"}}).encode(), None, "unknown dtype 'Q9'"),
        (json.dumps({"a": {**ENTRY, "shape": [-8, 8]}}).encode(), None, "natural numbers"),
        (json.dumps({"a": {**ENTRY, "shape": [True]}}).encode(), None, "natural numbers"),
        (json.dumps({"a": {**ENTRY, "shape": [1] * 99}}).encode(), None, "natural numbers"),
        (json.dumps({"a": {**ENTRY, "shape": [1 << 47, 1 << 47]}}).encode(), None, "do not fit"),
        (json.dumps({"a": {**ENTRY, "data_offsets": [0, 1 << 40]}}).encode(), None, "do not fit"),
        (json.dumps({"a": {**ENTRY, "data_offsets": [128, 0]}}).encode(), None, "do not fit"),
        (json.dumps({"a": ENTRY}).encode(), None, "do not fit"),
    ],
)
def test_headers_that_lie(tmp_path: Path, header: bytes, stated: int | None, message: str) -> None:
    write_header(tmp_path / "model.safetensors", header, stated=stated)
    with pytest.raises(ModelError, match=message):
        weight_bytes(tiny(), tmp_path)


@pytest.mark.parametrize(
    "shard", ["../secret.safetensors", "/etc/passwd", "a/b.safetensors", "model.bin", ""]
)
def test_shards_stay_in_the_folder(tmp_path: Path, shard: str) -> None:
    write_index(tmp_path, {"a": shard})
    with pytest.raises(ModelError, match="not a file name beside it"):
        weight_bytes(tiny(), tmp_path)


def test_missing_shards_are_not_a_smaller_model(tmp_path: Path) -> None:
    write_shard(tmp_path / "model-1.safetensors", {"a": ("BF16", [8, 8], 128)})
    write_index(tmp_path, {"a": "model-1.safetensors", "b": "model-2.safetensors"})
    with pytest.raises(ModelError, match="1 of its 2 shards are missing"):
        weight_bytes(tiny(), tmp_path)


@pytest.mark.parametrize("total", [None, -1, 0, "big", 1 << 60, True, 1.5])
def test_absurd_totals(tmp_path: Path, total: Any) -> None:
    write_index(tmp_path, {"a": "model-1.safetensors"}, total=total)
    with pytest.raises(ModelError, match="total_size"):
        weight_bytes(tiny(), tmp_path)


def test_nothing_behind_the_header_is_read(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    write_shard(file, {LAYER.format(0): ("BF16", [1 << 20, 1 << 14], 1 << 35)})
    found = read_checkpoint(tmp_path, layers=2, tied=False)
    assert found is not None
    assert found.bytes == 1 << 35
