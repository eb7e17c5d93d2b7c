"""A script of pool operations, shown as a table of states."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from kvbench.engine import Cell, CellOutput
from kvbench.errors import CellFailed
from kvbench.names import did_you_mean
from kvbench_pool.manager import BlockManager, PoolError, PoolExhausted
from kvbench_pool.observe import simulated, simulated_list
from kvbench_pool.settings import memory_of, setting
from kvbench_pool.text_table import text_table

#: Words of each operation after its name.
_OPERATIONS = {
    "allocate": "SEQUENCE TOKENS",
    "append": "SEQUENCE TOKENS",
    "fork": "PARENT CHILD",
    "free": "SEQUENCE",
}
_DEFAULT_BLOCKS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The pool after one operation.

    Attributes:
        operation: The operation, with what it did or why it was refused.
        tables: Block table of each sequence.
        content: What each sequence's slots hold, as runs of write numbers.
        used_blocks: Physical blocks in use.
        refs: Sequences that hold each block in use.
        saved_blocks: Blocks that sharing saves.
    """

    operation: str
    tables: dict[Hashable, tuple[int, ...]]
    content: dict[Hashable, str]
    used_blocks: int
    refs: dict[int, int]
    saved_blocks: int


def run(cell: Cell) -> CellOutput:
    """Walk through the cell's script.

    Raises:
        CellFailed: The script is wrong; the message names the step.
    """
    memory = memory_of(cell, default_blocks=_DEFAULT_BLOCKS)
    pool = BlockManager(memory.num_blocks - memory.null_blocks, memory.block_size)
    states = list(walk(pool, setting(cell, "script", str)))
    used = [state.used_blocks for state in states]
    totals = {
        "final_used_blocks": pool.used_blocks,
        "peak_used_blocks": pool.peak_used_blocks,
        "copied_blocks": pool.copied_blocks,
        "block_size_tokens": memory.block_size,
        "pool_blocks": memory.num_blocks,
    }
    return CellOutput(
        observations=(
            *simulated_list("used_blocks", used),
            *simulated_list("shared_saved_blocks", [state.saved_blocks for state in states]),
            *simulated(totals),
        ),
        effective={"block_size": memory.block_size, "pool_blocks": memory.num_blocks},
        assumptions=memory.assumptions,
        artifacts={"state table": state_table(states)},
    )


def walk(pool: BlockManager, script: str) -> Iterator[State]:
    """Run a script step by step.

    Args:
        pool: A pool, empty at the start.
        script: Operations separated by semicolons or line ends.

    Raises:
        CellFailed: An operation is unknown or makes no sense; running out of blocks is a state.
    """
    steps = [step for step in script.replace("\n", ";").split(";") if step.strip()]
    if not steps:
        raise CellFailed("bad_script", "the script has no operation")
    for number, step in enumerate(steps, start=1):
        words = step.split()
        try:
            did = _apply(pool, *words)
        except PoolExhausted as error:
            did = f" (refused: {error})"
        except PoolError as error:
            raise CellFailed(
                "bad_script", f"script step {number} ({step.strip()}): {error}"
            ) from None
        yield _state(pool, " ".join(words) + did)


def _apply(pool: BlockManager, operation: str, *words: str) -> str:
    """Apply one operation; return what is worth saying about it."""
    form = _OPERATIONS.get(operation)
    if form is None:
        raise PoolError(f"unknown operation {operation!r}{did_you_mean(operation, _OPERATIONS)}")
    if len(words) != len(form.split()):
        raise PoolError(f"expected '{operation} {form}'")
    if operation == "fork":
        pool.fork(*words)
    elif operation == "free":
        pool.free(*words)
    elif operation == "allocate":
        pool.allocate(words[0], _tokens(words[1]))
    else:
        copies = pool.append(words[0], _tokens(words[1])).copies
        return "".join(f" (copies block {source} to {copy})" for source, copy in copies)
    return ""


def _tokens(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise PoolError(f"tokens is {word!r}; expected a positive integer")
    return int(word)


def _state(pool: BlockManager, operation: str) -> State:
    return State(
        operation=operation,
        tables={seq: pool.block_table(seq) for seq in pool.sequences()},
        content={seq: _runs(pool.read(seq)) for seq in pool.sequences()},
        used_blocks=pool.used_blocks,
        refs=pool.ref_counts(),
        saved_blocks=pool.shared_saved_blocks,
    )


def _runs(serials: tuple[int, ...]) -> str:
    """Return serial numbers as runs: ``0-5,9``."""
    runs: list[list[int]] = []
    for serial in serials:
        if runs and runs[-1][1] == serial - 1:
            runs[-1][1] = serial
        else:
            runs.append([serial, serial])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in runs)


def state_table(states: list[State]) -> str:
    """Return the states as a text table, one row per operation.

    References read ``block:sequences``; content reads as serial numbers of the writes that a
    sequence sees, so that a write into somebody else's block would show.
    """
    names = list(dict.fromkeys(name for state in states for name in state.tables))
    header = [
        "step",
        "operation",
        *(f"table {name}" for name in names),
        "live blocks",
        "references",
        "saved",
        *(f"content {name}" for name in names),
    ]
    rows = [
        [
            str(number),
            state.operation,
            *(_listed(state.tables.get(name)) for name in names),
            str(state.used_blocks),
            " ".join(f"{block}:{refs}" for block, refs in state.refs.items()) or "-",
            str(state.saved_blocks),
            *(state.content.get(name, "-") for name in names),
        ]
        for number, state in enumerate(states, start=1)
    ]
    return text_table(header, rows)


def _listed(table: tuple[int, ...] | None) -> str:
    return "-" if table is None else f"[{', '.join(map(str, table))}]"
