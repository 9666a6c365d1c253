"""Lower bounds: on the memory of every choice, and on the cost of choices within a memory budget.

The simulated memory of a choice is not a sum over clusters, but never less than

- its parameters, and outputs that take no parameter's buffer, at all times;
- after each contraction, the parameters that no output replaces, and one result from each of some disjoint chains of
  instructions, split over all devices: chains from a replaced parameter, or a finished contraction, to a reader that
  has not run. Contractions run once, so their results are held, in some form, until they are read.

The budget is then relaxed (Lagrangian relaxation): for any price per byte, no choice costs less than the minimum of
cost plus price, minus the price of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from hloom.distribute.planner.cost_model import itemsize_of
from hloom.distribute.planner.entry_results import aliases
from hloom.distribute.planner.problem import Problem
from hloom.distribute.planner.solvers.factor_graph import FactorGraph, full_graph
from hloom.distribute.planner.solvers.message_passing import MessagePassing
from hloom.ir import Node, Parameter, TensorType, Trait
from hloom.ops import CALLERS, with_trait

ANCHORS = with_trait(Trait.CONTRACTS) | (CALLERS - {"call"})
"""What is computed once, and is never made part of several fusions."""
MOST_MOMENTS = 64
"""The maximum number of contractions after which memory is bounded."""
PRICES, SWEEPS = 6, 8
"""The number of prices per byte to try, and of message sweeps for each."""
FACTOR = 4.0
"""The ratio of the first prices; the best one's neighbourhood is searched by bisection."""


@dataclass(slots=True)
class LeastHeld:
    """Bytes that are held at least at one time: a constant, and by strategy of clusters."""

    constant: float = 0.0
    by_cluster: dict[int, np.ndarray] = field(default_factory=dict)

    def of(self, choice: Mapping[int, int]) -> float:
        """A lower bound on the memory of a choice."""
        return self.constant + sum(float(held[choice[number]]) for number, held in self.by_cluster.items())

    @property
    def least(self) -> float:
        """A lower bound on the memory of every choice."""
        return self.constant + sum(float(held.min()) for held in self.by_cluster.values())

    def add(self, problem: Problem, value: Node) -> None:
        """Add a value in its own spec."""
        cluster = problem.clusters.of(value)
        if cluster is None:
            self.constant += _bytes(value)
            return
        specs = problem.produced_specs(cluster, value)
        local = [math.prod(problem.mesh.local_dims(value.dims, spec)) * itemsize_of(value) for spec in specs.specs]
        held = np.array(local, float)[specs.index]
        self.by_cluster[cluster.number] = self.by_cluster.get(cluster.number, 0.0) + held


def least_held(problem: Problem) -> list[LeastHeld]:
    """What is held at least at all times, and after the contraction after which that is most."""
    replaced = {alias.parameter for alias in aliases(problem.module) if not alias.parameter_index}
    always, after = LeastHeld(), LeastHeld()
    entry, devices = problem.module.entry, problem.mesh.device_count
    for parameter in entry.parameters:
        if isinstance(parameter.type, TensorType):
            always.add(problem, parameter)
            if parameter.number not in replaced:
                after.add(problem, parameter)
    for value in _new_outputs(problem):
        always.add(problem, value)
    after.constant += max((held / devices for held in _held_after_contractions(problem, replaced)), default=0.0)
    return [always, after]


def bound_within(problem: Problem, held: LeastHeld, budget: float, bound: float) -> float:
    """A lower bound on the cost of choices within the budget at one time; infinite if there are none.

    `bound` is that of all choices.
    """
    if held.least > budget:
        return math.inf
    graph = full_graph(problem)
    members: dict[int, list[int]] = {}
    for number in problem.options:
        members.setdefault(problem.representative[number], []).append(number)
    rows = {
        node: np.stack([held.by_cluster.get(number, np.zeros(len(problem.options[number]))) for number in numbers])
        for node, numbers in members.items()
    }
    spare = budget - held.constant
    best, price, step = bound, bound / max(budget, 1.0), FACTOR
    relaxed = _relaxed(graph, rows, spare, price)
    for _ in range(PRICES):
        best = max(best, relaxed)
        tried = [(_relaxed(graph, rows, spare, other), other) for other in (price * step, price / step)]
        value, other = max(tried)
        if value > relaxed:
            relaxed, price = value, other
        else:
            step = math.sqrt(step)
    return max(best, relaxed)


