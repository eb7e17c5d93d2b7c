"""Prefix sharing by a radix tree with leaf-LRU eviction, as SGLang's ``RadixCache`` does it.

Mirrors SGLang 0.5.23 in what the tree holds and evicts: a running request locks the path of its
prefix; finished sequences stay in the tree; whole leaves that nobody locks are evicted, least
recently used first; a preempted request's private pages are freed at once. Its estimate of the
tokens that running requests are still going to write is not mirrored.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass

from kvbench_pool.page_keys import PageKeyer, PageKeys
from kvbench_pool.policies.base import Job, PoolShape
from kvbench_pool.prefix_tree import Node, PrefixTree


@dataclass(slots=True, eq=False)
class _Holding:
    """What a running job holds: the tree's path down to ``node`` and ``private`` pages."""

    keys: PageKeys
    node: Node
    private: int


class Radix:
    """A radix tree of pages of ``block_size`` tokens; 1 is SGLang's default page."""

    name = "radix"
    preallocates = False
    promised_slots = 0

    def __init__(self, shape: PoolShape) -> None:
        self._page = shape.block_size
        self._total = shape.num_blocks
        self._free = shape.num_blocks
        self._keyer = PageKeyer(shape.block_size)
        self._tree = PrefixTree()
        self._leaves: list[tuple[int, int, Node]] = []
        self._ticks = itertools.count(1)
        self._pushes = itertools.count()
        self._keys: dict[int, PageKeys] = {}
        self._holdings: dict[int, _Holding] = {}
        self._evictable = 0
        self._locked = 0
        self._tree_pages_of_jobs = 0
        self._private_live = 0
        self._evicted = 0

    # --- figures ------------------------------------------------------------------------------

    @property
    def allocated_slots(self) -> int:
        """Slots of locked and private pages."""
        return (self._total - self._free - self._evictable) * self._page

    @property
    def live_slots(self) -> int:
        """Tokens on locked paths, and those that jobs wrote into private pages."""
        return self._locked * self._page + self._private_live

    @property
    def cached_slots(self) -> int:
        """Slots of the tree's pages that nobody locks."""
        return self._evictable * self._page

    @property
    def unshared_slots(self) -> int:
        """Slots that sharing the locked paths saves."""
        return (self._tree_pages_of_jobs - self._locked) * self._page

    @property
    def evicted_slots(self) -> int:
        """Slots of evicted leaves so far."""
        return self._evicted * self._page

    # --- the policy ---------------------------------------------------------------------------

    def fits(self, job: Job) -> bool:
        """Whether the final pages are no more than the pool's."""
        return self._pages_for(job.final_tokens) <= self._total

    def admit(self, job: Job) -> int | None:
        """Lock the longest known prefix, the last token excluded, and take pages for the rest."""
        keys = self._keys_of(job)
        node = self._tree.match(keys, (job.known - 1) // self._page)
        self._lock(node)
        needed = self._pages_for(job.known) - node.end
        if not self._make_free(needed):
            self._unlock(node)
            return None
        self._free -= needed
        self._tree_pages_of_jobs += node.end
        self._holdings[job.index] = _Holding(keys, node, needed)
        return node.end * self._page

    def room(self, job: Job) -> int:
        """Return the free slots of the last page."""
        holding = self._holdings[job.index]
        return (holding.node.end + holding.private) * self._page - job.known

    def grow(self, job: Job) -> bool:
        """Take one page, evicting a leaf when none is free."""
        if not self._make_free(1):
            return False
        self._free -= 1
        self._holdings[job.index].private += 1
        return True

    def wrote(self, slots: int) -> None:
        """Count the tokens."""
        self._private_live += slots

    def computed(self, job: Job) -> None:
        """Move the full pages of the known tokens into the tree."""
        self._insert(job, job.known // self._page)

    def release(self, job: Job) -> None:
        """Leave a finished sequence in the tree; drop what a preempted one holds alone."""
        if job.computed >= job.final_tokens:
            self._insert(job, job.computed // self._page)
        holding = self._holdings.pop(job.index)
        self._free += holding.private
        self._private_live -= job.computed - holding.node.end * self._page
        self._tree_pages_of_jobs -= holding.node.end
        self._unlock(holding.node)
        if job.computed >= job.final_tokens:
            del self._keys[job.index]

    def wasted_outside(self, job: Job) -> int:
        """Any free page serves anybody."""
        return 0

    # --- the tree -----------------------------------------------------------------------------

    def _keys_of(self, job: Job) -> PageKeys:
        if job.index not in self._keys:
            self._keys[job.index] = self._keyer.keys(job.request)
        return self._keys[job.index]

    def _insert(self, job: Job, pages: int) -> None:
        """Give private pages to the tree; those that it has already become free."""
        holding = self._holdings[job.index]
        moved = pages - holding.node.end
        if moved <= 0:
            return
        before = holding.node
        node, added = self._tree.insert(holding.keys, pages)
        self._evictable += added.pages if added else 0
        self._free += moved - (added.pages if added else 0)
        self._lock(node)
        self._unlock(before)
        self._tree_pages_of_jobs += node.end - before.end
        holding.node, holding.private = node, holding.private - moved
        self._private_live -= moved * self._page

    def _lock(self, node: Node) -> None:
        """Hold a path and note its use."""
        tick = next(self._ticks)
        for step in node.path():
            if not step.locks:
                self._evictable -= step.pages
                self._locked += step.pages
            step.locks += 1
            step.stamp = tick

    def _unlock(self, node: Node) -> None:
        for step in node.path():
            step.locks -= 1
            if not step.locks:
                self._evictable += step.pages
                self._locked -= step.pages
                self._offer(step)

    def _offer(self, node: Node) -> None:
        if not node.children and not node.locks:
            heapq.heappush(self._leaves, (node.stamp, next(self._pushes), node))

    def _make_free(self, pages: int) -> bool:
        """Evict leaves until ``pages`` are free; change nothing when that cannot be."""
        if pages > self._free + self._evictable:
            return False
        while self._free < pages:
            self._evict(self._pop_leaf())
        return True

    def _pop_leaf(self) -> Node:
        while True:
            stamp, _, node = heapq.heappop(self._leaves)
            if node.stamp == stamp and not node.locks and not node.children and node.pages:
                return node

    def _evict(self, leaf: Node) -> None:
        parent = leaf.parent
        assert parent is not None
        self._tree.remove(leaf)
        self._free += leaf.pages
        self._evictable -= leaf.pages
        self._evicted += leaf.pages
        leaf.end = leaf.start
        if parent.parent is not None:
            self._offer(parent)

    def _pages_for(self, tokens: int) -> int:
        return -(-tokens // self._page)
