"""Disjoint sets that are joined step by step (union-find)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class DisjointSets(Generic[Item]):
    """Sets of items, each item at first in a set of its own; a set is known by one of its items, its root."""

    def __init__(self) -> None:
        self._parents: dict[Item, Item] = {}
        """For each item except roots, an item of its set that is closer to the root."""

    def root(self, item: Item) -> Item:
        """The root of an item's set; halves the way to it (Tarjan and van Leeuwen 1984)."""
        parents = self._parents
        while item in parents:
            parent = parents[item]
            parents[item] = item = parents.get(parent, parent)
        return item

    def join(self, kept: Item, joined: Item) -> bool:
        """Put two sets together, of which the first keeps its root; whether they were two."""
        kept, joined = self.root(kept), self.root(joined)
        if kept == joined:
            return False
        self._parents[joined] = kept
        return True
