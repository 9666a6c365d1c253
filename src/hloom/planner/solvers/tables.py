"""Tables over the strategies of a few nodes: what eliminations add up and minimise, and how a choice is found again.

`MinPlus` is for times alone: a cell is the least time. `Frontier` is for times under a budget of memory: a cell is
the set of undominated pairs (time, bytes at each peak), its *states*. Neither keeps which strategy was the best: when
an elimination is undone, the one cell that matters is computed anew by the same operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

Scope = tuple[int, ...]
"""The nodes that a table's dimensions stand for."""

_AT_ONCE = 1 << 24
"""How many comparisons are held in memory at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Times by the strategies of a scope's nodes.

    Of a frontier the last dimension of `time` and the last but one of `memory` are states, sorted by time and filled
    up with infinite times; the last dimension of `memory` are peaks. `ceiling` is the most that the table's nodes and
    edges can hold at each peak.
    """

    scope: Scope
    time: np.ndarray
    memory: np.ndarray | None = None
    ceiling: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """What an elimination chose: the strategy of the node that went (if one did), and the state of each table."""

    strategy: int | None
    states: tuple[int, ...]


class Algebra(Protocol):
    """How tables are joined."""

    def join(self, tables: Sequence[Table], scope: Scope, gone: int | None) -> Table:
        """The sum of tables, over a scope, with one more node minimised out."""
        ...

    def trace(self, tables: Sequence[Table], gone: int | None, choice: Mapping[int, int], state: int) -> Trace:
        """How `join` came to a state, where the strategies of its scope are chosen."""
        ...


class MinPlus:
    """Times alone."""

    def join(self, tables: Sequence[Table], scope: Scope, gone: int | None) -> Table:
        """The sum, with a node's least time.

        left[u,v], v[v], right[v,w]  ->  result[u,w] = min over v of left[u,v] + v[v] + right[v,w]
        """
        order = _order(scope, gone)
        total = _spread(tables[0].time, tables[0].scope, order)
        for table in tables[1:]:
            total = total + _spread(table.time, table.scope, order)
        return Table(scope, total if gone is None else total.min(axis=order.index(gone)))

    def trace(self, tables: Sequence[Table], gone: int | None, choice: Mapping[int, int], state: int) -> Trace:
        """The first of the node's best strategies; a cell has one state only."""
        states = (0,) * len(tables)
        if gone is None:
            return Trace(None, states)
        total = sum(table.time[_at(table.scope, choice)] for table in tables)
        return Trace(int(np.argmin(total)), states)


