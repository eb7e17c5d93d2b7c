"""Errors of the domain packages, put back to the table and key that they are about."""

from __future__ import annotations

import re
from collections.abc import Container

from kvbench.suite.lines import KeyPath
from kvbench.suite.types import Record

_MESSAGE = re.compile(r"\w+ '(?P<table>[^']*)': (?P<rest>(?P<key>\w*).*)", re.DOTALL)


def located(
    message: str, kind: str, tables: Container[str], record: Record
) -> tuple[KeyPath, str] | None:
    """Split ``model 'x': kv_heads must be ...`` into its key path and the rest.

    Args:
        message: The error.
        kind: Root table (``models``).
        tables: Names of its tables.
        record: Their keys.

    Returns:
        ``None`` when the message is about none of the tables.
    """
    match = _MESSAGE.fullmatch(message)
    if match is None or match["table"] not in tables:
        return None
    table: KeyPath = (kind, match["table"])
    key = match["key"]
    return ((*table, key) if key in record.fields else table), match["rest"]
