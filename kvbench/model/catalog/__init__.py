"""Real public configs by the name the hub gives them, without the owner."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from kvbench.model.spec import ModelSpec

_FOLDER = Path(__file__).parent


def catalog_names() -> tuple[str, ...]:
    """Names of all catalog models, sorted without regard to case."""
    return tuple(sorted(_paths(), key=str.lower))


def catalog_config(name: str) -> dict[str, Any]:
    """The stored config values of a catalog model, ``_source`` included."""
    loaded: dict[str, Any] = json.loads(_paths()[name].read_text(encoding="utf-8"))
    return loaded


def catalog_model(name: str, *, weights: bool = True) -> ModelSpec | None:
    """Return a catalog model, ``None`` when the catalog has no such name.

    An owner in front (``meta-llama/Llama-3.1-8B``), upper case, a leading ``Meta-`` and a
    trailing ``-hf`` do not matter. ``weights`` sizes the weights too.
    """
    from kvbench.model.hf import spec_from_config

    known = _by_key().get(_key(name))
    if known is None:
        return None
    config, source = catalog_config(known), f"catalog:{known}"
    return spec_from_config(config, name=known, source=source, weights=weights)


def _key(name: str) -> str:
    bare = name.rpartition("/")[2] if name.count("/") == 1 else name
    return bare.lower().removeprefix("meta-").removesuffix("-hf")


@cache
def _by_key() -> dict[str, str]:
    return {_key(name): name for name in _paths()}


@cache
def _paths() -> dict[str, Path]:
    return {path.stem: path for path in _FOLDER.glob("*.json")}
