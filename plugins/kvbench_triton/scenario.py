"""One cell's decode step, resolved: shape, lengths, configuration and plan. No torch."""

from __future__ import annotations

import random
from dataclasses import dataclass

from kvbench.engine import Cell
from kvbench.errors import CellFailed, ModelError
from kvbench_triton.config import KernelConfig, Target, pick_config
from kvbench_triton.plan import WorkPlan, plan_work
from kvbench_triton.predict import Traffic, predict_traffic
from kvbench_triton.shape import DecodeShape, decodable_layers, layer_shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What one cell asks for.

    Attributes:
        shape: One layer's decode step.
        lengths: Tokens of every sequence.
        layers: Pools to allocate.
        config: Kernel configuration.
        plan: Work items.
        traffic: Predicted bytes of one layer's step.
    """

    shape: DecodeShape
    lengths: tuple[int, ...]
    layers: int
    config: KernelConfig
    plan: WorkPlan
    traffic: Traffic

    @property
    def blocks(self) -> int:
        """Blocks that the sequences own in one layer's pool."""
        return sum(-(-length // self.shape.page_size) for length in self.lengths)


def resolve(cell: Cell, target: Target) -> Scenario:
    """Return the scenario of ``cell`` on ``target``.

    Raises:
        ModelError: The cell names no model, or one without a layer to decode.
        EngineUnavailable: The kernels do not support the shape or the target.
    """
    if cell.model is None:
        raise ModelError(f"cell {cell.ordinal}: the triton engine needs a model")
    shape = layer_shape(cell.model, dict(cell.settings))
    lengths = draw_lengths(cell)
    config = pick_config(shape, target)
    plan = plan_work(lengths, shape, config, target)
    kind = "mla" if shape.is_mla else "sliding" if shape.window else "full"
    of_kind = sum(layer.kind == kind for layer in decodable_layers(cell.model))
    return Scenario(
        shape=shape,
        lengths=lengths,
        layers=int(cell.settings["layers"]) or of_kind,
        config=config,
        plan=plan,
        traffic=predict_traffic(shape, lengths, plan),
    )


def draw_lengths(cell: Cell) -> tuple[int, ...]:
    """Lengths of the cell's sequences: even steps around ``cached_tokens``, shuffled by the seed.

    Raises:
        CellFailed: ``length_spread`` is above 1.
    """
    count, tokens = int(cell.settings["sequences"]), int(cell.settings["cached_tokens"])
    spread = float(cell.settings["length_spread"])
    if spread > 1:
        raise CellFailed("bad_option", f"length_spread {spread}; at most 1")
    steps = [2 * (place + 0.5) / count - 1 for place in range(count)]
    lengths = [max(1, round(tokens * (1 + spread * step))) for step in steps]
    random.Random(cell.seed).shuffle(lengths)
    return tuple(lengths)
