"""The graphs of a module that run, callees first, each with its instructions counted by kind.

Instructions alike in op, types and attributes cost the same, and a large module has few kinds: this is what makes the
cost of a module quick to find.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hloom.analysis.rules import Instruction
from hloom.ir import Apply, Graph, Module, Node, Op, Type, TypeProblem, infer_type
from hloom.text import HloomError

Kind = tuple
"""What decides an instruction's cost: op, types of result and operands, attributes."""
SINGULAR = frozenset(("fusion", "while"))
"""Opcodes whose cost depends on how a called graph is built, or on the instruction itself."""
MALFORMED = (LookupError, AttributeError, TypeError, ValueError)
"""What is raised where an instruction lacks operands, attributes or types that its opcode needs."""
DECIDING = frozenset(
    (
        "branch_computations",
        "calls",
        "dimensions",
        "false_computation",
        "replica_groups",
        "scatter",
        "select",
        "to_apply",
        "true_computation",
        "window",
    )
)
"""The attributes that the rules of other calling ops look at."""


@dataclass(slots=True)
class ComputationCounts:
    """One graph: how many instructions of each kind it has, and those that call graphs, in order."""

    kinds: dict[Kind, int]
    calls: list[Apply]


@dataclass(slots=True)
class CallGraph:
    """Graphs in the order in which they can be costed, an instruction for each kind, callers, types inferred.

    `alike` gives for each graph the first of those that hold the same kinds as often, and so cost the same. `computed`
    are the calls of values, whose graphs are not known.
    """

    entry: Graph
    graphs: dict[Graph, ComputationCounts] = field(default_factory=dict)
    kinds: dict[Kind, Apply] = field(default_factory=dict)
    callers: dict[Graph, list[Apply]] = field(default_factory=dict)
    alike: dict[Graph, Graph] = field(default_factory=dict)
    inferred: dict[Node, Type] = field(default_factory=dict)
    computed: list[Apply] = field(default_factory=list)

    def instruction(self, node: Apply) -> Instruction:
        """What a rule sees of a node."""
        if not self.inferred:
            return Instruction(node.op, node.operand_types(), node.type, node.attributes, node)
        operands = tuple([self.type_of(operand) for operand in node.inputs])
        return Instruction(node.op, operands, self.type_of(node), node.attributes, node)

    def type_of(self, node: Node) -> Type | None:
        """A node's type, written or inferred; None where neither is to be had."""
        return node.type if node.type is not None else self.inferred.get(node)

    def kind(self, node: Apply) -> Kind:
        """What decides the cost of a node that calls no graph."""
        if not self.inferred:
            return _kind(node)
        types = [self.type_of(operand) for operand in node.inputs]
        return node.function, self.type_of(node), id(node.attributes), *types


def build_call_graph(module: Module) -> CallGraph:
    """Survey the graphs that the entry reaches; raises HloomError where graphs call each other in a circle."""
    found = CallGraph(module.entry)
    opened: dict[Graph, _Opened] = {}
    alike: dict[frozenset, Graph] = {}
    waiting: Graph | None = module.entry
    while waiting is not None or opened:
        if waiting is not None:
            opened[waiting] = _open(waiting, found)
        graph = next(reversed(opened))
        waiting = next((called for called in opened[graph].remaining if called not in found.graphs), None)
        if waiting in opened:
            raise HloomError(f"graph {graph.name} leads back to {waiting.name}: its cost has no end")
        if waiting is None:
            _close(graph, opened.pop(graph), found, alike)
    return found


@dataclass(slots=True)
class _Opened:
    """A graph whose callees are being surveyed: its leaves, its calls, and the callees that are still to come."""

    leaves: list[Apply]
    calls: dict[Apply, list[Graph]]
    remaining: Iterator[Graph]


def _open(graph: Graph, found: CallGraph) -> _Opened:
    nodes = [node for node in graph.nodes if type(node) is Apply]
    if graph.module.has_closures:
        found.computed += [node for node in nodes if not isinstance(node.function, Op)]
        nodes = [node for node in nodes if isinstance(node.function, Op)]
    if None in [node.type for node in nodes]:
        _infer(nodes, found)
    calls: dict[Apply, list[Graph]] = {}
    for node in [node for node in nodes if node.attributes.refers]:
        called = _called(node)
        if called:
            calls[node] = called
            for each in called:
                found.callers.setdefault(each, []).append(node)
    leaves = [node for node in nodes if node not in calls] if calls else nodes
    return _Opened(leaves, calls, iter([each for called in calls.values() for each in called]))


def _called(node: Apply) -> list[Graph]:
    """The graphs that a node calls; `node.called_graphs`, faster."""
    graphs: list[Graph] = []
    for value in node.attributes.values():
        if type(value) is Graph:
            graphs.append(value)
        elif type(value) is tuple and value and type(value[0]) is Graph:
            graphs += value
    return graphs


def _close(graph: Graph, part: _Opened, found: CallGraph, alike: dict[frozenset, Graph]) -> None:
    """Count a graph's instructions by kind, now that its callees are known, and find the first graph like it."""
    counted: dict[Kind, int] = {}
    first = found.kinds
    for node in part.leaves:
        kind = found.kind(node) if found.inferred else _kind(node)
        if kind in counted:
            counted[kind] += 1
        else:
            counted[kind] = 1
            first.setdefault(kind, node)
    for node in part.calls:
        kind = _call_kind(node, found)
        counted[kind] = counted.get(kind, 0) + 1
        first.setdefault(kind, node)  # the first of a kind, whose callees are counted before any other's
    found.graphs[graph] = ComputationCounts(counted, list(part.calls))
    found.alike[graph] = alike.setdefault(frozenset(counted.items()), graph)


def _kind(node: Apply) -> Kind:
    return node.function, node.type, id(node.attributes), *[operand.type for operand in node.inputs]


def _call_kind(node: Apply, found: CallGraph) -> Kind:
    """What decides the cost of a node that calls graphs: the node itself where more than their costs matters."""
    if node.op.name in SINGULAR:
        return (node,)
    values = [_as_alike(value, found) for name, value in node.attributes.items() if name in DECIDING]
    return node.function, found.type_of(node), *values, None, *[found.type_of(operand) for operand in node.inputs]


def _as_alike(value: object, found: CallGraph) -> object:
    if type(value) is Graph:
        return found.alike.get(value, value)
    if type(value) is tuple and value and type(value[0]) is Graph:
        return tuple([found.alike.get(each, each) for each in value])
    return value


def _infer(nodes: list[Apply], found: CallGraph) -> None:
    """Infer the types that a graph's text leaves out, in order; those that cannot be had stay unknown."""
    for node in nodes:
        types = [found.type_of(operand) for operand in node.inputs]
        if node.type is not None or None in types:
            continue
        try:
            found.inferred[node] = infer_type(node.op, [kind for kind in types if kind is not None], node.attributes)
        except (TypeProblem, *MALFORMED):
            continue
