"""Bytes that a choice holds at one moment, as a linear row: tables by cluster, and by pair of clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(slots=True)
class MemoryRow:
    """The bytes that a device holds when `name` runs: a constant, and what each cluster's strategy adds.

    `unary` has the bytes of each strategy of a cluster, `pairs` those of each pair of strategies of two clusters, the
    lower number first: copies of a value in the spec that a reader asks for.
    """

    unary: dict[int, np.ndarray] = field(default_factory=dict)
    pairs: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)
    constant: float = 0.0
    name: str = ""

    def add(self, cluster: int, table: np.ndarray) -> None:
        """Add bytes per strategy of a cluster."""
        self.unary[cluster] = self.unary[cluster] + table if cluster in self.unary else table

    def add_pair(self, a: int, b: int, table: np.ndarray) -> None:
        """Add bytes per strategy of `a` (rows) and `b` (columns); of one cluster with itself, the diagonal counts."""
        if a == b:
            self.add(a, np.diagonal(table))
            return
        if a > b:
            a, b, table = b, a, table.T
        self.pairs[a, b] = self.pairs[a, b] + table if (a, b) in self.pairs else table

    def bytes(self, choice: Mapping[int, int]) -> float:
        """What a choice holds then."""
        total = self.constant + sum(float(table[choice[number]]) for number, table in self.unary.items())
        return total + sum(float(table[choice[a], choice[b]]) for (a, b), table in self.pairs.items())

    def by_representative(self, representative: Mapping[int, int]) -> MemoryRow:
        """The same over the representatives of isomorphic clusters, which all take one strategy."""
        row = MemoryRow(constant=self.constant, name=self.name)
        for number, table in self.unary.items():
            row.add(representative[number], table)
        for (a, b), table in self.pairs.items():
            row.add_pair(representative[a], representative[b], table)
        return row
