"""The canonical form: no calls, each loop and branch with its own graphs, and tuples written out.

The operands, parameters, results and outputs of a loop or branch are then a `tuple` of arrays on one side and
`get-tuple-element`s on the other, so that every array passed between computations has a name of its own; no loop state
contains a nested tuple. Names of the entry are kept; instructions of other graphs get names that are unique in the
module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hloom.analysis import called_computations, flow_of, is_branch, is_loop, with_callees
from hloom.ir import Apply, Graph, Module, Node, Parameter, TupleType
from hloom.ops import OPS
from hloom.passes.inline import MAX_NODES, inline, inline_fusions
from hloom.passes.pipeline import rules_pass
from hloom.passes.rules.tuple import element_of_tuple
from hloom.passes.rules.while_state import nested_state
from hloom.text import HloomError

FLATTEN_STATES = rules_pass("flatten-states", (nested_state, element_of_tuple), "states of loops hold no tuples")
"""A sharding belongs to an array: arrays in a nested tuple inside a loop's state would have no name of their own."""


def canonicalize(module: Module) -> Module:
    """A copy in canonical form; raises HloomError if giving every loop its own graphs would make too many."""
    copy = module.clone()
    canonicalize_in_place(copy)
    return copy


def canonicalize_in_place(module: Module) -> None:
    """As `canonicalize`, in place."""
    if not any(isinstance(node, Apply) and called_computations(node) for node in module.entry.nodes):
        return
    inline(module)
    inline_fusions(module)
    if any(is_loop_or_branch(node) and _holds_tuples(node) for node in module.nodes()):
        FLATTEN_STATES.run(module)
    module.index_users()
    graphs = _owned(module)
    for graph in graphs:
        for node in graph.nodes:
            if isinstance(node, Apply) and (is_loop_or_branch(node) or node.opcode == "opt-barrier"):
                _write_out(node)
    _rename(module, graphs)


def is_loop_or_branch(node: Node) -> bool:
    """Whether a node runs graphs of its own, as a loop or a branch does."""
    return isinstance(node, Apply) and (is_loop(node) or is_branch(node)) and bool(called_computations(node))


def _holds_tuples(node: Node) -> bool:
    return isinstance(node.type, TupleType) and any(isinstance(held, TupleType) for held in node.type.elements)


def _owned(module: Module) -> list[Graph]:
    """Give each loop and branch graphs that nothing else runs; the graphs that run, callers first."""
    graphs, seen, size = [module.entry], {module.entry}, module.node_count
    for graph in graphs:
        for node in graph.nodes:
            if not isinstance(node, Apply) or not is_loop_or_branch(node):
                continue
            own: list[Graph] = []
            for called in called_computations(node):
                if called in seen:
                    size += len(called.nodes)
                    if size > MAX_NODES:
                        raise HloomError(
                            f"{module.name} would have more than {MAX_NODES:,} instructions if each loop had its own"
                        )
                    called = module.clone_graph(called, module.unique_graph_name(called.name))
                own.append(called)
                seen.add(called)
            _set_called(node, own)
            graphs += own
    return graphs


def _set_called(node: Apply, graphs: Sequence[Graph]) -> None:
    if tuple(graphs) == tuple(called_computations(node)):
        return
    node.graph.set_attributes(node, node.attributes.changed(with_callees(node, tuple(graphs))))


def _write_out(node: Apply) -> None:
    """Write out the tuples around a loop, branch or barrier."""
    flow = flow_of(node)
    given = range(flow.first_operand if flow is not None else 0, len(node.operands))
    inputs = list(node.operands)
    for operand_index in given:
        if _is_tuple(inputs[operand_index]) and inputs[operand_index].opcode != "tuple":
            inputs[operand_index] = _rebuilt(inputs[operand_index], before=node)
    if inputs != list(node.operands):
        node.graph.set_operands(node, inputs)
    for graph in called_computations(node):
        for parameter in graph.parameters:
            if _is_tuple(parameter):
                first = next((first_node for first_node in graph.nodes if not isinstance(first_node, Parameter)), None)
                _elements(parameter, first)
        root = graph.output
        if root is not None and _is_tuple(root) and root.opcode != "tuple":
            graph.set_output(_rebuilt(root, before=None))
    if _is_tuple(node):
        _write_out_result(node)


def _write_out_result(node: Apply) -> None:
    """Put a tuple of its elements where a loop's or branch's result is used as a tuple."""
    graph = node.graph
    tuple_users = [user for user in node.users if user.opcode != "get-tuple-element"]
    if not tuple_users and graph.output is not node:
        return
    nodes = graph.nodes
    following = nodes.index(node) + 1
    made = _rebuilt(node, before=nodes[following] if following < len(nodes) else None)
    for user in tuple_users:
        graph.set_operands(user, [made if old is node else old for old in user.operands])
    if graph.output is node:
        graph.set_output(made)


def _rebuilt(value: Node, before: Node | None) -> Apply:
    """A tuple of the elements of a tuple."""
    elements = [_element(value, number, before) for number in range(_count(value))]
    return value.graph.add_apply(OPS["tuple"], elements, value.type, {}, f"{value.name}.tuple", before=before)


def _elements(value: Node, before: Node | None) -> None:
    """Take every element of a tuple out that nothing takes out yet."""
    known = {user.attributes.get("index") for user in value.users if user.opcode == "get-tuple-element"}
    for number in range(_count(value)):
        if number not in known:
            _element(value, number, before)


def _element(value: Node, number: int, before: Node | None) -> Apply:
    assert isinstance(value.type, TupleType)
    element_type, name = value.type.elements[number], f"{value.name}.{number}"
    return value.graph.add_apply(
        OPS["get-tuple-element"], (value,), element_type, {"index": number}, name, before=before
    )


def _is_tuple(value: Node) -> bool:
    return isinstance(value.type, TupleType)


def _count(value: Node) -> int:
    return len(value.type.elements) if isinstance(value.type, TupleType) else 0


def _rename(module: Module, graphs: Iterable[Graph]) -> None:
    """Give the instructions of graphs other than the entry names that stand once in the module."""
    taken = {node.name for node in module.entry.nodes}
    for graph in graphs:
        for node in graph.nodes if graph is not module.entry else ():
            name, number = node.name, 0
            while name in taken:
                number += 1
                name = f"{graph.name}.{node.name}" if number == 1 else f"{graph.name}.{node.name}.{number}"
            if name != node.name:
                graph.rename(node, name)
            taken.add(name)
