"""Adapters by ``model_type``: each turns the fields of one family into caches per decoder layer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from kvbench.model.hf.fields import Fields
from kvbench.model.spec import LayerSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """What an adapter returns.

    Attributes:
        layers: Caches of every decoder layer, in model order; an empty tuple holds none.
        traits: See ``ModelSpec.traits``.
        assumptions: Sentences about anything the config does not state.
    """

    layers: tuple[tuple[LayerSpec, ...], ...]
    traits: frozenset[str] = field(default_factory=frozenset)
    assumptions: tuple[str, ...] = ()


Adapter: TypeAlias = Callable[[Fields], Decoder]

_ADAPTERS: dict[str, Adapter] = {}


def adapter(*model_types: str) -> Callable[[Adapter], Adapter]:
    """Register a function as the adapter of ``model_types``."""

    def register(function: Adapter) -> Adapter:
        for model_type in model_types:
            if model_type in _ADAPTERS:
                raise ValueError(f"two adapters claim model_type {model_type!r}")
            _ADAPTERS[model_type] = function
        return function

    return register


def adapters() -> dict[str, Adapter]:
    """All adapters by ``model_type``."""
    return dict(_ADAPTERS)


def find(model_type: str) -> Adapter | None:
    """The adapter of a family, ``None`` when no adapter claims it."""
    return _ADAPTERS.get(model_type)


def one_each(layers: Iterable[LayerSpec]) -> tuple[tuple[LayerSpec, ...], ...]:
    """Decoder layers that own one cache each."""
    wrapped: dict[int, tuple[LayerSpec, ...]] = {}
    return tuple([wrapped.setdefault(id(layer), (layer,)) for layer in layers])
