"""Bytes of a checkpoint's tensors, from the headers of its files alone.

A safetensors file starts with eight bytes (little-endian length) and that many bytes of JSON:
``{name: {dtype, shape, data_offsets: [begin, end]}}``. Nothing behind the header is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from kvbench.errors import ModelError

#: The format's own limit is 100 MB.
MAX_HEADER_BYTES = 100_000_000
_MAX_INDEX_BYTES = 64 << 20
_MAX_SHARDS = 4096
_BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16,
    "I16": 16, "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8,
    "F4": 4, "C64": 64, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip
_PLAIN_DTYPES = frozenset({"F32", "F16", "BF16"})
_LAYER = re.compile(r"(?:^|\.)layers\.([0-9]{1,5})\.")
_SHARD = re.compile(r"[\w.-]+\.safetensors\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What the headers of one checkpoint say.

    Attributes:
        bytes: Bytes of the tensors an engine loads.
        skipped_bytes: Bytes of tensors it does not: extra prediction layers, a stored copy of
            tied embeddings.
        parameters: Elements of the loaded tensors, ``None`` when some are packed.
        source: Which headers were read.
    """

    bytes: int
    skipped_bytes: int
    parameters: int | None
    source: str


def read_checkpoint(folder: Path, *, layers: int | None, tied: bool) -> Checkpoint | None:
    """Read the checkpoint in ``folder``; ``None`` when it holds none.

    Args:
        folder: Folder of the model.
        layers: Decoder layers of the model; tensors of further layers are extra prediction
            layers that engines load only for speculation.
        tied: The output projection is the embedding.

    Raises:
        ModelError: A header that lies, is too large or is broken, by file.
    """
    files = _files(folder)
    if not files:
        return _index_total(folder)
    loaded, skipped, elements, packed = 0, 0, 0, False
    for file in files:
        for name, dtype, size in read_header(file):
            if _is_extra(name, layers) or (tied and name == "lm_head.weight"):
                skipped += size
                continue
            loaded += size
            elements += size * 8 // _BITS[dtype]
            packed |= dtype not in _PLAIN_DTYPES
    count = f"{len(files)} safetensors header{'s' if len(files) > 1 else ''}"
    return Checkpoint(
        bytes=loaded,
        skipped_bytes=skipped,
        parameters=None if packed else elements,
        source=f"{count} in {folder.name}",
    )


def read_header(file: Path) -> Iterator[tuple[str, str, int]]:
    """Yield name, dtype and bytes of each tensor in one safetensors file.

    Raises:
        ModelError: The file is shorter than its header says, or the header is broken.
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            header = _header(stream, file, size)
    except OSError as error:
        raise ModelError(f"{file}: {error.strerror or error}") from None
    room = size - 8 - header[1]
    for name, entry in header[0].items():
        if name != "__metadata__":
            yield name, *_tensor(file, name, entry, room)


def _header(stream: BinaryIO, file: Path, size: int) -> tuple[dict[str, Any], int]:
    start = stream.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or not 2 <= length <= min(size - 8, MAX_HEADER_BYTES):
        raise ModelError(
            f"{file}: not a safetensors file: its header would be {length} bytes of {size}"
        )
    try:
        header = json.loads(stream.read(length))
    except (ValueError, RecursionError):
        raise ModelError(f"{file}: its safetensors header is not JSON") from None
    if not isinstance(header, dict):
        raise ModelError(f"{file}: its safetensors header is not an object")
    return header, length


def _tensor(file: Path, name: str, entry: object, room: int) -> tuple[str, int]:
    where = f"{file}: tensor {name[:80]!r}"
    if not isinstance(entry, dict) or entry.get("dtype") not in _BITS:
        got = entry.get("dtype") if isinstance(entry, dict) else entry
        raise ModelError(f"{where}: unknown dtype {str(got)[:40]!r}")
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    if not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        raise ModelError(f"{where}: shape and data_offsets must be lists of natural numbers")
    begin, end = offsets
    elements = 1
    for dimension in shape:
        elements *= dimension
    if end > room or begin > end or (end - begin) != -(-elements * _BITS[entry["dtype"]] // 8):
        raise ModelError(f"{where}: offsets {begin}..{end} do not fit shape {shape} or the file")
    return entry["dtype"], end - begin


def _naturals(value: object) -> TypeGuard[list[int]]:
    return (
        isinstance(value, list)
        and len(value) <= 16
        and all(type(item) is int and 0 <= item < 1 << 48 for item in value)
    )


def _is_extra(name: str, layers: int | None) -> bool:
    if name.startswith(("mtp.", "model.mtp.")):
        return True
    found = _LAYER.search(name)
    outside = name.startswith(("model.layers.", "layers.", "model.language_model.layers."))
    return bool(found and outside and layers is not None and int(found[1]) >= layers)


def _files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        shards = sorted(_shards(index))
        missing = [name for name in shards if not (folder / name).is_file()]
        if not missing:
            return [folder / name for name in shards]
        if len(missing) < len(shards):
            raise ModelError(f"{index}: {len(missing)} of its {len(shards)} shards are missing")
        return []
    single = folder / "model.safetensors"
    if single.is_file():
        return [single]
    return [
        file for file in sorted(folder.glob("*.safetensors"))[:_MAX_SHARDS]
        if not file.name.startswith(("consolidated", "adapter"))
    ]  # fmt: skip


def _shards(index: Path) -> set[str]:
    names = _read_index(index).get("weight_map")
    if not isinstance(names, Mapping) or not names:
        raise ModelError(f"{index}: it has no weight_map")
    shards = set(map(str, names.values()))
    bad = next((name for name in shards if not _SHARD.match(name)), None)
    if bad is not None or len(shards) > _MAX_SHARDS:
        raise ModelError(f"{index}: shard {str(bad)[:60]!r} is not a file name beside it")
    return shards


def _read_index(index: Path) -> dict[str, Any]:
    try:
        if index.stat().st_size > _MAX_INDEX_BYTES:
            raise ModelError(f"{index}: larger than {_MAX_INDEX_BYTES >> 20} MiB, not an index")
        value = json.loads(index.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{index}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise ModelError(f"{index}: not JSON") from None
    if not isinstance(value, dict):
        raise ModelError(f"{index}: not an object")
    return value


def _index_total(folder: Path) -> Checkpoint | None:
    for name in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        index = folder / name
        if index.is_file():
            total = index_total_bytes(_read_index(index), str(index))
            return Checkpoint(
                bytes=total, skipped_bytes=0, parameters=None, source=f"total_size of {name}"
            )
    return None


def index_total_bytes(index: Mapping[str, Any], where: str) -> int:
    """Return ``metadata.total_size`` of a checkpoint index.

    Raises:
        ModelError: Missing or absurd.
    """
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    if type(total) is not int or not 0 < total < 1 << 50:
        raise ModelError(f"{where}: metadata.total_size must be a size in bytes, got {total!r}")
    return total
