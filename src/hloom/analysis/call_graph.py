"""The call graph of a module: the computations that run, callees first, each with its instructions counted by class.

Instructions with equal op, types and attributes cost the same, and a large module has few such classes, which makes
costing a module fast (XLA: xla/service/call_graph.cc).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from hloom.analysis.control_flow import flow_of
from hloom.analysis.rules import Instruction
from hloom.ir import Apply, Graph, Module, Node, Op, Type, TypeProblem, infer_type
from hloom.text import HloomError

CostClass = tuple
"""Everything that determines an instruction's cost: op, types of result and operands, attributes."""
MALFORMED = (LookupError, AttributeError, TypeError, ValueError, ArithmeticError)
"""Exceptions raised when an instruction lacks operands, attributes or types that its opcode needs, or has wrong ones.
"""
DECIDING = frozenset(("dimensions", "replica_groups", "scatter", "select", "to_apply", "window"))
"""For ops that call computations, the attributes that cost rules read besides those that hold callees."""


@dataclass(slots=True)
class ComputationCounts:
    """One computation: the number of instructions of each class, and those that call computations, in order."""

    classes: dict[CostClass, int]
    calls: list[Apply]


@dataclass(slots=True)
class CallGraph:
    """Computations in the order in which they can be costed, with a representative instruction per class, callers and
    inferred types.

    `representative` maps each computation to the first one with the same classes and counts, and so the same cost.
    `computed` are calls of values, whose computations are unknown.
    """

    entry: Graph
    computations: dict[Graph, ComputationCounts] = field(default_factory=dict)
    classes: dict[CostClass, Apply] = field(default_factory=dict)
    callers: dict[Graph, list[Apply]] = field(default_factory=dict)
    representative: dict[Graph, Graph] = field(default_factory=dict)
    inferred: dict[Node, Type] = field(default_factory=dict)
    computed: list[Apply] = field(default_factory=list)

    def instruction(self, node: Apply) -> Instruction:
        """The view of a node that cost rules receive."""
        if not self.inferred:
            return Instruction(node.op, node.operand_types(), node.type, node.attributes, node)
        operands = tuple([self.type_of(operand) for operand in node.operands])
        return Instruction(node.op, operands, self.type_of(node), node.attributes, node)

    def type_of(self, node: Node) -> Type | None:
        """A node's type, written or inferred; None if neither is available."""
        return node.type if node.type is not None else self.inferred.get(node)

    def cost_class(self, node: Apply) -> CostClass:
        """The cost class of a node that calls no computation."""
        if not self.inferred:
            return _cost_class(node)
        types = [self.type_of(operand) for operand in node.operands]
        return node.function, self.type_of(node), id(node.attributes), *types


def build_call_graph(module: Module) -> CallGraph:
    """Find the computations that the entry reaches; raises HloomError if they call each other in a cycle."""
    return call_graph_of(module.entry, [module.entry], {})


def call_graph_of(entry: Graph, roots: Iterable[Graph], known: Container[Graph]) -> CallGraph:
    """As `build_call_graph`, for the computations reachable from `roots` that are not in `known`."""
    call_graph = CallGraph(entry)
    first_of: dict[frozenset, Graph] = {}
    for root in roots:
        if root not in known and root not in call_graph.computations:
            _visit(root, known, call_graph, first_of)
    return call_graph


def _visit(root: Graph, known: Container[Graph], call_graph: CallGraph, first_of: dict[frozenset, Graph]) -> None:
    opened: dict[Graph, _Opened] = {}
    waiting: Graph | None = root
    while waiting is not None or opened:
        if waiting is not None:
            opened[waiting] = _open(waiting, call_graph)
        graph = next(reversed(opened))
        remaining = opened[graph].remaining
        waiting = next(
            (called for called in remaining if called not in known and called not in call_graph.computations), None
        )
        if waiting in opened:
            raise HloomError(f"graph {graph.name} leads back to {waiting.name}: its cost has no end")
        if waiting is None:
            _close(graph, opened.pop(graph), call_graph, first_of)


