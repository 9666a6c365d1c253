"""A problem in the form that planners work on: nodes with costs of strategies, and factors over related nodes.

Nodes are numbered as the representatives of isomorphic clusters. In the quotient graph a node takes one strategy for
all clusters that it represents, and what they cost is added up; in the full graph it has a copy for each, and a factor
has a row for each set of copies that it relates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hloom.distribute.planner.cost_tables import add_edge_costs
from hloom.distribute.planner.problem import Problem, SharedReshards
from hloom.distribute.planner.solvers.factors import Argument, CostFactor, Kept, pair
from hloom.distribute.planner.solvers.reshard_factor import ReshardFactor


@dataclass(slots=True, eq=False)
class FactorGraph:
    """Costs of each node's strategies (a row per copy), factors, and the numbers of the strategies in the problem."""

    unary: dict[int, np.ndarray]
    factors: list[CostFactor]
    kept: dict[int, np.ndarray]
    _touching: dict[int, dict[int, list[int]]] = field(init=False)

    def __post_init__(self) -> None:
        self._touching = {node: {} for node in self.unary}
        for number, factor in enumerate(self.factors):
            for position, argument in enumerate(factor.arguments):
                self._touching[argument.node].setdefault(number, []).append(position)

    def touching(self, node: int) -> Iterable[tuple[CostFactor, list[int]]]:
        """The factors of a node, and at which of their arguments it stands."""
        return ((self.factors[number], positions) for number, positions in self._touching[node].items())

    @property
    def size(self) -> int:
        """The total number of strategies."""
        return sum(costs.shape[1] for costs in self.unary.values())

    def cost(self, choice: Mapping[int, int]) -> float:
        """What a strategy for each node costs; of factor graphs with one copy of each."""
        alone = sum(float(costs[0, choice[node]]) for node, costs in self.unary.items())
        return alone + sum(value(factor, choice) for factor in self.factors)

    def given(self, node: int, choice: Mapping[int, int]) -> np.ndarray:
        """The cost of each strategy of a node, with the factors whose other nodes are chosen."""
        costs = self.unary[node][0].copy()
        for factor, positions in self.touching(node):
            if all(argument.node in choice or argument.node == node for argument in factor.arguments):
                costs += given(factor, positions, choice)
        return costs

    def restricted(self, kept: Kept) -> FactorGraph:
        """The factor graph with fewer strategies, numbered as in this one."""
        unary = {node: costs[:, kept[node]] for node, costs in self.unary.items()}
        factors = [factor.restricted(kept) for factor in self.factors]
        return FactorGraph(unary, factors, {node: self.kept[node][index] for node, index in kept.items()})

    def named(self, problem: Problem, choice: Mapping[int, int]) -> dict[int, int]:
        """A choice as strategies of all clusters of the problem."""
        chosen = {node: int(self.kept[node][strategy]) for node, strategy in choice.items()}
        return {number: chosen[problem.representative[number]] for number in problem.options}

    def chosen(self, strategies: Mapping[int, int]) -> dict[int, int]:
        """The problem's strategies as a choice here, all of them being here."""
        return {node: int(np.searchsorted(kept, strategies[node])) for node, kept in self.kept.items()}

    def numbered(self, strategies: Mapping[int, int]) -> dict[int, int] | None:
        """The problem's strategies as a choice here; None where one of them is left out."""
        if any(strategies[node] not in kept for node, kept in self.kept.items()):
            return None
        return self.chosen(strategies)


def value(factor: CostFactor, choice: Mapping[int, int]) -> float:
    """The cost of a factor under a choice."""
    groups = [int(argument.of[choice[argument.node]]) for argument in factor.arguments]
    return float(factor.given(0, groups)[groups[0]])


def given(factor: CostFactor, positions: Sequence[int], choice: Mapping[int, int]) -> np.ndarray:
    """What a factor costs for each strategy of the node at these arguments, the others being chosen."""
    node = factor.arguments[positions[0]].node
    groups = [int(argument.of[choice[argument.node]]) if argument.node != node else 0 for argument in factor.arguments]
    if len(positions) == 1:
        return factor.given(positions[0], groups)[factor.arguments[positions[0]].of]
    own = np.stack([factor.arguments[position].of for position in positions])
    costs = np.empty(own.shape[1])
    for strategy, chosen in enumerate(own.T.tolist()):
        for position, group in zip(positions, chosen, strict=True):
            groups[position] = group
        costs[strategy] = factor.given(positions[0], groups)[groups[positions[0]]]
    return costs


