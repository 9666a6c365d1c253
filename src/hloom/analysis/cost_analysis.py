"""The cost of every computation under given options: which counting rules, and how often loops and branches run.

Source: xla/service/hlo_cost_analysis.cc, HloCostAnalysis (jaxlib 0.10.2), whose counts `ONCE` reproduces.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hloom.analysis.call_graph import MALFORMED, CallGraph, ComputationCounts, CostClass
from hloom.analysis.control_flow import callees, flow_of
from hloom.analysis.cost_properties import ONE, ZERO, Cost, greatest, least
from hloom.analysis.rules import Instruction, cost_rule, fused_gather_or_scatter
from hloom.analysis.rules.table import CostFunction
from hloom.ir import Apply, Graph, Runs, TypeProblem, infer_type
from hloom.text import HloomError

CalleeRuns = tuple[Graph, Cost]
"""A called computation, and how often it runs (per property) in one run of the caller."""


@dataclass(frozen=True, slots=True)
class CostOptions:
    """Options for counting costs.

    `is_mathematical`: use the mathematical counts instead of XLA's. `repeats_loops`: count each iteration instead of
    one.
    `takes_least`: use the cheapest branch instead of the most expensive.
    """

    is_mathematical: bool = False
    repeats_loops: bool = True
    takes_least: bool = False


ONCE = CostOptions(repeats_loops=False)
"""XLA's way of counting."""
LOOPED = CostOptions()
MATHEMATICAL = CostOptions(is_mathematical=True)
LEAST = CostOptions(takes_least=True)


