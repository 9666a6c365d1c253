"""The order implied by data and control dependences alone, within a computation and across its callees.

Follows `HloOrdering::GetExecutionConstraint` and `IsDefinedBefore` and `DependencyHloOrdering` (xla/service/
hlo_ordering.cc). A computation that several instructions call counts as called by the first of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from hloom.ir import Graph, Module, Node, Parameter
from hloom.targets.cpu.reachability import Reachability

MAX_EXACT_NODES = 10_000
"""Graphs of more nodes are searched, which may say that two nodes are ordered that are not; a table of all pairs takes
memory quadratic in their number."""


class ExecutionConstraint(Enum):
    """How one instruction runs in relation to another (`HloOrdering::ExecutionConstraint`)."""

    SAME = "same"
    BEFORE = "before its start"
    BEFORE_END = "before its end"
    EXCLUSIVE_BEFORE = "in an earlier branch of one conditional"
    EXCLUSIVE_AFTER = "in a later branch of one conditional"
    AFTER = "after"
    UNORDERED = "unordered"


EARLIER = frozenset({ExecutionConstraint.BEFORE, ExecutionConstraint.BEFORE_END, ExecutionConstraint.EXCLUSIVE_BEFORE})


class DependencyOrdering:
    """Answers about the instructions of a module, as they were when it was made."""

    def __init__(self, module: Module, control_predecessors: Mapping[Node, Collection[Node]]) -> None:
        self._module = module
        self._predecessors = control_predecessors
        self._reachability: dict[Graph, _Ancestors | Reachability] = {}
        self._callers: dict[Graph, Node | None] = {}

    def constraint(self, one: Node, other: Node) -> ExecutionConstraint:
        """How the first of two instructions runs in relation to the second."""
        if one is other:
            return ExecutionConstraint.SAME
        ancestors = self._common_ancestors(one, other)
        if ancestors is None:
            return ExecutionConstraint.UNORDERED
        (first, inner_first), (second, inner_second) = ancestors
        if first is second:
            if first.opcode == "while":
                body, condition = first.attributes.get("body"), first.attributes.get("condition")
                return (
                    ExecutionConstraint.BEFORE_END
                    if (inner_first, inner_second) == (condition, body)
                    else (ExecutionConstraint.UNORDERED)
                )
            if first.opcode == "conditional":
                return self._in_branches(inner_first, inner_second, first)
            return ExecutionConstraint.UNORDERED
        if self._reaches(first, second):
            return ExecutionConstraint.BEFORE
        if self._reaches(second, first):
            return ExecutionConstraint.AFTER
        return ExecutionConstraint.UNORDERED

    def is_nested_in(self, node: Node, graph: Graph) -> bool:
        """Whether a computation, or one that it calls, holds an instruction."""
        current: Graph | None = node.graph
        for _ in range(len(self._module.graphs) + 1):
            if current is graph:
                return True
            caller = self.caller(current) if current is not None else None
            if caller is None:
                return False
            current = caller.graph
        return False

    def caller(self, graph: Graph) -> Node | None:
        """The instruction that calls a computation."""
        if graph not in self._callers:
            self._callers[graph] = next(iter(graph.callers), None)
        return self._callers[graph]

    def _in_branches(self, one: Graph | None, other: Graph | None, conditional: Node) -> ExecutionConstraint:
        if other is None:
            return ExecutionConstraint.BEFORE_END
        if one is None:
            return ExecutionConstraint.AFTER
        if one is other:
            return ExecutionConstraint.UNORDERED
        branches = branch_computations(conditional)
        return (
            ExecutionConstraint.EXCLUSIVE_BEFORE
            if branches.index(one) < branches.index(other)
            else (ExecutionConstraint.EXCLUSIVE_AFTER)
        )

    def _common_ancestors(
        self, one: Node, other: Node
    ) -> tuple[tuple[Node, Graph | None], tuple[Node, Graph | None]] | None:
        """The instructions of one computation that hold the two, each with the computation of it that does."""
        ancestors = {node.graph: (node, inner) for node, inner in self._ancestors(one)}
        for node, inner in self._ancestors(other):
            if node.graph in ancestors:
                return ancestors[node.graph], (node, inner)
        return None

    def _ancestors(self, node: Node) -> Iterable[tuple[Node, Graph | None]]:
        current: Node | None = node
        inner: Graph | None = None
        for _ in range(len(self._module.graphs) + 1):
            if current is None:
                return
            yield current, inner
            inner = current.graph
            current = self.caller(inner)

    def _reaches(self, source: Node, target: Node) -> bool:
        graph = source.graph
        if graph not in self._reachability:
            is_small = len(graph.nodes) <= MAX_EXACT_NODES
            self._reachability[graph] = _Ancestors(graph, self._predecessors) if is_small else Reachability(graph)
        return self._reachability[graph].reaches(source, target)


def branch_computations(conditional: Node) -> list[Graph]:
    """The computations of which a conditional runs one, in order."""
    attributes = conditional.attributes
    branches = attributes.get("branch_computations")
    return list(branches or (attributes["true_computation"], attributes["false_computation"]))


class _Ancestors:
    """By node the nodes that it is computed from, as bits of an integer."""

    def __init__(self, graph: Graph, control_predecessors: Mapping[Node, Collection[Node]]) -> None:
        self._positions = {node: position for position, node in enumerate(graph.nodes)}
        self._ancestors: list[int] = []
        for node in graph.nodes:
            bits = 0
            for operand in (*node.operands, *control_predecessors.get(node, ())):
                position = self._positions.get(operand, len(self._ancestors))
                if position < len(self._ancestors):
                    bits |= self._ancestors[position] | (1 << position)
            self._ancestors.append(bits)

    def reaches(self, source: Node, target: Node) -> bool:
        """Whether the target is computed from the source."""
        if source not in self._positions or target not in self._positions:
            return False
        return bool(self._ancestors[self._positions[target]] >> self._positions[source] & 1)


def is_entry_parameter(node: Node) -> bool:
    """Whether a node is a parameter of the module's entry."""
    return isinstance(node, Parameter) and node.graph is node.graph.module.entry
