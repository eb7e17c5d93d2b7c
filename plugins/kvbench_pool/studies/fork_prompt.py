"""What forking one prompt saves, and what the first divergent writes cost."""

from __future__ import annotations

from kvbench.engine import Cell, CellOutput
from kvbench_pool.manager import BlockManager, PoolExhausted
from kvbench_pool.observe import simulated
from kvbench_pool.one_table import check_one_table
from kvbench_pool.settings import memory_of, setting

#: Blocks of a pool that nobody limited.
_UNLIMITED = 1 << 62


def run(cell: Cell) -> CellOutput:
    """Fork the cell's prompt and let every child write.

    Raises:
        CellFailed: The pool is too small, an option is missing, or the model needs several tables
            per request.
    """
    check_one_table(cell, "study 'fork'")
    prompt, forks = setting(cell, "context_tokens", int), setting(cell, "forks", int)
    new_tokens = setting(cell, "new_tokens", int)
    memory = memory_of(cell, default_blocks=_UNLIMITED)
    usable = memory.num_blocks - memory.null_blocks
    if usable < 1:
        raise PoolExhausted("pool_exhausted", "the pool has no block to hand out")
    # More than the prompt, and a copied block with the new ones for each child, is never used.
    own = 2 + new_tokens // memory.block_size
    enough = -(-prompt // memory.block_size) + forks * own
    blocks = fork_blocks(
        BlockManager(min(usable, enough), memory.block_size, content=False),
        prompt_tokens=prompt,
        forks=forks,
        new_tokens=new_tokens,
    )
    values: dict[str, float] = {**blocks, "block_size_tokens": memory.block_size}
    if memory.bytes_per_block is not None:
        values |= _in_bytes(blocks, memory.bytes_per_block)
    return CellOutput(
        observations=tuple(simulated(values)),
        effective={"block_size": memory.block_size, "layout": memory.layout},
        assumptions=(
            *memory.assumptions,
            f"The prompt stays beside its {forks} children; every child writes {new_tokens} "
            "tokens after the fork.",
        ),
    )


def fork_blocks(
    pool: BlockManager, *, prompt_tokens: int, forks: int, new_tokens: int
) -> dict[str, int]:
    """Fork a prompt in an empty pool and return what it takes, in blocks.

    Raises:
        PoolExhausted: The pool is too small for it.
    """
    prompt = len(pool.allocate("prompt", prompt_tokens))
    children = [f"child {number}" for number in range(forks)]
    for child in children:
        pool.fork("prompt", child)
    after_fork, saved = pool.used_blocks, pool.shared_saved_blocks
    first = len(pool.append(children[0], 1).new_blocks)
    for number, child in enumerate(children):
        rest = new_tokens if number else new_tokens - 1
        if rest:
            pool.append(child, rest)
    return {
        "unshared_used_blocks": prompt * (forks + 1),
        "fork_used_blocks": after_fork,
        "shared_saved_blocks": saved,
        "divergent_append_blocks": first,
        "copied_blocks": pool.copied_blocks,
        "peak_used_blocks": pool.peak_used_blocks,
    }


def _in_bytes(blocks: dict[str, int], bytes_per_block: int) -> dict[str, int]:
    names = {
        "unshared_used_blocks": "unshared_used_bytes",
        "fork_used_blocks": "fork_used_bytes",
        "shared_saved_blocks": "shared_saved_bytes",
        "divergent_append_blocks": "divergent_append_bytes",
        "peak_used_blocks": "peak_used_bytes",
    }
    in_bytes = {to: blocks[name] * bytes_per_block for name, to in names.items()}
    return {**in_bytes, "block_bytes": bytes_per_block}
