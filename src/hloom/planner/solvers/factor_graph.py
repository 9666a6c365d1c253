"""A problem in the form that planners work on: nodes with costs of strategies, and terms over related nodes.

Nodes are numbered as the clusters that stand for all that are tied to them. In a tied network a node takes one strategy
for all of them, and what they cost is added up; in an untied one it has a copy for each, and a term has a row for each
set of copies that it relates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hloom.planner.problem import Problem, Shared, add_pair
from hloom.planner.solvers.factors import Kept, Side, Term, pair
from hloom.planner.solvers.shared_value import Fan


@dataclass(slots=True, eq=False)
class Network:
    """Costs of each node's strategies (a row per copy), terms, and the numbers of the strategies in the problem."""

    unary: dict[int, np.ndarray]
    terms: list[Term]
    kept: dict[int, np.ndarray]
    _touching: dict[int, dict[int, list[int]]] = field(init=False)

    def __post_init__(self) -> None:
        self._touching = {node: {} for node in self.unary}
        for number, term in enumerate(self.terms):
            for place, side in enumerate(term.sides):
                self._touching[side.node].setdefault(number, []).append(place)

    def touching(self, node: int) -> Iterable[tuple[Term, list[int]]]:
        """The terms of a node, and at which of their sides it stands."""
        return ((self.terms[number], places) for number, places in self._touching[node].items())

    @property
    def size(self) -> int:
        """How many strategies there are in all."""
        return sum(costs.shape[1] for costs in self.unary.values())

    def cost(self, choice: Mapping[int, int]) -> float:
        """What a strategy for each node costs; of networks with one copy of each."""
        alone = sum(float(costs[0, choice[node]]) for node, costs in self.unary.items())
        return alone + sum(value(term, choice) for term in self.terms)

    def given(self, node: int, choice: Mapping[int, int]) -> np.ndarray:
        """The cost of each strategy of a node, with the terms whose other nodes are chosen."""
        costs = self.unary[node][0].copy()
        for term, places in self.touching(node):
            if all(side.node in choice or side.node == node for side in term.sides):
                costs += given(term, places, choice)
        return costs

    def restricted(self, kept: Kept) -> Network:
        """The network with fewer strategies (numbered as here)."""
        unary = {node: costs[:, kept[node]] for node, costs in self.unary.items()}
        terms = [term.restricted(kept) for term in self.terms]
        return Network(unary, terms, {node: self.kept[node][each] for node, each in kept.items()})

    def named(self, problem: Problem, choice: Mapping[int, int]) -> dict[int, int]:
        """A choice as strategies of all clusters of the problem."""
        chosen = {node: int(self.kept[node][strategy]) for node, strategy in choice.items()}
        return {number: chosen[problem.tie[number]] for number in problem.options}

    def chosen(self, strategies: Mapping[int, int]) -> dict[int, int]:
        """The problem's strategies as a choice here, all of them being here."""
        return {node: int(np.searchsorted(kept, strategies[node])) for node, kept in self.kept.items()}

    def numbered(self, strategies: Mapping[int, int]) -> dict[int, int] | None:
        """The problem's strategies as a choice here; None where one of them is left out."""
        if any(strategies[node] not in kept for node, kept in self.kept.items()):
            return None
        return self.chosen(strategies)


def value(term: Term, choice: Mapping[int, int]) -> float:
    """What a term costs under a choice."""
    groups = [int(side.of[choice[side.node]]) for side in term.sides]
    return float(term.given(0, groups)[groups[0]])


def given(term: Term, places: Sequence[int], choice: Mapping[int, int]) -> np.ndarray:
    """What a term costs for each strategy of the node at these sides, the others being chosen."""
    node = term.sides[places[0]].node
    groups = [int(side.of[choice[side.node]]) if side.node != node else 0 for side in term.sides]
    if len(places) == 1:
        return term.given(places[0], groups)[term.sides[places[0]].of]
    own = np.stack([term.sides[place].of for place in places])
    costs = np.empty(own.shape[1])
    for strategy, chosen in enumerate(own.T.tolist()):
        for place, group in zip(places, chosen, strict=True):
            groups[place] = group
        costs[strategy] = term.given(places[0], groups)[groups[places[0]]]
    return costs


