"""The pass `cse`: common subexpression elimination of nodes, and deduplication of called graphs.

Follows XLA's xla/service/hlo_cse.cc (HloCSE::RunOnComputation) and
xla/hlo/transforms/simplifiers/hlo_computation_deduplicator.cc.

Hash-based value numbering (Cocke and Schwartz, Programming Languages and Their Compilers, 1970): equal numbers for
attributes, constants and graphs that are equal but for names and metadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

from hloom.ir import (
    Apply,
    Attributes,
    Constant,
    DTypeKind,
    Graph,
    Literal,
    Module,
    Node,
    Parameter,
    Referent,
    TensorType,
    Trait,
    callees_first,
)
from hloom.ops import EXTREMES, OWNERS, SideEffects, fixed_form, with_trait
from hloom.passes.computation_order import control_predecessors
from hloom.passes.pipeline import register_pass
from hloom.rewrite import Report

COMMUTATIVE = with_trait(Trait.COMMUTATIVE) - EXTREMES
"""Ops whose operands may be swapped, of any type: of -0.0 and 0.0, which are equal, an extreme may keep the first."""
PAIRED = ("-start", "-update", "-done")
"""How the opcodes end that belong together, one of each."""


def cse(module: Module) -> Report:
    """Merge equal computations, constants and called graphs; the first of each stays, with its metadata.

    Nodes with effects or control dependencies are not merged, nor values with different layouts or shardings.
    """
    report, numbering, effects = Report("cse"), ValueNumbering(), SideEffects()
    module.index_users()
    numbering.graphs(module)
    graphs = 0 if module.has_closures else _merge_graphs(module, numbering)
    called = [graph for graph in module.graphs if graph.callers]
    for graph in module.graphs:
        if not fixed_form(graph):
            report.erased += _merge_nodes(graph, numbering, effects)
    report.changes = graphs
    if report.erased:
        graphs += _erase_uncalled(module, called)
    if graphs:
        report.notes.append(f"{graphs:,} computations merged with equal ones")
    return report


def _merge_graphs(module: Module, numbering: ValueNumbering) -> int:
    """Make the callers of equal graphs call the first one; returns how many graphs were removed."""
    first: dict[int, Graph] = {}
    gone: list[Graph] = []
    for graph in module.graphs:
        if module.is_entry(graph) or not graph.callers or any(user.opcode in OWNERS for user in graph.callers):
            continue
        kept = first.setdefault(numbering.class_of_graph[graph], graph)
        if kept is not graph:
            for caller in graph.callers:
                caller.graph.set_attributes(caller, caller.attributes.mapped({graph: kept}))
            gone.append(graph)
    for graph in reversed(gone):
        module.erase_graph(graph)
    return len(gone)


def _erase_uncalled(module: Module, graphs: list[Graph]) -> int:
    """Erase those of these graphs that only merged nodes called; returns how many."""
    gone = [graph for graph in reversed(graphs) if not graph.callers and not module.is_entry(graph)]
    for graph in gone:
        module.erase_graph(graph)
    return len(gone)


def _merge_nodes(graph: Graph, numbering: ValueNumbering, effects: SideEffects) -> int:
    """Merge the equal nodes of a graph; returns how many were removed."""
    numbers: dict[Node, int] = {}
    first: dict[Hashable, Node] = {}
    merged: dict[Node, Node] = {}
    awaited = control_predecessors(graph)
    for node in graph.nodes:
        if merged:
            _use_merged(graph, node, merged)
        numbers[node] = len(numbers)
        key = None if node in awaited else merge_key(node, numbers, numbering, effects)
        kept = node if key is None else first.setdefault(key, node)
        if kept is not node:
            merged[node] = kept
    if graph.output in merged:
        graph.set_output(merged[graph.output])
    if graph.module.has_closures:
        for node, kept in merged.items():
            graph.replace_uses(node, kept)
    for node in reversed(merged):
        graph.erase(node)
    return len(merged)


def _use_merged(graph: Graph, node: Node, merged: dict[Node, Node]) -> None:
    for used in node.operands:
        if used in merged:
            graph.set_operands(node, [merged.get(operand, operand) for operand in node.operands])
            return


def merge_key(node: Node, numbers: dict[Node, int], numbering: ValueNumbering, effects: SideEffects) -> Hashable | None:
    """A key that is equal for nodes that may be merged; None if the node must not be merged."""
    if node.type is None:
        return None
    attributes = node.attributes
    if isinstance(node, Constant):
        is_function = attributes.refers or any(node.called_graphs)
        return None if is_function else _constant(node, numbering)
    if not isinstance(node, Apply) or not node.has_row:
        return None
    if attributes.refers and any(not referent.is_graph for referent in attributes.referents()):
        return None
    if node.opcode.endswith(PAIRED) or not effects.may_merge(node):
        return None
    inputs = [numbers.get(operand, operand) for operand in node.operands]
    operands = frozenset(inputs) if len(inputs) == 2 and _commutes(node) else tuple(inputs)
    return node.function, node.type, numbering.attributes(attributes), operands


def _constant(node: Constant, numbering: ValueNumbering) -> Hashable:
    return "constant", numbering.constant(node), node.type, numbering.attributes(node.attributes)


def _commutes(node: Apply) -> bool:
    if node.opcode in COMMUTATIVE:
        return True
    node_type = node.type
    if node.opcode not in EXTREMES or not isinstance(node_type, TensorType):
        return False
    return node_type.dtype.is_integer or node_type.dtype.kind is DTypeKind.BOOLEAN


register_pass("cse", "merge equal computations, constants and called computations", cse)


NOTES = frozenset(("origin", "statistics"))
"""Attributes that record where a value came from, like metadata."""
_SMALL = 64
"""The maximum number of elements of literals compared through their bytes, kept in a table; larger ones are compared by
value.
"""


class ValueNumbering:
    """Assigns equal numbers to equal things.

    Graphs in `class_of_graph` are equal if their numbers are; any other graph only equals itself.
    """

    def __init__(self, class_of_graph: dict[Graph, int] | None = None) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._attributes: dict[int, int] = {}
        self._kept: list[Attributes] = []
        self.class_of_graph: dict[Graph, int] = {} if class_of_graph is None else class_of_graph

    def number(self, key: Hashable) -> int:
        """The number of a key; an unhashable key gets a new number."""
        try:
            return self._numbers.setdefault(key, len(self._numbers))
        except TypeError:
            return self._numbers.setdefault(object(), len(self._numbers))

    def attributes(self, attributes: Attributes) -> int:
        """The number of attributes that refer to no nodes; graphs in them are compared by class."""
        known = self._attributes.get(id(attributes))
        if known is None:
            items = frozenset([(name, self._value(value)) for name, value in attributes.items() if name not in NOTES])
            known = self._attributes[id(attributes)] = self.number(items)
            self._kept.append(attributes)  # keeps the object alive so that its id is not reused
        return known

    def constant(self, node: Constant) -> Hashable:
        """What tells a constant from others of its type."""
        value = node.value
        if not isinstance(value, Literal) or value.is_tuple or value.is_left_out:
            return value
        array = value.numpy()
        return array.tobytes() if array.size <= _SMALL else value

    def graphs(self, module: Module) -> None:
        """Number the graphs of a module: equal numbers for equal graphs, node for node in order."""
        sizes = Counter(_size(graph) for graph in module.graphs)
        for graph in callees_first(module):
            alone = sizes[_size(graph)] == 1 or graph.parent is not None or graph.output is None
            contents = None if alone else self._graph(graph)
            self.class_of_graph[graph] = self.number(graph if contents is None else contents)

    def callees(self, graph: Graph) -> None:
        """Number the callees of a graph that have no number yet; their own callees must have one."""
        for callee in graph.callees():
            if callee not in self.class_of_graph:
                contents = self.contents(callee)
                self.class_of_graph[callee] = self.number(callee) if contents is None else contents

    def contents(self, graph: Graph) -> int | None:
        """The number of a graph's contents, ignoring names; None if it uses outside nodes.

        Its callees must have numbers (`callees`).
        """
        contents = self._graph(graph) if graph.parent is None and graph.output is not None else None
        return None if contents is None else self.number(contents)

    def _graph(self, graph: Graph) -> Hashable | None:
        """All that a graph is; None where it uses what is outside, or what nothing defines."""
        index_of: dict[Node, int] = {}
        keys: list[Hashable] = [graph.execution_thread]
        for node in graph.nodes:
            key = self._node(node, index_of)
            if key is None:
                return None
            index_of[node] = len(index_of)
            keys.append(key)
        return (*keys, index_of.get(graph.root))

    def _node(self, node: Node, index_of: dict[Node, int]) -> Hashable | None:
        attributes = node.attributes
        if any(not referent.is_graph for referent in attributes.referents()):
            return None
        number = self.attributes(attributes)
        if isinstance(node, Parameter):
            return "parameter", node.number, node.type, number
        if isinstance(node, Constant):
            return "constant", self.constant(node), node.type, number
        if not isinstance(node, Apply) or not node.has_row or any(operand not in index_of for operand in node.operands):
            return None
        return node.function, node.type, number, *[index_of[operand] for operand in node.operands]

    def _value(self, value: Any) -> Any:
        if isinstance(value, Referent):
            return ("graph", self.class_of_graph.get(value, value)) if isinstance(value, Graph) else value
        if isinstance(value, tuple) and value and isinstance(value[0], Graph):
            return tuple([("graph", self.class_of_graph.get(graph, graph)) for graph in value])
        return value


def _size(graph: Graph) -> tuple[int, int]:
    return len(graph.nodes), len(graph.parameters)
