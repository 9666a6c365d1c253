"""Extraction as an integer program: a column for each node that may be chosen, rows for what choices ask for.

What makes it quick to solve is known before: the classes that each way to compute a class needs. A node whose operands
need its own class is in no program; one node is not worth choosing where another of its class costs no more and needs
only what the first needs anyway; and where a class is computed, so are those that all ways to compute it need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import rustworkx

from hloom.ir import Node
from hloom.solver import Constraint, minimize

VISITS_EACH = 100
"""How often classes are visited at most to find what they need, for each of them; else only operands are known."""
ROUNDS = 4
"""How often options are left out: each time, classes that nothing else needs go, and more becomes known of others."""


@dataclass(frozen=True, slots=True)
class ExtractionModel:
    """The nodes that may be chosen of each class, the classes that each needs, what it costs, the classes wanted."""

    options: Mapping[int, Sequence[Node]]
    operands: Mapping[Node, tuple[int, ...]]
    cost_of: Mapping[Node, float]
    roots: Sequence[int]

    def solve(self) -> tuple[dict[int, Node], float] | None:
        """A node of each class that may be needed, those of the cheapest program found, and what none costs less than.

        None where the solver finds none. Classes that no root needs may need each other in a circle.
        """
        model, required = self.reduced()
        columns = {option: column for column, option in enumerate(model._all())}
        components = model._components()
        levels = {number: len(columns) + at for at, number in enumerate(components)}
        sizes = np.bincount(list(components.values())) if components else np.zeros(0)
        most = {number: float(sizes[component]) for number, component in components.items()}
        rows = [*model._asked_for(columns, required), *model._without_circles(columns, levels, components, most)]
        scale = max((self.cost_of[option] for option in columns), default=0.0) or 1.0
        costs = np.zeros(len(columns) + len(levels))
        costs[: len(columns)] = [self.cost_of[option] / scale for option in columns]
        upper = np.concatenate([np.ones(len(columns)), np.array([most[number] - 1 for number in levels])])
        solved = minimize(costs, np.zeros(len(costs)), upper, rows, continuous=len(levels))
        if solved is None:
            return None
        values, bound = solved
        choice = {
            number: max(options, key=lambda option: (values[columns[option]] > 0.5, -self.cost_of[option]))
            for number, options in model.options.items()
            if options
        }
        return choice, bound * scale

    def reduced(self) -> tuple[ExtractionModel, dict[int, int]]:
        """The model without nodes that a cheapest program can do without, and what each class requires, as bits."""
        model = self
        for _ in range(ROUNDS):
            bits, required = model._required()
            kept = {number: model._worth_choosing(number, bits, required) for number in model.options}
            smaller = ExtractionModel(kept, self.operands, self.cost_of, self.roots)._reachable()
            if sum(map(len, smaller.options.values())) == sum(map(len, model.options.values())):
                break
            model = smaller
        return model, model._required()[1]

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
        """A class's options that do not need the class itself, without those in whose place another one does."""
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
        return ExtractionModel(options, self.operands, self.cost_of, self.roots)

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
        """Where an option is chosen, its class has a higher level than its operands' classes in the same circle."""
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
