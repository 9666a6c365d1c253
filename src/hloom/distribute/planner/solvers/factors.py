"""Factors: joint costs of related nodes, as a table over two or a value read by several, and their messages.

A factor only sees the *group* that a strategy belongs to. A factor may represent many isomorphic ones, one per copy of
its nodes; arrays then have a row for each. Messages say how much of a factor's cost is already charged to each node:
whatever they are, the minima of the remaining costs of all factors and nodes add up to a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

ONE = np.zeros(1, int)
"""The copies of a node that has one."""

Kept = Mapping[int, np.ndarray]
"""By node the strategies that stay."""


@dataclass(slots=True, eq=False)
class Argument:
    """Where a factor touches a node: the group of each strategy, the copy of each row, and the messages."""

    node: int
    of: np.ndarray
    copies: np.ndarray = field(default_factory=lambda: ONE)
    message: np.ndarray = field(init=False)
    _order: np.ndarray = field(init=False)
    _starts: np.ndarray = field(init=False)
    _is_single: bool = field(init=False)
    _is_first: bool = field(init=False)

    def __post_init__(self) -> None:
        self._order = np.argsort(self.of, kind="stable")
        ordered = self.of[self._order]
        self._starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        self._is_single = len(np.unique(self.copies)) == len(self.copies)
        self._is_first = len(self.copies) == 1 and not self.copies[0]
        self.message = np.zeros((len(self.copies), len(self._starts)))

    @property
    def size(self) -> int:
        """How many groups there are."""
        return len(self._starts)

    @property
    def firsts(self) -> np.ndarray:
        """One strategy of each group."""
        return self._order[self._starts]

    def charge(self, costs: np.ndarray) -> None:
        """Add the messages to the costs of the node's strategies, a row per copy."""
        if self._is_first:
            costs[0] += self.message[0][self.of]
            return
        spread = self.message[:, self.of]
        if self._is_single:
            costs[self.copies] += spread
        else:
            np.add.at(costs, self.copies, spread)

    def least(self, costs: np.ndarray) -> np.ndarray:
        """The least cost of each group, a row per factor."""
        if self._is_first:
            return np.minimum.reduceat(costs[0][self._order], self._starts)[None]
        return np.minimum.reduceat(costs[self.copies][:, self._order], self._starts, axis=1)

    def restricted(self, kept: Kept) -> tuple[Argument, np.ndarray]:
        """The argument with fewer strategies, its messages kept, and the groups that are left."""
        groups, of = np.unique(self.of[kept[self.node]], return_inverse=True)
        argument = Argument(self.node, np.ravel(of), self.copies)
        argument.message = self.message[:, groups]
        return argument, groups

    def fresh(self) -> Argument:
        """The argument without messages."""
        return Argument(self.node, self.of, self.copies)


class CostFactor(Protocol):
    """The joint cost of a few nodes."""

    arguments: tuple[Argument, ...]

    @property
    def parts(self) -> Sequence[CostFactor]:
        """Factors that add up to at most this one, small enough for message passing."""
        ...

    def marginal(self, position: int) -> np.ndarray:
        """For each group of one argument, the minimum over the others, minus their messages."""
        ...

    def given(self, position: int, groups: Sequence[int]) -> np.ndarray:
        """The cost of each group of one argument where the groups of the others are known."""
        ...

    def restricted(self, kept: Kept) -> CostFactor:
        """The factor with fewer strategies, messages kept."""
        ...

    def scaled(self, factor: float) -> CostFactor:
        """The factor times a number, without messages."""
        ...


@dataclass(slots=True, eq=False)
class PairFactor:
    """A table over the groups of two nodes."""

    arguments: tuple[Argument, ...]
    table: np.ndarray

    @property
    def parts(self) -> Sequence[CostFactor]:
        """The factor itself."""
        return (self,)

    def marginal(self, position: int) -> np.ndarray:
        """For each group of one argument, the minimum over the other, minus its messages."""
        message = self.arguments[1 - position].message
        if len(message) == 1:
            left = self.table - message if position == 0 else self.table - message.T
            return np.minimum.reduce(left, axis=1 - position)[None]
        if position == 0:
            return (self.table[None] - message[:, None, :]).min(axis=2)
        return (self.table[None] - message[:, :, None]).min(axis=1)

    def given(self, position: int, groups: Sequence[int]) -> np.ndarray:
        """A column or a row of the table."""
        return self.table[:, groups[1]] if position == 0 else self.table[groups[0]]

    def restricted(self, kept: Kept) -> PairFactor:
        """The factor with fewer strategies."""
        (first, rows), (second, columns) = (argument.restricted(kept) for argument in self.arguments)
        return PairFactor((first, second), self.table[np.ix_(rows, columns)])

    def scaled(self, factor: float) -> PairFactor:
        """The factor times a number."""
        return PairFactor(tuple(argument.fresh() for argument in self.arguments), self.table * factor)


def pair(first: int, second: int, table: np.ndarray, copies: tuple[np.ndarray, np.ndarray] = (ONE, ONE)) -> PairFactor:
    """A factor from a full table: strategies whose rows (or columns) are equal are one group."""
    rows, small = _grouped(table)
    columns, small = _grouped(small.T)
    return PairFactor((Argument(first, rows, copies[0]), Argument(second, columns, copies[1])), small.T)


def least(factor: CostFactor) -> np.ndarray:
    """The minimum of a factor's remaining cost, per row."""
    return (factor.marginal(0) - factor.arguments[0].message).min(axis=1)


def _grouped(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The group of each row, and one row per group; groups in the order of their first rows."""
    numbers: dict[bytes, int] = {}
    of = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in np.ascontiguousarray(table)])
    return of, table[np.unique(of, return_index=True)[1]]
