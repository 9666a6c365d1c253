"""The bytes of a fusion: what crosses its boundary, counted as in XLA's HloCostAnalysis.

Source: xla/service/hlo_cost_analysis.cc, FusionProcessOutputBytesAccessed, FusionParameterReadBytes and
FusionCountConstantsMemoryAccess, with the default of one full use of each instruction.
"""

from __future__ import annotations

from hloom.analysis.sizes import elements, shape_bytes
from hloom.ir import Apply, Constant, Graph, Node, TensorType, TupleType, Type

IMMEDIATE_ELEMENTS = 1
"""The maximum number of elements of a constant that is part of the code; larger ones are read. (XLA's GPU analysis uses
8.)
"""
SHARES_NO_READ = frozenset(("broadcast", "reshape"))
"""Users of a fused parameter that read it apart from the others (xla/service/hlo_cost_analysis.cc,
HloCostAnalysis::FusionParameterReadBytes)."""

Users = dict[Node, list[Node]]


def fused_gather_or_scatter(graph: Graph) -> Apply | None:
    """The first gather or scatter in a graph, by which XLA classifies a custom fusion."""
    for node in graph.nodes:
        if isinstance(node, Apply) and node.opcode in ("gather", "scatter"):
            return node
    return None


def fused_bytes(graph: Graph, result: Type | None) -> int:
    """The bytes that a fusion of this graph reads and writes."""
    users = _users(graph)
    read = sum(_operand_bytes(parameter, users) for parameter in graph.parameters)
    return _written(graph, result) + _constant_bytes(graph) + read


def _users(graph: Graph) -> Users:
    """The distinct users of each node of a graph; indexing the whole module would take longer."""
    users: Users = {node: [] for node in graph.nodes}
    for node in graph.nodes:
        for used in dict.fromkeys(node.operands):
            if used in users:
                users[used].append(node)
    return users


def _written(graph: Graph, result: Type | None) -> int:
    root = graph.output
    if not isinstance(result, TupleType) or root is None or root.opcode != "tuple":
        return _array_written(root, result)
    return sum(
        _array_written(made, value_type) for made, value_type in zip(root.operands, result.elements, strict=False)
    )


def _array_written(made: Node | None, value_type: Type | None) -> int:
    """The bytes written for one result; for an in-place update, only the update."""
    if isinstance(value_type, TupleType):
        return sum(shape_bytes(leaf) for leaf in value_type.leaves() if isinstance(leaf, TensorType))
    if made is not None and made.opcode == "dynamic-update-slice" and len(made.operands) > 1:
        return shape_bytes(made.operands[1].type)
    return shape_bytes(value_type) if isinstance(value_type, TensorType) else 0


def _constant_bytes(graph: Graph) -> int:
    constants = (node for node in graph.nodes if isinstance(node, Constant))
    return sum(shape_bytes(node.type) for node in constants if elements(node.type) > IMMEDIATE_ELEMENTS)


def _operand_bytes(parameter: Node, users: Users) -> int:
    if not isinstance(parameter.type, TupleType):
        return _read_bytes(parameter, users)
    total = 0
    for index in _indices(parameter.type):
        total += _read_bytes(_element(parameter, index, users), users)
    return total


def _indices(value_type: TupleType) -> list[tuple[int, ...]]:
    """The indices of a tuple's leaves."""
    indices: list[tuple[int, ...]] = []
    pending: list[tuple[Type, tuple[int, ...]]] = [(value_type, ())]
    while pending:
        part, index = pending.pop()
        if isinstance(part, TupleType):
            pending += [(element, (*index, number)) for number, element in reversed(list(enumerate(part.elements)))]
        else:
            indices.append(index)
    return indices


def _element(node: Node, index: tuple[int, ...], users: Users) -> Node:
    for number in index:
        takers = (user for user in users[node] if user.opcode == "get-tuple-element")
        node = next((user for user in takers if user.attributes.get("index") == number), node)
    return node


def _read_bytes(node: Node, users: Users) -> int:
    """The bytes that the users of a fused parameter read of it; users that read all of it share one read."""
    total, is_read = 0, False
    full = shape_bytes(node.type)
    for user in users[node]:
        opcode = user.opcode
        if opcode == "fusion":
            total += sum(
                _nested_bytes(user, number, users) for number, operand in enumerate(user.operands) if operand is node
            )
        elif opcode == "slice" or (opcode == "dynamic-slice" and user.operands[0] is node):
            total += shape_bytes(user.type)
        elif opcode == "dynamic-update-slice" and user.operands[0] is node:
            continue
        elif opcode in SHARES_NO_READ:
            total += full
        elif not is_read:
            is_read = True
            total += full
    return total


def _nested_bytes(fusion: Node, number: int, users: Users) -> int:
    """The bytes that a nested fusion reads of one operand: what its own users read, if that is simple."""
    graph = fusion.attributes["calls"]
    if number >= len(graph.parameters) or graph.output is None:
        return 0
    parameter = graph.parameters[number]
    inputs = graph.root.operands
    is_simple = not inputs or inputs[0] is parameter
    total, is_read = 0, False
    for user in users[fusion]:
        if is_simple and (user.opcode == "slice" or (user.opcode == "dynamic-slice" and user.operands[0] is fusion)):
            total += shape_bytes(user.type)
        elif is_simple and user.opcode == "dynamic-update-slice" and user.operands[0] is fusion:
            continue
        elif not is_read:
            is_read = True
            is_slice = is_simple and user.opcode in ("dynamic-slice", "dynamic-update-slice")
            total += shape_bytes(fusion.type) if is_slice else _read_bytes(parameter, _users(graph))
    return total
