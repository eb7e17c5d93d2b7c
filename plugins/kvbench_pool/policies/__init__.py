"""Memory policies by name. Adding one is adding a class and its line here."""

from __future__ import annotations

from collections.abc import Callable

from kvbench_pool.policies.base import Job, MemoryPolicy, PoolShape
from kvbench_pool.policies.forked import Forked
from kvbench_pool.policies.paged import NoSharing
from kvbench_pool.policies.radix import Radix
from kvbench_pool.policies.reserved import Buddy, Contiguous, Static

#: Policies that ``kvbench_pool.replay`` can run; ``vllm`` has a scheduler of its own.
POLICIES: dict[str, Callable[[PoolShape], MemoryPolicy]] = {
    "radix": Radix,
    "fork": Forked,
    "no_sharing": NoSharing,
    "contiguous": Contiguous,
    "buddy": Buddy,
    "static": Static,
}

__all__ = ["POLICIES", "Job", "MemoryPolicy", "PoolShape"]