@dataclass(slots=True)
class CostAnalysis:
    """The costs of computations and instructions under some options; `trip_counts` is keyed by loop body.

    `untyped` are the classes of instructions that count as 0 because the types of their operands are unknown.
    """

    call_graph: CallGraph
    options: CostOptions
    trip_counts: Mapping[Apply, int]
    computations: dict[Graph, Cost] = field(default_factory=dict)
    classes: dict[CostClass, Cost] = field(default_factory=dict)
    untyped: set[CostClass] = field(default_factory=set)

    def __post_init__(self) -> None:
        for graph, counts in self.call_graph.computations.items():
            first = self.call_graph.representative[graph]
            self.computations[graph] = self._sum(counts) if first is graph else self.computations[first]

    def _sum(self, counts: ComputationCounts) -> Cost:
        flops = transcendentals = accessed = 0
        for cost_class, number in counts.classes.items():
            cost = self.classes.get(cost_class)
            if cost is None:
                cost = self.classes[cost_class] = self._count(self.call_graph.classes[cost_class])
            flops += cost.flops * number
            transcendentals += cost.transcendentals * number
            accessed += cost.bytes_accessed * number
        return Cost(flops, transcendentals, accessed)

    def __call__(self, graph: Graph | None) -> Cost:
        """The cost of one run of a computation; zero if it is not defined."""
        return self.computations.get(graph, ZERO) if graph is not None else ZERO

    def control_flow(self, instruction: Instruction) -> Cost:
        """The cost of all runs of all callees in one run of a control-flow instruction.

        For branches, the maximum (or minimum) of each property separately.
        """
        total, branches = ZERO, []
        for graph, runs in callees(instruction.node):
            if runs is Runs.IF_TAKEN:
                branches.append(self(graph))
            else:
                total += self(graph) * self._times(instruction.node, runs)
        return total + self._taken(branches) if branches else total

    def inclusive(self, node: Apply) -> Cost:
        """The cost of an instruction including the computations it calls."""
        cost_class = self.call_graph.cost_class(node)
        known = self.classes.get(cost_class)
        if known is None:
            known = self.classes[cost_class] = self._count(node)
        return known

    def own(self, node: Apply) -> Cost:
        """The cost of an instruction without the instructions of computations that run in its place."""
        flow = flow_of(node)
        if flow is None or not flow.callees:
            return self.inclusive(node)
        if flow.is_control_flow:
            return ZERO
        inclusive = self.inclusive(node)
        return Cost(bytes_accessed=inclusive.bytes_accessed) if self.callee_runs(node) else inclusive

    def callee_runs(self, node: Apply) -> list[CalleeRuns]:
        """The computations that run in an instruction's place, and how often.

        The instructions of a fusion move no bytes; for a conditional, each property comes from the branch with the most
        (or least) of it, the first one on a tie.
        """
        flow = flow_of(node)
        if flow is None or not flow.callees:
            return []
        called = callees(node)
        if flow.is_embedded:
            is_custom = node.attributes.get("kind") == "kCustom"
            counted = [graph for graph, _ in called if not (is_custom and fused_gather_or_scatter(graph))]
            return [(graph, Cost(1, 1, 0)) for graph in counted]
        runs: list[CalleeRuns] = []
        for graph, often in called:
            if often is not Runs.IF_TAKEN:
                times = self._times(node, often)
                runs.append((graph, Cost(times, times, times)))
        return runs + self._branch_runs([graph for graph, often in called if often is Runs.IF_TAKEN])

    def _taken(self, costs: list[Cost]) -> Cost:
        return (least if self.options.takes_least else greatest)(costs)

    def _branch_runs(self, branches: list[Graph]) -> list[CalleeRuns]:
        if not branches:
            return []
        costs = [self(graph) for graph in branches]
        taken = self._taken(costs)
        firsts = [
            next(number for number, cost in enumerate(costs) if getattr(cost, name) == getattr(taken, name))
            for name in Cost.__slots__
        ]
        return [(graph, Cost(*(int(first == number) for first in firsts))) for number, graph in enumerate(branches)]

    def _count(self, node: Apply) -> Cost:
        rule = cost_rule(node.op)
        if rule is None:
            return ZERO
        count: CostFunction = rule.mathematical if self.options.is_mathematical and rule.mathematical else rule.xla
        instruction = self.call_graph.instruction(node)
        try:
            cost = count(instruction, self)
            if cost.flops < 0 and self.options.repeats_loops and rule.mathematical:
                return rule.mathematical(instruction, self)  # XLA's -1 means unknown
            return cost
        except MALFORMED as problem:
            if None in instruction.operands:
                self.untyped.add(self.call_graph.cost_class(node))
                return ZERO
            reason = _refusal(instruction) or str(problem)
            raise HloomError(f"{node!r} cannot be counted: {reason}", hint="verify the module") from problem

    def _times(self, node: Apply, runs: Runs) -> int:
        """How often a callee other than a branch runs; a loop's condition runs once more than its body."""
        if runs is Runs.ONCE or not self.options.repeats_loops:
            return 1
        return self.trip_counts.get(node, 1) + (runs is Runs.PER_TEST)


def _refusal(instruction: Instruction) -> str | None:
    """What is wrong with a malformed instruction; None if its op's row accepts it."""
    try:
        infer_type(instruction.op, instruction.operand_types, instruction.attributes, instruction.result)
    except TypeProblem as problem:
        return problem.message
    except MALFORMED:
        return None
    return None


def run_counts(analysis: CostAnalysis) -> dict[Graph, Cost]:
    """How often each computation runs in one run of the module, for each property.

    The properties differ inside fusions, whose instructions move no bytes, and in conditionals, where one branch may
    have the most arithmetic and another the most bytes. Functions applied to elements (reducers, comparators) do not
    appear: they are part of the instruction that applies them.
    """
    runs: dict[Graph, Cost] = {analysis.call_graph.entry: ONE}
    for graph in reversed(analysis.call_graph.computations):
        own = runs.get(graph)
        if own is None:
            continue
        for call in analysis.call_graph.computations[graph].calls:
            for called, times in analysis.callee_runs(call):
                runs[called] = runs.get(called, ZERO) + own.times(times)
    return runs
