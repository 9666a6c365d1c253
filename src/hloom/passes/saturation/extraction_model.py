"""Extraction as an integer program: a column per node that may be chosen, and rows for its requirements.

It solves quickly thanks to a precomputation: the classes that every way to compute a class needs. A node whose operands
need its own class is in no program; a node is dominated if another of its class costs no more and needs nothing beyond
what the first needs; and where a class is computed, so is everything that all ways to compute it need. What every
program needs is free for those that use it: without such operands the classes fall into components, which are solved
separately.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import rustworkx

from hloom.ir import Node
from hloom.solver import GAP, Constraint, minimize

VISITS_EACH = 100
"""The maximum number of visits per class to find what classes need; beyond it only operands are known."""
BRANCHING: Mapping[str, bool | float | int] = {
    "mip_max_nodes": 200,  # 2,000 took twice the time of the largest sums, and found nothing cheaper in 20 programs
    "mip_allow_cut_separation_at_nodes": False,
    "mip_pscost_minreliable": 0,  # strong branching takes half the time, and the runs that follow find as much
    "mip_allow_restart": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
}
"""How HiGHS searches: sums regrouped in many ways have weak bounds, and many cheap branches close them soonest."""
NEAR = 0.02
"""How much more than the cheapest program a faster one may cost, relative to it. In a cell of a recurrent network one
product of concatenated arrays saves the sum of two products: 0.3 to 1 % of the FLOPs, for up to 4 times the bytes."""
SLACK = 1e-9
"""The relative tolerance for equal costs, as a fraction of a node's maximum cost: the solver adds in doubles."""
ROUNDS = 4
"""The number of rounds of removing options: each one drops unneeded classes, which reveals more about others."""


