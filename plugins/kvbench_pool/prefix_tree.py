"""A compressed prefix tree (radix tree) over the pages of sequences."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from kvbench_pool.page_keys import PageKeys


class Node:
    """An edge of the tree: the pages ``start`` to ``end`` of every sequence that runs through it.

    Attributes:
        keys: A sequence that runs through the node.
        start: First page.
        end: Page after the last one.
        parent: Node of the pages before, ``None`` for the root.
        children: Nodes of the pages after, by what identifies their first page.
        locks: Running jobs that hold the node.
        stamp: When the node was last used.
    """

    __slots__ = ("children", "end", "keys", "locks", "parent", "stamp", "start")

    def __init__(self, keys: PageKeys, start: int, end: int, parent: Node | None) -> None:
        self.keys = keys
        self.start = start
        self.end = end
        self.parent = parent
        self.children: dict[Hashable, Node] = {}
        self.locks = 0
        self.stamp = 0

    @property
    def pages(self) -> int:
        """Pages of this node alone."""
        return self.end - self.start

    def path(self) -> Iterator[Node]:
        """Yield the node and all nodes before it, the root excluded, deepest first."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


class PrefixTree:
    """The tree. A node is split where sequences part or end, and keeps its lower part's identity.

    That identity makes a node that ended a sequence end it for ever, splits notwithstanding.
    """

    def __init__(self) -> None:
        self.root: Node | None = None

    def match(self, keys: PageKeys, pages: int) -> Node:
        """Return the node that ends the longest known prefix of ``keys``, at most ``pages``."""
        node, at = self._root_for(keys), 0
        while at < pages:
            child = node.children.get(keys.first(at))
            if child is None:
                break
            same = keys.common(child.keys, at, min(child.end, pages))
            if same == at:
                break
            node, at = (child if same == child.end else self._split(child, same)), same
        return node

    def insert(self, keys: PageKeys, pages: int) -> tuple[Node, Node | None]:
        """Add the first ``pages`` pages of ``keys``.

        Returns:
            The node that ends them, and the node that was added for what was not known, if any.
        """
        node = self.match(keys, pages)
        if node.end >= pages:
            return node, None
        added = Node(keys, node.end, pages, node)
        node.children[keys.first(node.end)] = added
        return added, added

    def remove(self, leaf: Node) -> None:
        """Take out a node that has no children."""
        if leaf.parent is None or leaf.children:
            raise ValueError("only a leaf below the root can be removed")
        del leaf.parent.children[leaf.keys.first(leaf.start)]

    def _root_for(self, keys: PageKeys) -> Node:
        if self.root is None:
            self.root = Node(keys, 0, 0, None)
        return self.root

    def _split(self, node: Node, at: int) -> Node:
        """Put a new node for the pages before ``at`` above ``node``; return it."""
        upper = Node(node.keys, node.start, at, node.parent)
        upper.locks, upper.stamp = node.locks, node.stamp
        assert node.parent is not None
        node.parent.children[node.keys.first(node.start)] = upper
        upper.children[node.keys.first(at)] = node
        node.start, node.parent = at, upper
        return upper
