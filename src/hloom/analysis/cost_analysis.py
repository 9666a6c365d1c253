"""What every graph costs under one way of counting: by whose rules, and how often loops and branches run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hloom.analysis.call_graph import MALFORMED, CallGraph, ComputationCounts, Kind
from hloom.analysis.cost_properties import ONE, ZERO, Cost, least, most
from hloom.analysis.rules import COST_RULES, Instruction, branches_of, fused_gather_or_scatter
from hloom.analysis.rules.table import CostFunction
from hloom.ir import Apply, Graph, TypeProblem, infer_type
from hloom.text import HloomError

INSIDE_CALLS = frozenset(("call", "async-start", "while", "conditional"))
"""Opcodes that cost nothing of their own: what they cost stands at the instructions of the graphs they call."""
Share = tuple[Graph, Cost]
"""A called graph, and how often it runs (for each property) in one run of the caller."""


@dataclass(frozen=True, slots=True)
class CostOptions:
    """A way of counting.

    `is_mathematical`: by the mathematical counts, not XLA's. `repeats_loops`: as often as they run, not once.
    `takes_least`: of branches the cheapest, not the dearest.
    """

    is_mathematical: bool = False
    repeats_loops: bool = True
    takes_least: bool = False


ONCE = CostOptions(repeats_loops=False)
"""XLA's own way."""
LOOPED = CostOptions()
MATHEMATICAL = CostOptions(is_mathematical=True)
LEAST = CostOptions(takes_least=True)


@dataclass(slots=True)
class CostAnalysis:
    """The costs of graphs and instructions under one way; `trips` are the runs of each loop's body."""

    found: CallGraph
    way: CostOptions
    trips: Mapping[Apply, int]
    graphs: dict[Graph, Cost] = field(default_factory=dict)
    kinds: dict[Kind, Cost] = field(default_factory=dict)
    untyped: set[Kind] = field(default_factory=set)
    """Kinds that count nothing, because the types of operands that they would count are not known."""

    def __post_init__(self) -> None:
        for graph, part in self.found.graphs.items():
            model = self.found.alike[graph]
            self.graphs[graph] = self._sum(part) if model is graph else self.graphs[model]

    def _sum(self, part: ComputationCounts) -> Cost:
        flops = transcendentals = accessed = 0
        for kind, number in part.kinds.items():
            each = self.kinds.get(kind)
            if each is None:
                each = self.kinds[kind] = self._count(self.found.kinds[kind])
            flops += each.flops * number
            transcendentals += each.transcendentals * number
            accessed += each.bytes_accessed * number
        return Cost(flops, transcendentals, accessed)

    def __call__(self, graph: Graph | None) -> Cost:
        """What one run of a graph costs; nothing where it is not defined."""
        return self.graphs.get(graph, ZERO) if graph is not None else ZERO

    def loop(self, instruction: Instruction) -> Cost:
        """What a while costs; the condition is asked once more than the body runs."""
        runs = self._runs(instruction.node)
        body, condition = instruction.attributes.get("body"), instruction.attributes.get("condition")
        return self(body) * runs[0] + self(condition) * runs[1]

    def branches(self, costs: list[Cost]) -> Cost:
        """What a conditional costs: of each property the greatest, or the least."""
        return (least if self.way.takes_least else most)(costs)

    def whole(self, node: Apply) -> Cost:
        """What an instruction costs, the graphs that it calls included."""
        kind = self.found.kind(node)
        known = self.kinds.get(kind)
        if known is None:
            known = self.kinds[kind] = self._count(node)
        return known

    def own(self, node: Apply) -> Cost:
        """What an instruction costs beside the instructions of the graphs that run in its place."""
        if node.opcode in INSIDE_CALLS:
            return ZERO
        whole = self.whole(node)
        return Cost(bytes_accessed=whole.bytes_accessed) if self.shares(node) else whole

    def shares(self, node: Apply) -> list[Share]:
        """The graphs that run in an instruction's place, and how often."""
        giver = _SHARES.get(node.opcode)
        return giver(self, node) if giver is not None else []

    def _count(self, node: Apply) -> Cost:
        rule = COST_RULES.get(node.op.name)
        if rule is None:
            return ZERO
        count: CostFunction = rule.mathematical if self.way.is_mathematical and rule.mathematical else rule.xla
        instruction = self.found.instruction(node)
        try:
            return count(instruction, self)
        except MALFORMED as problem:
            if None in instruction.operands:
                self.untyped.add(self.found.kind(node))
                return ZERO
            reason = _refusal(instruction) or str(problem)
            raise HloomError(f"{node!r} cannot be counted: {reason}", hint="verify the module") from problem

    def _runs(self, node: Apply) -> tuple[int, int]:
        if not self.way.repeats_loops:
            return 1, 1
        trips = self.trips.get(node, 1)
        return trips, trips + 1

    def _called(self, node: Apply, name: str) -> list[Share]:
        graph = node.attributes.get(name)
        return [(graph, ONE)] if graph is not None else []

    def _loop_shares(self, node: Apply) -> list[Share]:
        body, condition = (Cost(runs, runs, runs) for runs in self._runs(node))
        pairs = ((node.attributes.get("body"), body), (node.attributes.get("condition"), condition))
        return [(graph, times) for graph, times in pairs if graph is not None]

    def _branch_shares(self, node: Apply) -> list[Share]:
        """Each property is the branch's that has most (or least) of it, the first of equals."""
        graphs = branches_of(self.found.instruction(node))
        if not graphs:
            return []
        costs = [self(graph) for graph in graphs]
        chosen = self.branches(costs)
        firsts = [
            next(place for place, cost in enumerate(costs) if getattr(cost, name) == getattr(chosen, name))
            for name in Cost.__slots__
        ]
        return [(graph, Cost(*(int(first == place) for first in firsts))) for place, graph in enumerate(graphs)]

    def _fusion_shares(self, node: Apply) -> list[Share]:
        graph = node.attributes.get("calls")
        is_custom = node.attributes.get("kind") == "kCustom"
        if graph is None or (is_custom and fused_gather_or_scatter(graph) is not None):
            return []
        return [(graph, Cost(1, 1, 0))]


def _refusal(instruction: Instruction) -> str | None:
    """What is wrong with a malformed instruction; None where its op's row finds nothing."""
    try:
        infer_type(instruction.op, instruction.operand_types, instruction.attributes, instruction.result)
    except TypeProblem as problem:
        return problem.message
    except MALFORMED:
        return None
    return None


_SHARES: dict[str, Callable[[CostAnalysis, Apply], list[Share]]] = {
    "call": lambda counting, node: counting._called(node, "to_apply"),
    "async-start": lambda counting, node: counting._called(node, "calls"),
    "while": CostAnalysis._loop_shares,
    "conditional": CostAnalysis._branch_shares,
    "fusion": CostAnalysis._fusion_shares,
}


def times(counting: CostAnalysis) -> dict[Graph, Cost]:
    """How often each graph runs in one run of the module, for each property.

    The properties differ inside fusions, whose instructions move no bytes, and in conditionals, where one branch may
    have the most arithmetic and another the most bytes. Functions that are applied to elements (reducers, comparators)
    do not appear: they are part of the instruction that applies them.
    """
    runs: dict[Graph, Cost] = {counting.found.entry: ONE}
    for graph in reversed(counting.found.graphs):
        own = runs.get(graph)
        if own is None:
            continue
        for call in counting.found.graphs[graph].calls:
            for called, each in counting.shares(call):
                runs[called] = runs.get(called, ZERO) + own.times(each)
    return runs
