"""Bytes that a device holds at some moments, over the nodes of a factor graph, and their price in the costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hloom.planner.memory_row import MemoryRow
from hloom.planner.problem import Problem
from hloom.planner.solvers.factor_graph import FactorGraph
from hloom.planner.solvers.factors import Argument, Kept, PairFactor, pair


@dataclass(frozen=True, slots=True, eq=False)
class PairMemory:
    """Bytes of pairs of strategies: a table for each moment over the same groups."""

    arguments: tuple[Argument, ...]
    tables: np.ndarray

    def priced(self, prices: np.ndarray) -> PairFactor:
        """The cost of these bytes; messages to the arguments stay."""
        return PairFactor(self.arguments, np.tensordot(prices, self.tables, axes=1))


@dataclass(slots=True, eq=False)
class MemoryUse:
    """Bytes at each moment: what nothing changes, those of each strategy (a row for each), those of pairs."""

    names: tuple[str, ...]
    constants: np.ndarray
    unary: dict[int, np.ndarray]
    pairs: list[PairMemory]
    _touching: dict[int, list[tuple[PairMemory, int]]] = field(init=False)

    def __post_init__(self) -> None:
        self._touching = defaultdict(list)
        for pair_memory in self.pairs:
            for position, argument in enumerate(pair_memory.arguments):
                self._touching[argument.node].append((pair_memory, position))

    def of(self, choice: Mapping[int, int]) -> np.ndarray:
        """The bytes of a choice at each moment."""
        total = self.constants + sum(memory[choice[node]] for node, memory in self.unary.items())
        for pair_memory in self.pairs:
            first, second = (int(argument.of[choice[argument.node]]) for argument in pair_memory.arguments)
            total = total + pair_memory.tables[:, first, second]
        return total

    def given(self, node: int, choice: Mapping[int, int]) -> np.ndarray:
        """What each strategy of a node holds at each moment (a row for each), alone and with the others as chosen."""
        memory = self.unary[node]
        for pair_memory, position in self._touching[node]:
            own, other = pair_memory.arguments[position], pair_memory.arguments[1 - position]
            group = other.of[choice[other.node]]
            memory = (
                memory + (pair_memory.tables[:, :, group] if position == 0 else pair_memory.tables[:, group]).T[own.of]
            )
        return memory

    def looks(self, node: int) -> list[np.ndarray]:
        """The groups of a node's strategies in each of its pairs."""
        return [pair_memory.arguments[position].of for pair_memory, position in self._touching[node]]

    def priced(self, graph: FactorGraph, prices: np.ndarray) -> FactorGraph:
        """The factor graph with bytes paid for; messages stay where they are."""
        return FactorGraph(
            {node: costs + self.unary[node] @ prices for node, costs in graph.unary.items()},
            [*graph.factors, *(pair_memory.priced(prices) for pair_memory in self.pairs)],
            graph.kept,
        )

    def alone(self, graph: FactorGraph, prices: np.ndarray) -> FactorGraph:
        """The factor graph with nothing but the bytes to pay for."""
        unary = {node: np.zeros_like(costs) + self.unary[node] @ prices for node, costs in graph.unary.items()}
        return FactorGraph(unary, [pair_memory.priced(prices) for pair_memory in self.pairs], graph.kept)

    def restricted(self, kept: Kept) -> MemoryUse:
        """The same over fewer strategies."""
        unary = {node: memory[kept[node]] for node, memory in self.unary.items()}
        return MemoryUse(
            self.names, self.constants, unary, [_restricted(pair_memory, kept) for pair_memory in self.pairs]
        )


def memory_use(problem: Problem, graph: FactorGraph, rows: Sequence[MemoryRow]) -> MemoryUse:
    """Rows over clusters as rows over the nodes of the quotient graph."""
    quotient_rows = [row.by_representative(problem.representative) for row in rows]
    unary: dict[int, np.ndarray] = {}
    for node in graph.unary:
        nothing = np.zeros(len(problem.options[node]))
        unary[node] = np.stack([row.unary.get(node, nothing) for row in quotient_rows], axis=1)
    pairs: list[PairMemory] = []
    for first, second in sorted({ends for row in quotient_rows for ends in row.pairs}):
        nothing = np.zeros((len(problem.options[first]), len(problem.options[second])))
        pairs.append(
            _together(first, second, np.stack([row.pairs.get((first, second), nothing) for row in quotient_rows]))
        )
    names, constants = tuple(row.name for row in rows), np.array([row.constant for row in rows], float)
    return MemoryUse(names, constants, unary, pairs).restricted(graph.kept)


def _together(first: int, second: int, tables: np.ndarray) -> PairMemory:
    """Tables over the groups of strategies that hold the same at all moments."""
    rows = pair(first, second, np.concatenate(list(tables), axis=1)).arguments[0]
    columns = pair(first, second, np.concatenate(list(tables), axis=0)).arguments[1]
    return PairMemory((rows, columns), tables[:, rows.firsts][:, :, columns.firsts])


def _restricted(pair_memory: PairMemory, kept: Kept) -> PairMemory:
    (first, rows), (second, columns) = (argument.restricted(kept) for argument in pair_memory.arguments)
    return PairMemory((first, second), pair_memory.tables[:, rows][:, :, columns])
