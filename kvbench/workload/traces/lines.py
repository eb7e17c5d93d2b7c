"""Lines of a trace file, whatever it is compressed with; told by its first bytes."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from kvbench.errors import TraceError

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_CHUNK_BYTES = 1 << 20


def read_magic(path: Path, count: int = 4) -> bytes:
    """Return the first ``count`` bytes of a file.

    Raises:
        TraceError: The file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return stream.read(count)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from error


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        TraceError: The file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from error
    return digest.hexdigest()


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes] | Any]:
    """Open a plain, gzip or zstd file for reading decompressed bytes.

    Raises:
        TraceError: The file cannot be read.
    """
    magic = read_magic(path)
    if magic.startswith(_GZIP):
        with gzip.open(path, "rb") as stream:
            yield stream
    elif magic == _ZSTD:
        import pyarrow as pa

        with pa.OSFile(str(path)) as raw, pa.CompressedInputStream(raw, "zstd") as stream:
            yield stream
    else:
        with path.open("rb") as stream:
            yield stream


def _chunks(path: Path) -> Iterator[bytes]:
    try:
        with open_bytes(path) as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path}: the compressed data are damaged or cut off: {error}") from error


def iter_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file without their line ends, one chunk in memory at a time.

    Raises:
        TraceError: The file cannot be read or its compression is damaged.
    """
    rest = b""
    for chunk in _chunks(path):
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        yield from lines
    if rest:
        yield rest
