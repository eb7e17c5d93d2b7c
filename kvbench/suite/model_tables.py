"""``[models.NAME]`` tables: every mistake with its own line, before the model package reads them.

``kvbench.model.load`` stops at a table's first mistake; a suite reports all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvbench.model.catalog import catalog_names
from kvbench.model.inline import KEYS
from kvbench.names import did_you_mean
from kvbench.suite.lines import KeyPath
from kvbench.suite.problems import INVALID, Problems
from kvbench.suite.table_errors import located
from kvbench.suite.types import Array, Field, Integer, Record, Text, Type

_TEXT: Mapping[str, Type] = {
    "dtype": Text(choices=("bf16", "fp16", "fp32", "bfloat16", "float16", "float32")),
    "pattern": Array(item=Text(), unique=False),
}
_LEAST = {"rope_dim": 0}

#: What a table may hold; which keys a geometry needs is the model package's business.
MODEL = Record(
    help="A model: inline geometry, a config file, or changes to another model.",
    fields={
        "config": Field(
            type=Text(), help="A config.json, its folder, a GGUF file, or a catalog name."
        ),
        "inherits": Field(type=Text(), help="Another [models.NAME] table or a catalog name."),
        **{
            name: Field(type=_TEXT.get(name, Integer(minimum=_LEAST.get(name, 1))), help=meaning)
            for name, meaning in KEYS.items()
        },
    },
)


def check_model_tables(tables: Mapping[str, Any], problems: Problems) -> frozenset[str]:
    """Note unknown keys, wrong types and ``inherits`` cycles of all tables.

    Returns:
        Names of the tables that cannot be used.
    """
    broken = {name for name, table in tables.items() if not _is_right(name, table, problems)}
    broken |= _cycles(tables, problems)
    return frozenset(broken | _heirs(tables, broken))


def explain(
    message: str, name: str, tables: Mapping[str, Any], key: KeyPath
) -> tuple[KeyPath, str]:
    """Find what in the suite a ``ModelError`` is about.

    Args:
        message: The error.
        name: Model that was asked for.
        tables: The ``[models]`` tables.
        key: Where it was asked for; the table itself for a table.

    Returns:
        The key path, and the message without what the path says already.
    """
    found = located(message, "models", tables, MODEL)
    if found is not None:
        return found
    reference = name
    if name in tables:
        origin = "config" if "config" in tables[name] else "inherits"
        key, reference = (*key, origin), str(tables[name].get(origin))
    if message.startswith(f"no model {reference!r}"):
        known_names = {*tables, *catalog_names()} - {name}
        return key, f"no model {reference!r}{did_you_mean(reference, known_names)}"
    return key, message


def parent_of(tables: Mapping[str, Any], name: str) -> str | None:
    """Name of the table that table ``name`` inherits from; ``None`` when there is none."""
    table = tables.get(name)
    parent = table.get("inherits") if isinstance(table, dict) else None
    return parent if isinstance(parent, str) and parent in tables else None


def _is_right(name: str, table: object, problems: Problems) -> bool:
    parsed = MODEL.parse(table, ("models", name), problems)
    return parsed is not INVALID and isinstance(table, dict) and len(parsed) == len(table)


def _chain(tables: Mapping[str, Any], name: str) -> list[str]:
    """``name`` and its ancestors; a cycle ends with the name that closes it."""
    chain = [name]
    while (parent := parent_of(tables, chain[-1])) is not None:
        chain.append(parent)
        if parent in chain[:-1]:
            break
    return chain


def _cycles(tables: Mapping[str, Any], problems: Problems) -> set[str]:
    in_cycle: set[str] = set()
    for name in tables:
        chain = _chain(tables, name)
        if len(chain) > 1 and chain[-1] == name and name not in in_cycle:
            in_cycle |= set(chain)
            circle = " -> ".join(chain)
            problems.add(("models", name, "inherits"), f"goes in a circle: {circle}")
    return in_cycle


def _heirs(tables: Mapping[str, Any], broken: set[str]) -> set[str]:
    return {name for name in tables if broken & set(_chain(tables, name))}