class Frontier:
    """Undominated pairs of time and memory, within a budget.

    Bytes are counted above the least that each node and edge can hold; `budget` is what remains then. A cell holds
    at most `limit` states, the best at some prices of a byte: once more are undominated, `is_exact` turns false.
    """

    def __init__(self, budget: np.ndarray, ceiling: np.ndarray, limit: int, prices: np.ndarray | None = None) -> None:
        self.budget = budget
        self.ceiling = ceiling  # of the whole graph
        self.limit = limit
        self.prices = prices
        self.is_exact = True

    def join(self, tables: Sequence[Table], scope: Scope, gone: int | None) -> Table:
        """The undominated sums over a scope."""
        order = _order(scope, gone)
        total = self._spread(tables[0], order)
        for table in tables[1:]:
            total, _ = self._add(total, self._spread(table, order))
        if gone is None:
            return Table(scope, total.time, total.memory, total.ceiling)
        total, _ = self._minimise(total, order.index(gone))
        return Table(scope, total.time, total.memory, total.ceiling)

    def trace(self, tables: Sequence[Table], gone: int | None, choice: Mapping[int, int], state: int) -> Trace:
        """The strategy and the states that made a state: the same sums, for one cell."""
        parts = [self._cell(table, gone, choice) for table in tables]
        total, picks = parts[0], []
        for part in parts[1:]:
            total, pick = self._add(total, part)
            picks.append(pick)
        strategy = None
        if gone is not None:
            width = total.time.shape[-1]
            total, pick = self._minimise(total, 0)
            strategy, state = divmod(int(pick[state]), width)
        states = []
        for part, pick in zip(reversed(parts[1:]), reversed(picks), strict=True):
            chosen = int(pick[0 if strategy is None or pick.shape[0] == 1 else strategy, state])
            state, other = divmod(chosen, part.time.shape[-1])
            states.append(other)
        return Trace(strategy, (state, *reversed(states)))

    def _spread(self, table: Table, order: Scope) -> Table:
        assert table.memory is not None
        time = _spread(table.time, table.scope, order)
        return Table(order, time, _spread(table.memory, table.scope, order), table.ceiling)

    def _cell(self, table: Table, gone: int | None, choice: Mapping[int, int]) -> Table:
        """A table where a choice holds, by the strategies of the node that goes; one row where there is no such."""
        assert table.memory is not None
        where = _at(table.scope, choice)
        time, memory = table.time[where], table.memory[where]
        if gone not in table.scope:
            time, memory = time[None], memory[None]
        return Table((0,), time, memory, table.ceiling)

    def _add(self, left: Table, right: Table) -> tuple[Table, np.ndarray]:
        assert left.memory is not None and right.memory is not None
        assert left.ceiling is not None and right.ceiling is not None
        time = left.time[..., :, None] + right.time[..., None, :]
        memory = left.memory[..., :, None, :] + right.memory[..., None, :, :]
        flat = (*time.shape[:-2], time.shape[-2] * time.shape[-1])
        return self._prune(left.scope, time.reshape(flat), memory.reshape(*flat, -1), left.ceiling + right.ceiling)

    def _minimise(self, total: Table, axis: int) -> tuple[Table, np.ndarray]:
        assert total.memory is not None and total.ceiling is not None
        time = np.moveaxis(total.time, axis, -2)
        memory = np.moveaxis(total.memory, axis, -3)
        flat = (*time.shape[:-2], time.shape[-2] * time.shape[-1])
        scope = (*total.scope[:axis], *total.scope[axis + 1 :])
        return self._prune(scope, time.reshape(flat), memory.reshape(*flat, memory.shape[-1]), total.ceiling)

    def _prune(
        self, scope: Scope, time: np.ndarray, memory: np.ndarray, ceiling: np.ndarray
    ) -> tuple[Table, np.ndarray]:
        """Each cell's undominated states that may still end within the budget, and which of the given they are."""
        shape, count, peaks = time.shape[:-1], time.shape[-1], memory.shape[-1]
        time, memory = time.reshape(-1, count), memory.reshape(-1, count, peaks)
        # What stays within the budget whatever the rest holds need not be told apart.
        rest = self.ceiling - ceiling
        memory = np.maximum(memory, np.minimum(self.budget - rest, ceiling))
        time = np.where((memory <= self.budget).all(axis=-1), time, np.inf)
        order = np.lexsort((*(memory[:, :, peak] for peak in reversed(range(peaks))), time), axis=-1)
        time = np.take_along_axis(time, order, axis=-1)
        memory = np.take_along_axis(memory, order[..., None], axis=-2)
        keep = self._thin(_undominated(time, memory), time, memory)
        pick = np.argsort(~keep, axis=-1, kind="stable")[:, : max(1, int(keep.sum(axis=-1).max(initial=0)))]
        time = np.where(np.take_along_axis(keep, pick, -1), np.take_along_axis(time, pick, -1), np.inf)
        memory = np.take_along_axis(memory, pick[..., None], axis=-2)
        chosen = np.take_along_axis(order, pick, axis=-1)
        pruned = Table(scope, time.reshape(*shape, -1), memory.reshape(*shape, -1, peaks), ceiling)
        return pruned, chosen.reshape(*shape, -1)

    def _thin(self, keep: np.ndarray, time: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Of cells with too many states keep some: the best at the prices, or without prices evenly by rank."""
        counts = keep.sum(axis=-1)
        for row in np.flatnonzero(counts > self.limit):
            self.is_exact = False
            states = np.flatnonzero(keep[row])
            keep[row] = False
            if self.prices is None:
                kept = np.linspace(0, len(states) - 1, self.limit).round().astype(int)
            else:
                priced = time[row, states] + memory[row, states] @ self.prices
                kept = np.append(np.argsort(priced, kind="stable")[: self.limit - 1], len(states) - 1)
            keep[row, states[kept]] = True
        return keep


def _undominated(time: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """Which states of each row, sorted by time and then by memory, no earlier one equals or betters everywhere."""
    possible = np.isfinite(time)
    if memory.shape[-1] == 1:
        held = memory[..., 0]
        before = np.full_like(held, np.inf)
        np.minimum.accumulate(held[:, :-1], axis=-1, out=before[:, 1:])
        return possible & (held < before)
    count = time.shape[-1]
    earlier = np.tri(count, k=-1, dtype=bool).T  # [first, second]
    keep = np.empty(time.shape, bool)
    rows = max(1, _AT_ONCE // (count * count * max(1, memory.shape[-1])))
    for start in range(0, len(time), rows):
        part = memory[start : start + rows]
        betters = (part[:, :, None, :] <= part[:, None, :, :]).all(axis=-1) & earlier
        keep[start : start + rows] = possible[start : start + rows] & ~betters.any(axis=1)
    return keep


def _order(scope: Scope, gone: int | None) -> Scope:
    """The scope with the node that goes after the first: minimising then runs along rows that lie together."""
    return scope if gone is None else (*scope[:1], gone, *scope[1:])


def _spread(values: np.ndarray, scope: Scope, order: Scope) -> np.ndarray:
    """A table's values with its dimensions in an order, of size 1 where it has none; further ones stay behind."""
    rank, place = len(scope), {node: axis for axis, node in enumerate(scope)}
    moved = values.transpose((*(place[node] for node in order if node in place), *range(rank, values.ndim)))
    sizes = iter(moved.shape)
    return moved.reshape((*(next(sizes) if node in place else 1 for node in order), *values.shape[rank:]))


def _at(scope: Scope, choice: Mapping[int, int]) -> tuple:
    return tuple(choice.get(node, slice(None)) for node in scope)
