"""Rules on sort and map, and on reductions of which some results are unused.

Follows XLA's xla/hlo/transforms/simplifiers/sort_simplifier.cc (RemoveUnusedOperandFromSort) and
xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleSort, HandleMap).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hloom.ir import Apply, Constant, Graph, Node, Parameter, TensorType, Trait, TupleType
from hloom.rewrite import Builder, Family, literal_value, tensor_type

SORT = Family("sort", formerly="sorting")


@SORT.rewrites("sort", benefit=9, depth=1, because="takes any number of arrays")
def sort_of_single_elements(build: Builder, node: Apply) -> Node | None:
    """sort(f32[4,1]), dimensions={1} -> x, of several arrays a tuple: there is nothing to sort."""
    types = [tensor_type(operand) for operand in node.operands]
    dimensions = node.attribute("dimensions")
    if not types or types[0] is None or not dimensions or dimensions[0] >= max(types[0].rank, 1):
        return None
    along = dimensions[0]
    if types[0].rank and types[0].element_count and types[0].dims[along] > 1:
        return None
    return build.op("tuple", *node.operands) if isinstance(node.type, TupleType) else node.operands[0]


@SORT.rewrites("sort", depth=1, because="walks users, and edits the comparison")
def sort_of_fewer(build: Builder, node: Apply) -> Node | None:
    """sort(keys, unused) -> sort(keys), where neither the comparison nor anyone else looks at the other array.

    The order is decided by the comparison alone. In place of what nobody asks for stands the array unsorted.
    """
    asked = _used_elements(node)
    graph: Graph | None = node.attribute("to_apply")
    if asked is None or graph is None or graph.output is None or len(graph.parameters) != 2 * len(node.operands):
        return None
    compared = ancestors([graph.output])
    kept = [
        number
        for number in range(len(node.operands))
        if number in asked or any(graph.parameters[2 * number + side] in compared for side in (0, 1))
    ]
    if not kept or len(kept) == len(node.operands):
        return None
    parameters = [2 * number + side for number in kept for side in (0, 1)]
    comparison = narrow_computation(build, graph, parameters, graph.output)
    assert comparison is not None, "a comparison looks only at what is kept"
    operands = [node.operands[number] for number in kept]
    sort = build.op(
        "sort",
        *operands,
        dimensions=node.attributes["dimensions"],
        is_stable=node.attribute("is_stable"),
        to_apply=comparison,
    )
    results = list(node.operands)
    for position, number in enumerate(kept):
        results[number] = build.get(sort, position) if len(kept) > 1 else sort
    return build.op("tuple", *results)


@SORT.rewrites("get-tuple-element", depth=2, because="walks users, and edits the computation")
def reduce_of_fewer(build: Builder, node: Apply) -> Node | None:
    """get-tuple-element(reduce(x, y, a, b)), index=0 -> reduce(x, a), where only this result is asked for.

    And where the computation makes it without looking at the others.
    """
    reduce, index = node.operands[0], node.attribute("index")
    if not isinstance(reduce, Apply) or reduce.opcode != "reduce" or _used_elements(reduce) != {index}:
        return None
    graph: Graph | None = reduce.attribute("to_apply")
    count = len(reduce.operands) // 2
    if graph is None or graph.output is None or graph.output.opcode != "tuple" or tensor_type(node) is None:
        return None
    if len(graph.parameters) != 2 * count or len(graph.output.operands) != count:
        return None
    alone = narrow_computation(build, graph, (index, count + index), graph.output.operands[index])
    if alone is None:
        return build.decline("the computation looks at the other arrays too")
    operands = reduce.operands[index], reduce.operands[count + index]
    return build.op("reduce", *operands, dimensions=reduce.attributes["dimensions"], to_apply=alone)


@SORT.rewrites("reduce", "reduce-window", benefit=8, depth=1, because="edits the computation")
def reduction_of_one_in_tuple(build: Builder, node: Apply) -> Node | None:
    """(f32[4]) reduce(x, start) whose computation yields a tuple of one -> tuple(reduce(x, start))."""
    graph: Graph | None = node.attribute("to_apply")
    root = graph.output if graph is not None else None
    if len(node.operands) != 2 or not isinstance(node.type, TupleType) or graph is None or root is None:
        return None
    if root.opcode != "tuple" or len(graph.parameters) != 2 or len(root.operands) != 1:
        return None
    alone = narrow_computation(build, graph, (0, 1), root.operands[0])
    assert alone is not None, "nothing else can be looked at"
    names = ("dimensions", "window")
    attributes = {name: node.attributes[name] for name in names if name in node.attributes}
    return build.op("tuple", build.op(node.opcode, *node.operands, to_apply=alone, attributes=attributes))


@SORT.rewrites("map", benefit=2, depth=1, because="makes the op that the computation is of")
def map_of_one_op(build: Builder, node: Apply) -> Node | None:
    """map(x, y) whose computation is one op of its parameters -> the op; a parameter -> x; a constant -> broadcast."""
    graph: Graph | None = node.attribute("to_apply")
    root, result = graph.output if graph is not None else None, tensor_type(node)
    if graph is None or root is None or result is None or len(graph.parameters) != len(node.operands):
        return None
    if isinstance(root, Parameter):
        return node.operands[root.number]
    if isinstance(root, Constant):
        literal = literal_value(root)
        if literal is None or not isinstance(literal.type, TensorType) or literal.type.rank:
            return None
        value = build.constant(literal)
        return build.broadcast(value, result.with_layout(None)) if result.rank else value
    if not isinstance(root, Apply) or not root.has_trait(Trait.ELEMENTWISE):
        return build.decline("the computation is more than one op")
    if any(not isinstance(operand, Parameter) for operand in root.operands):
        return build.decline("the computation is more than one op")
    operands = [node.operands[operand.number] for operand in root.operands if isinstance(operand, Parameter)]
    attributes = {name: value for name, value in root.attributes.items() if not root.op.attributes[name].carried}
    return build.op(root.opcode, *operands, type=result.with_layout(None), attributes=attributes)


def _used_elements(node: Node) -> set[int | None] | None:
    """Which elements of a tuple are used; None where all may be."""
    if node.is_output or not isinstance(node.type, TupleType):
        return None
    users = node.users
    if not users or any(user.opcode != "get-tuple-element" for user in users):
        return None
    return {user.attributes.get("index") for user in users}


def ancestors(outputs: Iterable[Node]) -> set[Node]:
    """All that the nodes of one graph are computed from, themselves included."""
    reached: set[Node] = set()
    pending = list(outputs)
    while pending:
        node = pending.pop()
        if node not in reached:
            reached.add(node)
            pending.extend(node.operands)
    return reached


def narrow_computation(build: Builder, graph: Graph, parameters: Sequence[int], output: Node) -> Graph | None:
    """A new computation of some of the parameters, in order, that yields a node of the old one.

    None where that node needs others too. Taken out again by the builder where nothing calls it.
    """
    kept = [graph.parameters[number] for number in parameters]
    live_nodes = ancestors([output])
    if any(parameter in live_nodes and parameter not in kept for parameter in graph.parameters):
        return None
    module = graph.module
    fresh = module.add_graph(graph.name)
    module.graphs.remove(fresh)  # a computation stands before those that call it
    module.graphs.insert(module.graphs.index(build.graph), fresh)
    build.made_graphs.append(fresh)
    mapping: dict[Any, Any] = {}
    fresh.copy_nodes(kept, mapping)
    fresh.copy_nodes([node for node in graph.nodes if node in live_nodes], mapping)
    fresh.set_output(mapping[output])
    return fresh
