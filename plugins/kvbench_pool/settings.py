"""A cell's settings as the studies read them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from kvbench.engine import Cell, Scalar
from kvbench.errors import CellFailed
from kvbench.layout import Arrangement, LayoutOptions
from kvbench.model.spec import ModelSpec
from kvbench.plugins import load_plugins
from kvbench_pool.device_pool import DevicePool, device_pool

_T = TypeVar("_T", int, float, str, bool)

#: Settings that an engine's layout reads under the same name; ``paged`` has none.
_ENGINE = ("max_num_batched_tokens", "async_scheduling", "enable_prefix_caching", "max_model_len")

#: Tokens per block when neither the suite nor a layout says.
_DEFAULT_BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The pool of a cell.

    Attributes:
        num_blocks: Blocks, null blocks included.
        null_blocks: Blocks that are never handed out.
        block_size: Tokens per block.
        bytes_per_block: Bytes of one block, ``None`` without a model.
        layout: Name of the layout, empty without a model.
        assumptions: What the layout assumed.
    """

    num_blocks: int
    null_blocks: int
    block_size: int
    bytes_per_block: int | None
    layout: str
    assumptions: tuple[str, ...]


def setting(cell: Cell, name: str, kind: type[_T]) -> _T:
    """Return a setting that the cell must have.

    Raises:
        CellFailed: It has none; the message says what the study needs.
    """
    value = cell.settings.get(name)
    if value is None:
        study = cell.settings.get("study")
        raise CellFailed("option_missing", f"study {study!r} needs the option {name!r}")
    return kind(value)


def optional_int(cell: Cell, name: str) -> int | None:
    """Return an integer setting, ``None`` when the cell has none."""
    value = cell.settings.get(name)
    return None if value is None else int(value)


def arrangement_of(cell: Cell) -> Arrangement | None:
    """Arrange the cell's model in its layout, ``None`` without a model.

    Raises:
        ModelError: The layout refuses the model.
    """
    if cell.model is None:
        return None
    layout = layout_of(cell)
    engine = {} if layout == "paged" else {name: cell.settings.get(name) for name in _ENGINE}
    return _arranged(
        cell.model,
        layout,
        optional_int(cell, "block_size"),
        setting(cell, "kv_dtype", str),
        (setting(cell, "tp", int), setting(cell, "pp", int)),
        tuple((name, value) for name, value in engine.items() if value is not None),
    )


def layout_of(cell: Cell) -> str:
    """Return the name of the cell's layout: the stated one, or the policy's own."""
    stated = cell.settings.get("layout")
    own = "vllm" if cell.settings.get("policy") == "vllm" else "paged"
    return own if stated is None else str(stated)


@lru_cache(maxsize=256)
def _arranged(
    model: ModelSpec,
    layout: str,
    block_size: int | None,
    kv_dtype: str,
    ranks: tuple[int, int],
    engine: tuple[tuple[str, Scalar], ...],
) -> Arrangement:
    tp, pp = ranks
    options = LayoutOptions(
        block_size=block_size, kv_dtype=kv_dtype, tp=tp, pp=pp, engine=dict(engine)
    )
    return load_plugins().layout(layout).arrange(model, options)


def memory_of(cell: Cell, *, default_blocks: int | None = None) -> Memory:
    """Return the pool that a cell's settings describe.

    Args:
        cell: The cell.
        default_blocks: Size of the pool when the cell names none.

    Raises:
        CellFailed: Neither blocks nor bytes nor a device are given, or the bytes buy no block.
        ModelError: The layout refuses the model.
    """
    arrangement = arrangement_of(cell)
    pool = device_pool(cell) if default_blocks is None and not _states_pool(cell) else None
    num_blocks = _num_blocks(cell, arrangement, default_blocks, pool)
    if arrangement is None:
        return Memory(
            num_blocks=num_blocks,
            null_blocks=0,
            block_size=optional_int(cell, "block_size") or _DEFAULT_BLOCK_SIZE,
            bytes_per_block=None,
            layout="",
            assumptions=(),
        )
    return Memory(
        num_blocks=num_blocks,
        null_blocks=arrangement.null_blocks,
        block_size=arrangement.block_size,
        bytes_per_block=arrangement.bytes_per_block,
        layout=arrangement.layout,
        assumptions=(*arrangement.assumptions, *([pool.assumption] if pool else [])),
    )


def _states_pool(cell: Cell) -> bool:
    return any(cell.settings.get(name) is not None for name in ("pool_blocks", "budget_bytes"))


def _num_blocks(
    cell: Cell, arrangement: Arrangement | None, default: int | None, pool: DevicePool | None
) -> int:
    stated, budget = optional_int(cell, "pool_blocks"), optional_int(cell, "budget_bytes")
    if stated is not None and budget is not None:
        raise CellFailed("option_conflict", "give pool_blocks or budget_bytes, not both")
    if stated is not None:
        return stated
    if budget is None and pool is not None:
        budget = pool.budget_bytes
    if budget is None:
        if default is None:
            raise CellFailed(
                "option_missing",
                "give the pool as pool_blocks or budget_bytes, or a model and a device",
            )
        return default
    if arrangement is None:
        raise CellFailed("option_missing", "budget_bytes needs a model to become blocks")
    blocks = arrangement.num_blocks(budget)
    if blocks <= arrangement.null_blocks:
        raise CellFailed(
            "pool_too_small",
            f"{budget} bytes buy {blocks} blocks of {arrangement.bytes_per_block} bytes",
        )
    return blocks
