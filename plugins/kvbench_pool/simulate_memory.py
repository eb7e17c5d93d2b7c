"""The pool that the options of ``kvbench simulate`` describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvbench.layout import Arrangement
    from kvbench.model.spec import ModelSpec
    from kvbench_pool.settings import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMemory:
    """The pool: blocks, and bytes where a model says what fills them."""

    num_blocks: int
    block_size: int
    model: ModelSpec | None = None
    arrangement: Arrangement | None = None

    def as_of_a_cell(self) -> Memory:
        """Return the pool as a suite's cell would have it, every block of it usable."""
        from kvbench_pool.settings import Memory

        arrangement = self.arrangement
        return Memory(
            num_blocks=self.num_blocks,
            null_blocks=0,
            block_size=self.block_size,
            bytes_per_block=arrangement.bytes_per_block if arrangement else None,
            layout=arrangement.layout if arrangement else "",
            assumptions=arrangement.assumptions if arrangement else (),
        )


def pool_memory(options: dict[str, Any]) -> PoolMemory:
    """Return the pool that the options describe.

    Raises:
        KvbenchError: No such model or layout, the layout refuses the model, or the bytes buy no
            block.
    """
    model = arrangement = None
    if options["model"]:
        from kvbench.errors import KvbenchError
        from kvbench.layout import LayoutOptions
        from kvbench.model.load import load_model
        from kvbench.plugins import load_plugins

        model = load_model(options["model"])
        layout = options["layout"] or ("vllm" if options["policy"] == "vllm" else "paged")
        layout_options = LayoutOptions(
            block_size=options["block_size"],
            kv_dtype=options["kv_dtype"],
            tp=options["tp"],
            engine=_engine_options(options) if layout == "vllm" else {},
        )
        arrangement = load_plugins().layout(layout).arrange(model, layout_options)
    if arrangement is None:
        return PoolMemory(num_blocks=options["blocks"], block_size=options["block_size"] or 16)
    blocks = options["blocks"] or arrangement.num_blocks(options["budget"])
    if blocks <= arrangement.null_blocks:
        raise KvbenchError(
            f"--budget {options['budget']} bytes buys {blocks} blocks of "
            f"{arrangement.bytes_per_block} bytes; expected {arrangement.null_blocks + 1} or more"
        )
    return PoolMemory(
        num_blocks=blocks,
        block_size=arrangement.block_size,
        model=model,
        arrangement=arrangement,
    )


def _engine_options(options: dict[str, Any]) -> dict[str, object]:
    engine: dict[str, object] = {
        "max_num_batched_tokens": options["max_num_batched_tokens"],
        "async_scheduling": options["async_scheduling"],
    }
    if options["no_prefix_caching"]:
        engine["enable_prefix_caching"] = False
    return engine


def byte_figures(memory: PoolMemory, peak_blocks: float) -> dict[str, Any]:
    """Return the pool's figures for a summary, bytes where there is a model."""
    figures: dict[str, Any] = {"num_blocks": memory.num_blocks, "block_size": memory.block_size}
    if memory.arrangement is None:
        return figures
    per_block = memory.arrangement.bytes_per_block
    return figures | {
        "layout": memory.arrangement.layout,
        "bytes_per_block": per_block,
        "pool_bytes": memory.num_blocks * per_block,
        "peak_used_bytes": int(peak_blocks * per_block),
    }
