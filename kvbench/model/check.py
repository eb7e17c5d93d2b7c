"""Bounds on what a config may say: it comes from strangers and is data, never code."""

from __future__ import annotations

from kvbench.errors import ModelError

#: Generous upper bounds; the largest public models stay a factor of 20 below each.
MAX_LAYERS = 4096
MAX_HEADS = 8192
MAX_DIM = 1 << 20
MAX_TOKENS = 1 << 30


def integer(value: object, name: str, *, minimum: int = 1, maximum: int = MAX_DIM) -> int:
    """Return ``value`` when it is an integer within bounds.

    Raises:
        ModelError: Naming the field, what it holds and what would be right.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ModelError(f"{name} must be an integer, got {_shown(value)}")
    if not minimum <= value <= maximum:
        raise ModelError(f"{name} must be between {minimum} and {maximum}, got {value}")
    return value


def text(value: object, name: str) -> str:
    """Return ``value`` when it is a string.

    Raises:
        ModelError: Naming the field.
    """
    if not isinstance(value, str):
        raise ModelError(f"{name} must be a string, got {_shown(value)}")
    return value


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
