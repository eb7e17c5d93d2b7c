"""Content ids: SHA-256 over canonical JSON, equal in every process and on every machine.

An id covers what can change a number and nothing else: not the place of a file (its digest is
covered), not comments, not the order of tables, not limits that only end a repeat early.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from kvbench.results.metadata import canonical_json

#: Fields of specs that say where a figure comes from or how the user calls it. The name is in
#: the cell's settings, as the suite wrote it.
_NOT_CONTENT = frozenset({"name", "source", "weight_source", "assumptions", "path"})

#: Limits of the protocol: they end repeats and runs, and change no sample.
_LIMITS = frozenset({"timeout_s", "on_failure"})


def digest(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of plain data, in hex."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def spec_digest(spec: Any) -> str:
    """Return the digest of a model, device or workload spec: its content without its origin."""
    return digest(_plain(spec, _NOT_CONTENT))


def protocol_content(protocol: Any) -> Any:
    """Return what of a protocol can change a number, as plain data."""
    return _plain(protocol, _LIMITS)


def _plain(value: Any, left_out: frozenset[str] = frozenset()) -> Any:
    if dataclasses.is_dataclass(value):
        fields = {
            field.name: _plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.name not in left_out
        }
        # Two layer kinds can have the same fields.
        return {**fields, "": type(value).__name__}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=canonical_json)
    if isinstance(value, Enum | Path):
        return str(value)
    return value