def quotient_graph(problem: Problem) -> FactorGraph:
    """The factor graph in which isomorphic clusters take the same strategy."""
    representative = problem.representative
    unary: dict[int, np.ndarray] = {}
    for number, costs in problem.node_costs.items():
        unary[representative[number]] = (
            unary[representative[number]] + costs if representative[number] in unary else np.array(costs, float)
        )
    within, between = _quotient_pairs(representative, problem.edge_costs)
    for node, costs in within.items():
        unary[node] = unary[node] + costs
    factors: list[CostFactor] = [
        pair(first, second, table) for (first, second), table in between.items() if table.any()
    ]
    for group in isomorphic_reshards(problem):
        nodes = [representative[group[0].cluster], *(representative[number] for number, _ in group[0].readers)]
        reshard = reshard_factor(
            group[0], [Argument(node, of) for node, of in zip(nodes, _sides_of(group[0]), strict=True)]
        )
        factors.append(reshard if len(group) == 1 else reshard.scaled(len(group)))
    return FactorGraph(
        {node: costs[None] for node, costs in unary.items()},
        factors,
        {node: np.arange(len(costs)) for node, costs in unary.items()},
    )


def _quotient_pairs(
    representative: Mapping[int, int], pairs: Mapping[tuple[int, int], np.ndarray]
) -> tuple[dict[int, np.ndarray], dict[tuple[int, int], np.ndarray]]:
    """Tables of pairs added up between representatives: those within one node, and those between two."""
    within: dict[int, np.ndarray] = {}
    between: dict[tuple[int, int], np.ndarray] = {}
    for (a, b), table in pairs.items():
        if representative[a] == representative[b]:
            within[representative[a]] = within.get(representative[a], 0.0) + np.diagonal(table)
        else:
            add_edge_costs(between, representative[a], representative[b], table)
    return within, between


def full_graph(problem: Problem) -> FactorGraph:
    """The factor graph in which every cluster chooses independently."""
    members: dict[int, list[int]] = defaultdict(list)
    for number in problem.options:
        members[problem.representative[number]].append(number)
    copy_of = {number: copy for copies in members.values() for copy, number in enumerate(copies)}
    unary = {
        node: np.stack([problem.node_costs[number] for number in copies]).astype(float)
        for node, copies in members.items()
    }
    factors: list[CostFactor] = []
    for table, ends in _equal_pairs(problem):
        copies = tuple(np.array([copy_of[number] for number in argument]) for argument in zip(*ends, strict=True))
        first, second = (problem.representative[number] for number in ends[0])
        factors.append(pair(first, second, table, (copies[0], copies[1])))
    for group in isomorphic_reshards(problem):
        ends = [[shared.cluster, *(number for number, _ in shared.readers)] for shared in group]
        arguments = [
            Argument(problem.representative[numbers[0]], of, np.array([copy_of[number] for number in numbers]))
            for of, numbers in zip(_sides_of(group[0]), zip(*ends, strict=True), strict=True)
        ]
        factors.append(reshard_factor(group[0], arguments))
    return FactorGraph(unary, factors, {node: np.arange(costs.shape[1]) for node, costs in unary.items()})


def isomorphic_reshards(problem: Problem) -> list[list[SharedReshards]]:
    """Shared tables by what they are between representatives of isomorphic clusters."""
    by_key: dict[tuple, list[SharedReshards]] = defaultdict(list)
    for shared in problem.shared_reshards:
        readers = tuple((problem.representative[number], id(demand)) for number, demand in shared.readers)
        by_key[problem.representative[shared.cluster], id(shared.source), readers, tuple(map(id, shared.costs))].append(
            shared
        )
    return list(by_key.values())


def reshard_factor(shared: SharedReshards, arguments: Sequence[Argument]) -> ReshardFactor:
    """A shared table as a factor: a change of spec costs the same whoever asks for it."""
    numbers: dict[object, int] = {}
    specs = [
        np.array([numbers.setdefault(spec, len(numbers)) for spec in demand.specs]) for _, demand in shared.readers
    ]
    costs = np.zeros((len(shared.source.specs), len(numbers)))
    for columns, cost in zip(specs, shared.costs, strict=True):
        costs[:, columns] = cost
    return ReshardFactor(tuple(arguments), costs, tuple(specs))


def _sides_of(shared: SharedReshards) -> list[np.ndarray]:
    return [shared.source.index, *(demand.index for _, demand in shared.readers)]


def _equal_pairs(problem: Problem) -> list[tuple[np.ndarray, list[tuple[int, int]]]]:
    """Tables between the same nodes that are equal, each with the pairs of clusters that have it."""
    by_nodes: dict[tuple[int, int], list[tuple[np.ndarray, list[tuple[int, int]]]]] = defaultdict(list)
    for (a, b), table in problem.edge_costs.items():
        if not table.any():
            continue
        if problem.representative[a] > problem.representative[b]:
            a, b, table = b, a, table.T
        known = by_nodes[problem.representative[a], problem.representative[b]]
        for other, ends in known:
            if other is table or np.array_equal(other, table):
                ends.append((a, b))
                break
        else:
            known.append((table, [(a, b)]))
    return [group for known in by_nodes.values() for group in known]
