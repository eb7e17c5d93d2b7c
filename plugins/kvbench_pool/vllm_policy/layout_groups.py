"""Cache groups of a model's arrangement as the simulator knows them."""

from __future__ import annotations

from kvbench.errors import ModelError
from kvbench.layout import Arrangement, Group
from kvbench_pool.vllm_policy.config import FULL, CacheGroup, GroupKind


def cache_groups(arrangement: Arrangement | None) -> tuple[CacheGroup, ...]:
    """Return the groups of an arrangement, one full group without one.

    Raises:
        ModelError: The simulator does not know such a group.
    """
    if arrangement is None:
        return (FULL,)
    groups = arrangement.groups
    if len(groups) > 1 and not arrangement.null_blocks:
        raise ModelError(
            f"layout {arrangement.layout!r} has no common block ids for {len(groups)} groups; "
            "use layout 'vllm' with policy 'vllm'"
        )
    return tuple([_cache_group(group, arrangement.block_size) for group in groups])


def _cache_group(group: Group, block_size: int) -> CacheGroup:
    if group.kind == "state" and group.fixed_blocks:
        return CacheGroup(kind=GroupKind.STATE, fixed_blocks=group.fixed_blocks)
    known = group.fixed_blocks is None and group.block_size == block_size
    if known and group.window_tokens is None:
        return FULL
    if known and group.kind.startswith("sliding") and group.window_tokens:
        return CacheGroup(kind=GroupKind.SLIDING, window_tokens=group.window_tokens)
    if known and group.kind == "chunked" and group.window_tokens:
        return CacheGroup(kind=GroupKind.CHUNKED, window_tokens=group.window_tokens)
    size = f" with blocks of {group.block_size} tokens in a pool of {block_size}"
    raise ModelError(
        f"the vllm policy does not simulate {group.kind!r} layers"
        f"{size if group.block_size != block_size else ''}"
    )