@dataclass(slots=True)
class _Opened:
    """A computation whose callees are being visited: its leaves, its calls, and the callees still to visit."""

    leaves: list[Apply]
    calls: dict[Apply, tuple[Graph, ...]]
    remaining: Iterator[Graph]


def _open(graph: Graph, call_graph: CallGraph) -> _Opened:
    nodes = [node for node in graph.nodes if type(node) is Apply]
    if graph.module.has_closures:
        call_graph.computed += [node for node in nodes if not isinstance(node.function, Op)]
        nodes = [node for node in nodes if isinstance(node.function, Op)]
    if None in [node.type for node in nodes]:
        _infer(nodes, call_graph)
    calls: dict[Apply, tuple[Graph, ...]] = {}
    for node in [node for node in nodes if node.attributes.refers]:
        called = node.called_graphs
        if called:
            calls[node] = called
            for computation in called:
                call_graph.callers.setdefault(computation, []).append(node)
    leaves = [node for node in nodes if node not in calls] if calls else nodes
    return _Opened(leaves, calls, iter([computation for called in calls.values() for computation in called]))


def _close(graph: Graph, opened: _Opened, call_graph: CallGraph, first_of: dict[frozenset, Graph]) -> None:
    """Count a computation's instructions by class once its callees are known, and find the first computation equal to
    it.
    """
    counts: dict[CostClass, int] = {}
    first = call_graph.classes
    for node in opened.leaves:
        cost_class = call_graph.cost_class(node) if call_graph.inferred else _cost_class(node)
        if cost_class in counts:
            counts[cost_class] += 1
        else:
            counts[cost_class] = 1
            first.setdefault(cost_class, node)
    for node in opened.calls:
        cost_class = _call_class(node, call_graph)
        counts[cost_class] = counts.get(cost_class, 0) + 1
        first.setdefault(cost_class, node)  # callees of a class's first are counted first
    call_graph.computations[graph] = ComputationCounts(counts, list(opened.calls))
    call_graph.representative[graph] = first_of.setdefault(frozenset(counts.items()), graph)


def _cost_class(node: Apply) -> CostClass:
    return node.function, node.type, id(node.attributes), *[operand.type for operand in node.operands]


def _call_class(node: Apply, call_graph: CallGraph) -> CostClass:
    """The cost class of a node that calls computations.

    The node itself if its cost depends on more than the callees' costs: how a fused computation is built, or how often
    a loop runs.
    """
    flow = flow_of(node)
    if flow is not None and (flow.is_embedded or flow.is_loop):
        return (node,)
    if node.opcode == "custom-call":  # its target and configuration decide
        return call_graph.cost_class(node)
    deciding = DECIDING if flow is None else DECIDING | flow.attributes
    values = [_representative(value, call_graph) for name, value in node.attributes.items() if name in deciding]
    types = [call_graph.type_of(operand) for operand in node.operands]
    return node.function, call_graph.type_of(node), *values, None, *types


def _representative(value: object, call_graph: CallGraph) -> object:
    if type(value) is Graph:
        return call_graph.representative.get(value, value)
    if type(value) is tuple and value and type(value[0]) is Graph:
        return tuple([call_graph.representative.get(computation, computation) for computation in value])
    return value


def _infer(nodes: list[Apply], call_graph: CallGraph) -> None:
    """Infer the types that a computation's text omits, in order; those that cannot be inferred stay unknown."""
    for node in nodes:
        types = [call_graph.type_of(operand) for operand in node.operands]
        if node.type is not None or None in types:
            continue
        known = [operand_type for operand_type in types if operand_type is not None]
        try:
            call_graph.inferred[node] = infer_type(node.op, known, node.attributes)
        except (TypeProblem, *MALFORMED):
            continue