@dataclass(frozen=True, slots=True)
class ExtractionModel:
    """The nodes that may be chosen per class, the classes that each needs, its cost, and the wanted classes.

    `seconds_of` decides among programs of nearly equal costs, where it is not empty.
    """

    options: Mapping[int, Sequence[Node]]
    operands: Mapping[Node, tuple[int, ...]]
    cost_of: Mapping[Node, float]
    roots: Sequence[int]
    seconds_of: Mapping[Node, float] = field(default_factory=dict)

    def solve(self) -> tuple[dict[int, Node], dict[int, Node], float] | None:
        """A node of each class that may be needed, those of the cheapest program found, and what none costs less than.

        Between them those of the fastest program that costs nearly as little, where there are seconds. None where the
        solver finds none. Classes that no root needs may need each other in a circle.
        """
        parts = [part.reduced() for part in self.reduced().parts()]
        gap = GAP * math.fsum(part._least() for part in parts)
        undecided = sum(part._count() for part in parts if not part._is_decided())
        cheapest: dict[int, Node] = {}
        fastest: dict[int, Node] = {}
        bounds: list[float] = []
        for part in parts:
            solved = (
                part._decided() if part._is_decided() else part._solve_alone(gap * part._count() / max(undecided, 1))
            )
            if solved is None:
                return None
            cheapest |= solved[0]
            fastest |= solved[1]
            bounds.append(solved[2])
        return cheapest, fastest, math.fsum(bounds)

    def parts(self) -> list[ExtractionModel]:
        """Models of classes that do not matter to each other, whose cheapest programs are together that of this one.

        What every program needs exists whoever uses it, unless it may need the class that uses it: without those
        operands the classes fall into components.
        """
        required = self._required()[1]
        numbers = list(self.options)
        always: dict[int, None] = {}
        for root in self.roots:
            always |= dict.fromkeys(numbers[position] for position in _positions(required[root]))
        components = self._components()

        def matters(number: int, operand: int) -> bool:
            return operand not in always or components.get(number, number) == components.get(operand, operand)

        operands = {
            option: tuple([operand for operand in self.operands[option] if matters(number, operand)])
            for number, options in self.options.items()
            for option in options
        }
        graph = rustworkx.PyGraph()
        graph.add_nodes_from(numbers)
        index = {number: position for position, number in enumerate(numbers)}
        for number, options in self.options.items():
            for option in options:
                graph.add_edges_from_no_data([(index[number], index[operand]) for operand in operands[option]])
        parts: list[ExtractionModel] = []
        for members in rustworkx.connected_components(graph):
            own = {numbers[member]: self.options[numbers[member]] for member in sorted(members)}
            wanted = [number for number in own if number in always]
            parts.append(ExtractionModel(own, operands, self.cost_of, wanted, self.seconds_of))
        return parts

    def _least(self) -> float:
        """The minimum cost of the roots' own nodes."""
        return math.fsum(min((self.cost_of[option] for option in self.options[root]), default=0) for root in self.roots)

    def _count(self) -> int:
        return sum(map(len, self.options.values()))

    def _is_decided(self) -> bool:
        """Whether there is one way to compute each class, and no circle."""
        return all(len(options) == 1 for options in self.options.values()) and not self._components()

    def _decided(self) -> tuple[dict[int, Node], dict[int, Node], float]:
        choice = {number: option for number, [option] in self.options.items()}
        return choice, choice, math.fsum(self.cost_of[option] for option in choice.values())

    def _solve_alone(self, gap: float) -> tuple[dict[int, Node], dict[int, Node], float] | None:
        """As `solve`, of classes that all matter to each other, to a difference that is not worth more branches."""
        required = self._required()[1]
        columns = {option: column for column, option in enumerate(self._all())}
        components = self._components()
        levels = {number: len(columns) + at for at, number in enumerate(components)}
        sizes = np.bincount(list(components.values())) if components else np.zeros(0)
        most = {number: float(sizes[component]) for number, component in components.items()}
        rows = [*self._asked_for(columns, required), *self._without_circles(columns, levels, components, most)]
        scale = max((self.cost_of[option] for option in columns), default=0.0) or 1.0
        costs = np.zeros(len(columns) + len(levels))
        costs[: len(columns)] = [self.cost_of[option] / scale for option in columns]
        upper = np.concatenate([np.ones(len(columns)), np.array([most[number] - 1 for number in levels])])
        solved = minimize(
            costs, np.zeros(len(costs)), upper, rows, len(levels), {**BRANCHING, "mip_abs_gap": gap / scale}
        )
        if solved is None:
            return None
        values, bound = solved
        cheapest = fastest = self._chosen(columns, values)
        if self.seconds_of:
            fastest = self._chosen(columns, self._fastest(list(columns), values, costs, upper, rows, len(levels)))
        return cheapest, fastest, bound * scale

    def _chosen(self, columns: Mapping[Node, int], values: np.ndarray) -> dict[int, Node]:
        """The option of each class that a solution takes; of a class that it leaves out the cheapest."""
        return {
            number: max(options, key=lambda option: (values[columns[option]] > 0.5, -self.cost_of[option]))
            for number, options in self.options.items()
            if options
        }

    def _fastest(
        self,
        columns: Sequence[Node],
        values: np.ndarray,
        costs: np.ndarray,
        upper: np.ndarray,
        rows: Sequence[Constraint],
        continuous: int,
    ) -> np.ndarray:
        """Of the solutions that cost nearly as little as one, that of the fewest seconds that is found."""
        own = costs[: len(columns)]
        cost = float(own @ np.round(values[: len(columns)]))
        budget = Constraint(np.arange(len(columns)), own, cost * (1 + NEAR) + SLACK)
        seconds = np.zeros(len(costs))
        seconds[: len(columns)] = [self.seconds_of[option] for option in columns]
        scale = seconds.max() or 1.0
        solved = minimize(seconds / scale, np.zeros(len(costs)), upper, [*rows, budget], continuous, BRANCHING)
        return values if solved is None else solved[0]

    def reduced(self) -> ExtractionModel:
        """The model without nodes that a cheapest program can do without."""
        model = self
        for _ in range(ROUNDS):
            bits, required = model._required()
            kept = {number: model._worth_choosing(number, bits, required) for number in model.options}
            smaller = ExtractionModel(kept, self.operands, self.cost_of, self.roots, self.seconds_of)._reachable()
            if sum(map(len, smaller.options.values())) == sum(map(len, model.options.values())):
                break
            model = smaller
        return model

    def _required(self) -> tuple[dict[int, int], dict[int, int]]:
        """The bit of each class, and the bits of all classes that every way to compute it needs, its own among them."""
        bits = {number: 1 << position for position, number in enumerate(self.options)}
        everything = (1 << len(bits)) - 1
        required = dict.fromkeys(self.options, everything)
        users: dict[int, dict[int, None]] = {}
        for number, options in self.options.items():
            for option in options:
                for operand in self.operands[option]:
                    users.setdefault(operand, {})[number] = None
        pending = dict.fromkeys(reversed(list(self.options)))
        for _ in range(VISITS_EACH * len(bits)):
            if not pending:
                return bits, required
            number = next(iter(pending))
            del pending[number]
            common = everything
            for option in self.options[number]:
                common &= self._needed_by(option, required)
            common |= bits[number]
            if common != required[number]:
                required[number] = common
                pending |= users.get(number, {})
        return bits, (required if not pending else bits)

    def _needed_by(self, option: Node, required: Mapping[int, int]) -> int:
        needed = 0
        for operand in self.operands[option]:
            needed |= required[operand]
        return needed

    def _worth_choosing(self, number: int, bits: Mapping[int, int], required: Mapping[int, int]) -> list[Node]:
        """A class's options that do not need the class itself, without those in whose place another one does.

        It costs no more, takes no longer, and needs only what they need.
        """
        options = [
            (option, self._needed_by(option, required), sum(bits[operand] for operand in self.operands[option]))
            for option in self.options[number]
        ]
        options = [item for item in options if not item[1] & bits[number]]
        kept: list[Node] = []
        for position, (option, needed, direct) in enumerate(options):
            cost = self.cost_of[option]
            is_worse = False
            for other_position, (other, other_needed, other_direct) in enumerate(options):
                if other_position == position or self.cost_of[other] > cost or other_direct & ~needed:
                    continue
                if self.seconds_of and self.seconds_of[other] > self.seconds_of[option]:
                    continue
                is_equal = self.cost_of[other] == cost and not direct & ~other_needed
                is_worse |= not is_equal or other_position < position
            if not is_worse:
                kept.append(option)
        return kept

    def _reachable(self) -> ExtractionModel:
        seen = dict.fromkeys(self.roots)
        pending = list(seen)
        while pending:
            for option in self.options[pending.pop()]:
                for operand in self.operands[option]:
                    if operand not in seen:
                        seen[operand] = None
                        pending.append(operand)
        options = {number: own for number, own in self.options.items() if number in seen}
        return ExtractionModel(options, self.operands, self.cost_of, self.roots, self.seconds_of)

    def _all(self) -> Iterable[Node]:
        return (option for options in self.options.values() for option in options)

    def _asked_for(self, columns: Mapping[Node, int], required: Mapping[int, int]) -> list[Constraint]:
        """One of each root's class is chosen, at most one of others, and with them one of each class that they need."""
        own = {number: [columns[option] for option in options] for number, options in self.options.items()}
        rows = [Constraint(np.array(own[number]), -np.ones(len(own[number])), -1.0) for number in self.roots]
        numbers = list(self.options)
        for number, options in self.options.items():
            if len(options) > 1:
                rows.append(Constraint(np.array(own[number]), np.ones(len(options)), 1.0))
            needing: dict[int, list[int]] = {}
            for option in options:
                for operand in self.operands[option]:
                    needing.setdefault(operand, []).append(columns[option])
            needing |= dict.fromkeys(_nearest(number, numbers, required), own[number])
            for operand, users in needing.items():
                weights = np.array([*(1.0 for _ in users), *(-1.0 for _ in own[operand])])
                rows.append(Constraint(np.array([*users, *own[operand]]), weights, 0.0))
        return rows

    def _components(self) -> dict[int, int]:
        """For each class that is in a circle with others, the number of that circle's component."""
        graph = rustworkx.PyDiGraph()
        index = {number: graph.add_node(number) for number in self.options}
        for number, options in self.options.items():
            for operand in dict.fromkeys(operand for option in options for operand in self.operands[option]):
                graph.add_edge(index[number], index[operand], None)
        members = [part for part in rustworkx.strongly_connected_components(graph) if len(part) > 1]
        return {graph[member]: component for component, part in enumerate(members) for member in part}

    def _without_circles(
        self,
        columns: Mapping[Node, int],
        levels: Mapping[int, int],
        components: Mapping[int, int],
        most: Mapping[int, float],
    ) -> list[Constraint]:
        """Where an option is chosen, its class has a higher level than its operands' classes in the same cycle."""
        rows: list[Constraint] = []
        for number, component in components.items():
            for option in self.options[number]:
                for operand in self.operands[option]:
                    if components.get(operand) == component and operand != number:
                        members = np.array([levels[operand], levels[number], columns[option]])
                        weights = np.array([1.0, -1.0, most[number]])
                        rows.append(Constraint(members, weights, most[number] - 1.0))
        in_itself = [
            option for number, options in self.options.items() for option in options if number in self.operands[option]
        ]
        return rows + [Constraint(np.array([columns[option]]), np.ones(1), 0.0) for option in in_itself]


def _nearest(number: int, numbers: Sequence[int], required: Mapping[int, int]) -> list[int]:
    """The classes that a class requires and none of the others that it requires does."""
    own = numbers.index(number)
    needed = required[number] & ~(1 << own)
    further = 0
    for position in _positions(needed):
        further |= required[numbers[position]] & ~(1 << position)
    return [numbers[position] for position in _positions(needed & ~further)]


def _positions(bits: int) -> Iterable[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
