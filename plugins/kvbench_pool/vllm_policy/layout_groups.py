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
    own = None if group.block_size == block_size else group.block_size
    if group.fixed_blocks is None and group.window_tokens is None:
        return CacheGroup(block_size=own)
    if group.kind.startswith("sliding") and group.window_tokens:
        kind = GroupKind.SLIDING
    elif group.kind == "chunked" and group.window_tokens:
        kind = GroupKind.CHUNKED
    else:
        raise ModelError(f"the vllm policy does not simulate {group.kind!r} layers")
    return CacheGroup(kind=kind, window_tokens=group.window_tokens, block_size=own)
