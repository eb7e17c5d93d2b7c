"""Find a model by the reference a user gives: catalog name, file, suite table or hub id."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvbench.errors import ModelError
from kvbench.model.catalog import catalog_model, catalog_names
from kvbench.model.inline import KEYS, check_keys, inline_model, override
from kvbench.model.spec import ModelSpec
from kvbench.names import did_you_mean

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+\Z")
_TABLE_KEYS = {
    **KEYS,
    "config": "path of a config.json, its folder, a GGUF file, or a hub id",
    "inherits": "name of another model table or of the catalog",
}


def load_model(
    reference: str,
    *,
    tables: Mapping[str, Mapping[str, Any]] | None = None,
    base: Path | None = None,
    weights: bool = True,
) -> ModelSpec:
    """Return the model spec behind ``reference``.

    Args:
        reference: A table of ``tables``, a catalog name, a ``config.json`` or its folder, a GGUF
            file, ``FILE.toml#NAME`` for a ``[models.NAME]`` table of a file, or a hub id
            ``owner/name`` (needs the extra ``hub``). The first that exists wins; a reference
            with a slash is a path first.
        tables: The ``[models]`` tables of a suite.
        base: Folder that relative paths start from, the working directory by default.
        weights: Size the weights of a config too; what needs only the cache is faster without.

    Raises:
        ModelError: Nothing found, or what was found cannot be sized; the message says why.
    """
    found = tables or {}
    folder = base or Path()
    if reference in found:
        return _table_model(reference, found, folder, seen=())
    return _reference_model(reference, folder, weights=weights)


def _reference_model(reference: str, folder: Path, *, weights: bool = True) -> ModelSpec:
    if not reference.strip():
        raise ModelError("the model's name is empty")
    if "/" in reference and ".toml" not in reference and _exists(folder / reference):
        return _file_model(folder / reference, weights=weights)
    model = catalog_model(reference, weights=weights)
    if model is not None:
        return model
    path, _, table = reference.partition("#")
    if path.endswith(".toml"):
        return _toml_model(folder / path, table)
    if _exists(folder / reference):
        return _file_model(folder / reference, weights=weights)
    if reference.endswith((".json", ".gguf")) or reference.startswith((".", "/", "~")):
        raise ModelError(f"{reference}: no such file or folder")
    if _HUB_ID.match(reference):
        return _hub_model(reference)
    raise ModelError(f"no model {reference!r}{_hint(reference)}")


def _hint(reference: str) -> str:
    near = did_you_mean(reference, catalog_names())
    return near if "mean" in near else "; `kvbench models` lists the catalog"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError) as error:
        raise ModelError(f"the model's path cannot be used: {error}") from None


def _file_model(path: Path, *, weights: bool) -> ModelSpec:
    if path.suffix == ".gguf":
        from kvbench.model.gguf import read_gguf

        return read_gguf(path)
    from kvbench.model.hf import read_config_file

    return read_config_file(path, weights=weights)


def _hub_model(reference: str) -> ModelSpec:
    from kvbench.model.hf import spec_from_config
    from kvbench.model.hub import fetch_config, fetch_weight_bytes

    config, source = fetch_config(reference)
    model = spec_from_config(config, name=reference, source=source)
    if model.weight_bytes is not None:
        return model
    return replace(
        model,
        weight_bytes=fetch_weight_bytes(reference),
        weight_source="total_size of the hub's checkpoint index",
    )


def _toml_model(path: Path, table: str) -> ModelSpec:
    import tomllib

    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: not a TOML file: {error}") from None
    models = document.get("models")
    if not isinstance(models, dict) or not models:
        raise ModelError(f"{path}: it has no [models.NAME] table")
    name = table or (next(iter(models)) if len(models) == 1 else "")
    if name not in models:
        wanted = f"no table [models.{name}]" if name else "name one table as FILE.toml#NAME"
        raise ModelError(f"{path}: {wanted}{did_you_mean(name, models)}")
    try:
        return _table_model(name, models, path.parent, seen=())
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def _table_model(
    name: str, tables: Mapping[str, Mapping[str, Any]], folder: Path, seen: tuple[str, ...]
) -> ModelSpec:
    table = tables[name]
    if not isinstance(table, Mapping):
        raise ModelError(f"model {name!r}: expected a table, got {type(table).__name__}")
    if name in seen:
        raise ModelError(f"model {name!r}: inherits goes in a circle: {' -> '.join(seen)}")
    check_keys(name, table, _TABLE_KEYS)
    own = {key: value for key, value in table.items() if key in KEYS}
    if "config" in table and "inherits" in table:
        raise ModelError(f"model {name!r}: config and inherits exclude each other")
    if "config" in table:
        return override(_config_of(name, table, folder), name, own)
    if "inherits" not in table:
        return inline_model(name, own, source=f"[models.{name}]")
    return _inherited(name, own, tables, folder, seen)


def _config_of(name: str, table: Mapping[str, Any], folder: Path) -> ModelSpec:
    config = table["config"]
    if not isinstance(config, str):
        raise ModelError(f"model {name!r}: config must be a path, got {config!r}")
    return _reference_model(config, folder)


def _inherited(
    name: str,
    own: Mapping[str, Any],
    tables: Mapping[str, Mapping[str, Any]],
    folder: Path,
    seen: tuple[str, ...],
) -> ModelSpec:
    parent = tables[name]["inherits"]
    if not isinstance(parent, str):
        raise ModelError(f"model {name!r}: inherits must be a name, got {parent!r}")
    if parent not in tables:
        return override(_reference_model(parent, folder), name, own)
    merged = _merged(parent, tables, (*seen, name))
    if merged is not None:
        return inline_model(name, {**merged, **own}, source=f"[models.{name}]")
    model = _table_model(parent, tables, folder, (*seen, name))
    return replace(override(model, name, own), source=f"[models.{name}]")


def _merged(
    name: str, tables: Mapping[str, Mapping[str, Any]], seen: tuple[str, ...]
) -> dict[str, Any] | None:
    """Keys of a chain of inline tables, ``None`` when the chain ends in a file or the catalog."""
    if name in seen:
        raise ModelError(f"model {name!r}: inherits goes in a circle: {' -> '.join(seen)}")
    table = tables[name]
    check_keys(name, table, _TABLE_KEYS)
    if "config" in table:
        return None
    own = {key: value for key, value in table.items() if key in KEYS}
    if "inherits" not in table:
        return own
    if table["inherits"] not in tables:
        return None
    parent = _merged(table["inherits"], tables, (*seen, name))
    return None if parent is None else {**parent, **own}
