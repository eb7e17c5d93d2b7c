"""The header of a GGUF file: its metadata and the bytes of its tensors. No tensor is read.

Layout (little-endian, versions 2 and 3): magic ``GGUF``, u32 version, u64 tensors, u64 entries;
each entry a string key, a u32 type and a value; each tensor a name, a u32 rank, u64 dimensions, a
u32 type and a u64 offset. Strings are a u64 length and bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from kvbench.errors import ModelError

#: No published file has more; what a stranger's file says beyond this is refused, not read.
_MAX_ENTRIES = 4096
_MAX_TENSORS = 1 << 20
_MAX_KEY_BYTES = 1 << 16
_MAX_STRING_BYTES = 16 << 20
_MAX_ITEMS = 16 << 20
#: Longest array that is kept; longer ones (vocabularies) are skipped.
_KEPT_ITEMS = 4096
_SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
    12: "<d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufHeader:
    """What the header says.

    Attributes:
        metadata: Entries by key; arrays longer than 4,096 items are left out.
        tensor_bytes: Bytes of all tensors.
        parameters: Elements of all tensors.
        first_shape: Dimensions of each tensor by name, for the few that geometry needs.
    """

    metadata: dict[str, Any]
    tensor_bytes: int
    parameters: int
    first_shape: dict[str, tuple[int, ...]]


def read_header(path: Path) -> GgufHeader:
    """Read the header of ``path``.

    Raises:
        ModelError: The package ``gguf`` is missing, or the file is not GGUF, cut short or absurd.
    """
    sizes = _quant_sizes()
    try:
        with path.open("rb") as stream:
            return _Reader(stream, path).header(sizes)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from None


def _quant_sizes() -> dict[int, tuple[int, int]]:
    """Elements and bytes of one block of each tensor type, as the package lists them."""
    try:
        from gguf.constants import GGML_QUANT_SIZES
    except ImportError:
        raise ModelError(
            "reading GGUF files needs the package gguf: pip install 'kvbench[gguf]'"
        ) from None
    return {int(kind): sizes for kind, sizes in GGML_QUANT_SIZES.items()}


class _Reader:
    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream = stream
        self._path = path

    def header(self, sizes: dict[int, tuple[int, int]]) -> GgufHeader:
        if self._bytes(4) != b"GGUF":
            raise ModelError(f"{self._path}: not a GGUF file")
        version = self._number("<I")
        if version not in (2, 3):
            raise ModelError(f"{self._path}: GGUF version {version} is not 2 or 3")
        tensors = self._bounded("<Q", _MAX_TENSORS, "tensors")
        entries = self._bounded("<Q", _MAX_ENTRIES, "entries")
        metadata = dict(self._entry() for _ in range(entries))
        total, elements, shapes = 0, 0, {}
        for _ in range(tensors):
            name, shape, kind = self._tensor()
            count = self._elements(name, shape)
            per_block, block_bytes = self._block(name, kind, sizes)
            total += -(-count // per_block) * block_bytes
            elements += count
            if name.endswith(("token_embd.weight", "output.weight")):
                shapes[name] = shape
        return GgufHeader(
            metadata={key: value for key, value in metadata.items() if value is not None},
            tensor_bytes=total,
            parameters=elements,
            first_shape=shapes,
        )

    def _entry(self) -> tuple[str, Any]:
        key = self._string(_MAX_KEY_BYTES)
        return key, self._value(self._number("<I"), key)

    def _value(self, kind: int, key: str) -> Any:
        if kind == _STRING:
            return self._string(_MAX_STRING_BYTES)
        if kind == _ARRAY:
            return self._array(key)
        if kind not in _SCALARS:
            raise ModelError(f"{self._path}: {key[:80]!r} has an unknown type {kind}")
        return self._number(_SCALARS[kind])

    def _array(self, key: str) -> list[Any] | None:
        kind = self._number("<I")
        count = self._bounded("<Q", _MAX_ITEMS, f"items of {key[:80]!r}")
        if kind == _ARRAY or (kind != _STRING and kind not in _SCALARS):
            raise ModelError(f"{self._path}: {key[:80]!r} is an array of unknown type {kind}")
        if kind == _STRING:
            kept = count <= _KEPT_ITEMS
            items = [self._string(_MAX_STRING_BYTES) for _ in range(count)] if kept else None
            if not kept:
                self._skip_strings(count)
            return items
        form = _SCALARS[kind]
        if count > _KEPT_ITEMS:
            self._stream.seek(count * struct.calcsize(form), 1)
            return None
        data = self._bytes(count * struct.calcsize(form))
        return [item[0] for item in struct.iter_unpack(form, data)]

    def _skip_strings(self, count: int) -> None:
        for _ in range(count):
            self._stream.seek(self._bounded("<Q", _MAX_STRING_BYTES, "bytes of a string"), 1)

    def _tensor(self) -> tuple[str, tuple[int, ...], int]:
        name = self._string(_MAX_KEY_BYTES)
        rank = self._bounded("<I", 8, f"dimensions of {name[:80]!r}")
        shape = tuple(self._number("<Q") for _ in range(rank))
        kind = self._number("<I")
        self._number("<Q")
        return name, shape, kind

    def _elements(self, name: str, shape: tuple[int, ...]) -> int:
        count = 1
        for dimension in shape:
            count *= dimension
        if not 0 < count < 1 << 48:
            raise ModelError(f"{self._path}: tensor {name[:80]!r} has an absurd shape {shape}")
        return count

    def _block(self, name: str, kind: int, sizes: dict[int, tuple[int, int]]) -> tuple[int, int]:
        if kind not in sizes:
            raise ModelError(f"{self._path}: tensor {name[:80]!r} has an unknown type {kind}")
        return sizes[kind]

    def _string(self, limit: int) -> str:
        size = self._bounded("<Q", limit, "bytes of a string")
        return self._bytes(size).decode("utf-8", errors="replace")

    def _bounded(self, form: str, limit: int, what: str) -> int:
        count = int(self._number(form))
        if count > limit:
            raise ModelError(f"{self._path}: {count:,} {what} are more than {limit:,}")
        return count

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    def _bytes(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ModelError(f"{self._path}: the GGUF header is cut short")
        return data
