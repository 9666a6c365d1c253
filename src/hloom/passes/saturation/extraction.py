"""Extraction: chooses one node per needed class such that the total cost, each node counted once, is minimal.

If there are not too many nodes, exactly, as an integer program (`extraction_model.py`): a chosen node requires one of
each operand's class, and where classes depend on each other in a cycle, classes are numbered so that a chosen node
comes after its operands (as in Tensat, Yang et al. 2021). Otherwise by local search from the choice of minimum tree
cost, changing single classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hloom.ir import Node
from hloom.passes.saturation.egraph import EGraph
from hloom.passes.saturation.extraction_model import NEAR, ExtractionModel

MOST_COLUMNS = 6_000
"""The largest number of nodes among which an integer program chooses."""
MOST_VISITS = 2_000_000
"""The maximum number of nodes the local search visits in total: it traverses a choice to price each change."""

Choice = dict[int, Node]
"""The chosen node of each class."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """The chosen nodes of the needed classes, their cost, and a lower bound on the cost of any choice.

    The bound is 0 where none was computed.
    """

    choice: Choice
    cost: float
    bound: float


def extract(
    egraph: EGraph,
    roots: Sequence[Node],
    cost_of: Callable[[Node], float],
    program: Iterable[Node] = (),
    seconds_of: Callable[[Node], float] | None = None,
) -> Extraction:
    """Choose the cheapest nodes that yield the values of the roots; with `seconds_of`, of near ties the fastest.

    `program` yields the roots with its nodes in order and is one of the choices, so the result costs no more.
    """
    space = _Space(egraph, roots, cost_of, seconds_of)
    given = space.by_program(program)
    best, bound = space.cheaper(space.by_trees(), given), 0.0
    solved, fastest = None, None
    if len(space.nodes) == len(space.options):
        bound = space.cost(best)  # there is no choice
    elif len(space.nodes) <= MOST_COLUMNS:
        solved = space.by_integer_program()
    if solved is not None:
        choice, fastest, bound = solved
        best = space.cheaper(best, choice)
    elif not bound:
        best = space.improved(best)
    if seconds_of is not None:
        best = space.fastest(best, fastest, given)
    needed = space.needed(best)
    cost = space.cost(best)
    bound = min(bound, cost)  # the solver's bound may exceed it by its tolerance
    return Extraction({number: best[number] for number in needed}, cost, bound)


class _Space:
    """The classes that may be needed, and the nodes of each, with their costs."""

    def __init__(
        self,
        egraph: EGraph,
        roots: Sequence[Node],
        cost_of: Callable[[Node], float],
        seconds_of: Callable[[Node], float] | None,
    ) -> None:
        self.egraph = egraph
        self._price, self._time = cost_of, seconds_of
        self.roots = list(dict.fromkeys(egraph.class_of[root] for root in roots))
        self.options = {number: egraph.distinct[number] for number in egraph.reachable(roots)}
        self.nodes = [node for nodes in self.options.values() for node in nodes]
        self.cost_of = {node: cost_of(node) for node in self.nodes}
        self.seconds_of = {node: seconds_of(node) for node in self.nodes} if seconds_of else {}
        self.operands = {node: tuple(dict.fromkeys(egraph.operands(node))) for node in self.nodes}

    def by_trees(self) -> Choice:
        """The choice of minimum tree cost, in which shared nodes are paid for at each use; it has no cycles."""
        cost: dict[int, float] = dict.fromkeys(self.options, math.inf)
        choice: Choice = {}
        users: dict[int, list[int]] = {}
        for number, nodes in self.options.items():
            for node in nodes:
                for operand in self.operands[node]:
                    users.setdefault(operand, []).append(number)
        pending = dict.fromkeys(reversed(list(self.options)))
        while pending:
            number = next(iter(pending))
            del pending[number]
            for node in self.options[number]:
                total = self.cost_of[node] + sum(cost[operand] for operand in self.operands[node])
                if total < cost[number] * (1 - 1e-12) or (number not in choice and total < math.inf):
                    cost[number], choice[number] = total, node
                    pending |= dict.fromkeys(users.get(number, ()))
        return choice

    def by_program(self, program: Iterable[Node]) -> Choice | None:
        """The choice of a program's own nodes, of several in one class the first, which needs none of the others."""
        choice: Choice = {}
        for node in program:
            if choice.setdefault(self.egraph.class_of[node], node) is node and node not in self.cost_of:
                self.cost_of[node] = self._price(node)
                if self._time is not None:
                    self.seconds_of[node] = self._time(node)
                self.operands[node] = tuple(dict.fromkeys(self.egraph.operands(node)))
        return choice or None

    def cheaper(self, choice: Choice, other: Choice | None) -> Choice:
        """The choice that costs less, of equals the first."""
        return choice if other is None or self.cost(choice) <= self.cost(other) else other

    def fastest(self, cheapest: Choice, other: Choice | None, given: Choice | None) -> Choice:
        """Of choices that cost nearly what the cheapest does, and no more than the given one, the fastest."""
        most = self.cost(cheapest) * (1 + NEAR)
        if given is not None:
            most = min(most, self.cost(given))
        near = [choice for choice in (other, given) if choice is not None and self.cost(choice) <= most]
        return min((cheapest, *near), key=self.seconds)

    def seconds(self, choice: Mapping[int, Node]) -> float:
        """How long the chosen nodes that are needed take."""
        return math.fsum(self.seconds_of[choice[number]] for number in self.needed(choice))

    def needed(self, choice: Mapping[int, Node]) -> dict[int, None]:
        """The classes that a choice needs, operands first; raises ValueError where they need each other in a circle."""
        ordered: dict[int, None] = {}
        entered: set[int] = set()
        pending = list(self.roots)
        while pending:
            number = pending[-1]
            if number in ordered:
                pending.pop()
                continue
            waiting = [operand for operand in self.operands[choice[number]] if operand not in ordered]
            if not waiting:
                ordered[number] = None
                pending.pop()
                continue
            if number in entered:
                raise ValueError("a circle")
            entered.add(number)
            pending += waiting
        return ordered

    def cost(self, choice: Mapping[int, Node]) -> float:
        """The cost of the chosen nodes that are needed."""
        return math.fsum(self.cost_of[choice[number]] for number in self.needed(choice))

    def improved(self, choice: Choice) -> Choice:
        """A choice changed class by class as long as that makes it cheaper."""
        best = self.cost(choice)
        visits = 0
        for _ in range(2):
            changed = False
            open_classes = [number for number in self.needed(choice) if len(self.options[number]) > 1]
            for number in open_classes:
                for node in self.options[number] if visits < MOST_VISITS else ():
                    visits += len(choice)
                    other = choice | {number: node}
                    try:
                        cost = self.cost(other)
                    except ValueError:
                        continue
                    if cost < best * (1 - 1e-12):
                        best, choice, changed = cost, other, True
            if not changed:
                break
        return choice

    def by_integer_program(self) -> tuple[Choice | None, Choice | None, float] | None:
        """The cheapest choice that the solver finds, the fastest near it, and the bound; None where it finds none."""
        solved = ExtractionModel(self.options, self.operands, self.cost_of, self.roots, self.seconds_of).solve()
        if solved is None:
            return None
        *choices, bound = solved
        cheapest, fastest = (self._without_circles(choice) for choice in choices)
        return cheapest, fastest, bound

    def _without_circles(self, choice: Choice) -> Choice | None:
        try:
            self.needed(choice)
        except ValueError:
            return None
        return choice
