"""The memory budget of one rank: what is left for the KV pool, with an interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kvbench.device.conditions import Conditions
from kvbench.device.estimate import Estimate, minus
from kvbench.device.terms import TERMS, Term, stated_term
from kvbench.model.spec import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """``memory × utilization − Σ terms`` on the fullest rank.

    Attributes:
        at: The conditions it was made for.
        requested: Bytes the engine may use.
        terms: What it uses for other things, in order.
    """

    at: Conditions
    requested: Estimate
    terms: tuple[Term, ...]

    @property
    def kv_bytes(self) -> Estimate:
        """Bytes left for the pool; negative when the rest does not fit."""
        return minus(self.requested, [term.size for term in self.terms])

    @property
    def largest_doubt(self) -> Term:
        """The term with the widest interval."""
        return max(self.terms, key=lambda term: term.size.spread)


def make_budget(
    model: ModelSpec,
    at: Conditions,
    stated: Mapping[str, int] = MappingProxyType({}),
) -> Budget:
    """Make the budget of ``model`` under ``at``.

    Args:
        model: The model; its weights must be known unless they are stated.
        at: Device, ranks and engine settings.
        stated: Terms the user knows better, bytes on one rank by name.

    Raises:
        DeviceError: ``stated`` names no term.
        ModelError: Weights that nobody knows.
    """
    known = {name: stated_term(name, size) for name, size in stated.items()}
    terms = (known.get(name) or term(model, at) for name, term in TERMS.items())
    low, usual, high = (int(total * at.utilization) for total in at.device.memory_interval)
    return Budget(
        at=at,
        requested=Estimate(low=low, expected=usual, high=high),
        terms=tuple(terms),
    )