def tied(problem: Problem) -> Network:
    """The network in which alike clusters take the same strategy."""
    tie = problem.tie
    unary: dict[int, np.ndarray] = {}
    for number, costs in problem.unary.items():
        unary[tie[number]] = unary[tie[number]] + costs if tie[number] in unary else np.array(costs, float)
    within, between = _tied_pairs(tie, problem.pairs)
    for node, costs in within.items():
        unary[node] = unary[node] + costs
    terms: list[Term] = [pair(first, second, table) for (first, second), table in between.items() if table.any()]
    for group in alike(problem):
        nodes = [tie[group[0].cluster], *(tie[number] for number, _ in group[0].readers)]
        fan = fan_of(group[0], [Side(node, of) for node, of in zip(nodes, _sides_of(group[0]), strict=True)])
        terms.append(fan if len(group) == 1 else fan.scaled(len(group)))
    return Network(
        {node: costs[None] for node, costs in unary.items()},
        terms,
        {node: np.arange(len(costs)) for node, costs in unary.items()},
    )


def _tied_pairs(
    tie: Mapping[int, int], pairs: Mapping[tuple[int, int], np.ndarray]
) -> tuple[dict[int, np.ndarray], dict[tuple[int, int], np.ndarray]]:
    """Tables of pairs added up between representatives: what falls on one node, and what lies between two."""
    within: dict[int, np.ndarray] = {}
    between: dict[tuple[int, int], np.ndarray] = {}
    for (a, b), table in pairs.items():
        if tie[a] == tie[b]:
            within[tie[a]] = within.get(tie[a], 0.0) + np.diagonal(table)
        else:
            add_pair(between, tie[a], tie[b], table)
    return within, between


def untied(problem: Problem) -> Network:
    """The network in which every cluster chooses for itself."""
    members: dict[int, list[int]] = defaultdict(list)
    for number in problem.options:
        members[problem.tie[number]].append(number)
    place = {number: copy for copies in members.values() for copy, number in enumerate(copies)}
    unary = {node: np.stack([problem.unary[each] for each in copies]).astype(float) for node, copies in members.items()}
    terms: list[Term] = []
    for table, ends in _equal_pairs(problem):
        copies = tuple(np.array([place[each] for each in side]) for side in zip(*ends, strict=True))
        first, second = (problem.tie[each] for each in ends[0])
        terms.append(pair(first, second, table, (copies[0], copies[1])))
    for group in alike(problem):
        ends = [[each.cluster, *(number for number, _ in each.readers)] for each in group]
        sides = [
            Side(problem.tie[numbers[0]], of, np.array([place[each] for each in numbers]))
            for of, numbers in zip(_sides_of(group[0]), zip(*ends, strict=True), strict=True)
        ]
        terms.append(fan_of(group[0], sides))
    return Network(unary, terms, {node: np.arange(costs.shape[1]) for node, costs in unary.items()})


def alike(problem: Problem) -> list[list[Shared]]:
    """Shared tables by what they are between tied clusters."""
    found: dict[tuple, list[Shared]] = defaultdict(list)
    for each in problem.shared:
        readers = tuple((problem.tie[number], id(demand)) for number, demand in each.readers)
        found[problem.tie[each.cluster], id(each.source), readers, tuple(map(id, each.costs))].append(each)
    return list(found.values())


def fan_of(shared: Shared, sides: Sequence[Side]) -> Fan:
    """A shared table as a term: a change of spec costs the same whoever asks for it."""
    numbers: dict[object, int] = {}
    specs = [
        np.array([numbers.setdefault(spec, len(numbers)) for spec in demand.specs]) for _, demand in shared.readers
    ]
    costs = np.zeros((len(shared.source.specs), len(numbers)))
    for columns, cost in zip(specs, shared.costs, strict=True):
        costs[:, columns] = cost
    return Fan(tuple(sides), costs, tuple(specs))


def _sides_of(shared: Shared) -> list[np.ndarray]:
    return [shared.source.of, *(demand.of for _, demand in shared.readers)]


def _equal_pairs(problem: Problem) -> list[tuple[np.ndarray, list[tuple[int, int]]]]:
    """Tables between the same nodes that are equal, each with the pairs of clusters that have it."""
    found: dict[tuple[int, int], list[tuple[np.ndarray, list[tuple[int, int]]]]] = defaultdict(list)
    for (a, b), table in problem.pairs.items():
        if not table.any():
            continue
        if problem.tie[a] > problem.tie[b]:
            a, b, table = b, a, table.T
        known = found[problem.tie[a], problem.tie[b]]
        for other, ends in known:
            if other is table or np.array_equal(other, table):
                ends.append((a, b))
                break
        else:
            known.append((table, [(a, b)]))
    return [each for known in found.values() for each in known]