def _relaxed(graph: FactorGraph, rows: Mapping[int, np.ndarray], spare: float, price: float) -> float:
    """The bound of costs and of bytes at a price, less the price of what may be held."""
    priced = FactorGraph(
        {node: costs + price * rows[node] for node, costs in graph.unary.items()}, graph.factors, graph.kept
    )
    messages = MessagePassing(priced)
    for _ in range(SWEEPS):
        messages.sweep()
    return messages.bound() - price * spare


def _new_outputs(problem: Problem) -> Iterator[Node]:
    """The arrays that are results in memory of their own."""
    root = problem.module.entry.output
    if root is None:
        return
    taken = {alias.output_index[0] for alias in aliases(problem.module) if alias.output_index}
    results = list(root.operands) if root.opcode == "tuple" else [root]
    for index, value in enumerate(results):
        value = problem.clusters.dataflow.origin(value)
        if index not in taken and isinstance(value.type, TensorType):
            yield value


def _held_after_contractions(problem: Problem, replaced: set[int]) -> Iterator[float]:
    """By contraction the bytes of what is still to be read after it, parameters that stay aside."""
    nodes = list(problem.module.entry.nodes)
    index = {node: number for number, node in enumerate(nodes)}
    before, after = _reachable(nodes, index)
    replaced_bits = _bits(n for n, node in enumerate(nodes) if isinstance(node, Parameter) and node.number in replaced)
    anchors = [number for number, node in enumerate(nodes) if node.opcode in ANCHORS]
    anchor_bits = _bits(anchors)
    results = {problem.clusters.dataflow.origin(value) for value in _new_outputs(problem)}
    by_size = sorted(
        (number for number, node in enumerate(nodes) if _bytes(node)), key=lambda n: (-_bytes(nodes[n]), n)
    )
    for anchor in anchors[:: max(1, len(anchors) // MOST_MOMENTS)]:
        total, used = 0.0, set[int]()
        sources = replaced_bits | anchor_bits & (before[anchor] | 1 << anchor)
        for number in by_size:
            node = nodes[number]
            if after[anchor] >> number & 1 and number != anchor:
                continue
            if not any(after[anchor] >> index[user] & 1 for user in node.users if user in index):
                continue
            chain = _chain(nodes, index, before, number, sources, used)
            if chain and not any(nodes[link] in results for link in chain):
                used.update(chain)
                total += min(_bytes(nodes[link]) for link in chain)
        yield total


def _chain(
    nodes: list[Node], index: Mapping[Node, int], before: list[int], number: int, sources: int, used: set[int]
) -> list[int]:
    """The instructions from one that has run, and does not run again, to this one; none where it may run again."""
    chain: list[int] = []
    for _ in range(len(nodes)):
        node = nodes[number]
        if number in used:
            return []
        if _bytes(node):
            chain.append(number)
        if node.opcode in ANCHORS or isinstance(node, Parameter):
            return chain if sources >> number & 1 else []
        operands = [index[operand] for operand in node.operands if operand in index]
        operands = [operand for operand in operands if (before[operand] | 1 << operand) & sources]
        if not operands:
            return []
        number = max(operands, key=lambda operand: (_bytes(nodes[operand]), -operand))
    return []


def _reachable(nodes: list[Node], index: Mapping[Node, int]) -> tuple[list[int], list[int]]:
    """By instruction, as bits, what it depends on and what depends on it."""
    before, after = [0] * len(nodes), [0] * len(nodes)
    for number, node in enumerate(nodes):
        for operand in node.operands:
            if operand in index:
                before[number] |= before[index[operand]] | 1 << index[operand]
    for number in reversed(range(len(nodes))):
        for user in nodes[number].users:
            if user in index:
                after[number] |= after[index[user]] | 1 << index[user]
    return before, after


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in numbers)


def _bytes(value: Node) -> float:
    return float(math.prod(value.dims) * itemsize_of(value)) if isinstance(value.type, TensorType) else 0.0
