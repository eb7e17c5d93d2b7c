"""A cell's model in its layout, and what a budget admits there."""

from __future__ import annotations

from functools import lru_cache

from kvbench.engine import Cell, Scalar
from kvbench.layout import Arrangement, LayoutOptions
from kvbench.model.spec import ModelSpec
from kvbench.plugins import load_plugins
from kvbench_analytic.options import LAYOUT_OPTIONS


@lru_cache(maxsize=1024)
def arranged(
    model: ModelSpec,
    layout: str,
    block_size: int | None,
    kv_dtype: str,
    tp: int,
    pp: int,
    engine: tuple[tuple[str, Scalar], ...] = (),
) -> Arrangement:
    """Arrange ``model``; equal cells share the result."""
    options = LayoutOptions(
        block_size=block_size, kv_dtype=kv_dtype, tp=tp, pp=pp, engine=dict(engine)
    )
    return load_plugins().layout(layout).arrange(model, options)


def cell_arrangement(cell: Cell, model: ModelSpec) -> Arrangement:
    """Arrange the cell's model as its settings say.

    Raises:
        ModelError: The layout refuses the model with these settings.
        PluginError: No such layout.
    """
    settings = cell.settings
    block_size = settings.get("block_size")
    return arranged(
        model,
        str(settings["layout"]),
        None if block_size is None else int(block_size),
        str(settings["kv_dtype"]),
        int(settings["tp"]),
        int(settings["pp"]),
        engine_settings(cell),
    )


def engine_settings(cell: Cell) -> tuple[tuple[str, Scalar], ...]:
    """Options of the layout's engine that the cell states; the plain layout has none."""
    if not load_plugins().layout(str(cell.settings["layout"])).mirrors:
        return ()
    return tuple((name, cell.settings[name]) for name in LAYOUT_OPTIONS if name in cell.settings)


def admitted(arrangement: Arrangement, budget_bytes: int, tokens: int) -> int:
    """Whole requests of ``tokens`` tokens that ``budget_bytes`` admit at once."""
    blocks = arrangement.num_blocks(budget_bytes)
    return int(arrangement.max_concurrency(blocks, tokens))
