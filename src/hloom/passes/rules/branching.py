"""Rules for conditionals: those whose choice is known, and branches that take or yield what nothing needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.ir import TOKEN, Apply, Attributes, Constant, Graph, Literal, Node, Parameter, TensorType, TupleType, Type
from hloom.ir import difference as difference_of
from hloom.ops import OPS
from hloom.passes.rules.elements import element_nodes, elements_of, only_elements, select_attributes
from hloom.passes.rules.states import element, needed, tuple_of
from hloom.rewrite import Builder, Family, splat_of, used_once

BRANCHING = Family("branching")

LARGEST = 1024
"""How many elements a constant may have to be copied into branches although something else uses it too."""


def branches_of(node: Apply) -> tuple[Graph, ...]:
    """The branches of a conditional, in the order of its operands."""
    listed = node.attributes.get("branch_computations")
    if listed is not None:
        return tuple(listed)
    pair = (node.attributes.get("true_computation"), node.attributes.get("false_computation"))
    return tuple(graph for graph in pair if graph is not None)


@BRANCHING.rewrites("conditional", benefit=5, depth=3, effects=True)
def known_branch(build: Builder, node: Apply) -> Node | None:
    """conditional(constant 1, x, y), branch_computations={f, g} -> g(y), put in place; out of range means the last

    The branches that do not run have no effects either.
    """
    branches = branches_of(node)
    chosen = 0 if len(branches) == 1 else _chosen(node, len(branches))
    if chosen is None:
        return build.decline("the choice is not known")
    if _waits(node) or len(branches) + 1 != len(node.inputs):
        return build.decline("control dependencies name the conditional")
    build.consumed.append(node)
    return build.copy(branches[chosen], (node.inputs[chosen + 1],))


@BRANCHING.rewrites("conditional", benefit=4, depth=2, effects=True)
def equal_branches(build: Builder, node: Apply) -> Node | None:
    """conditional(i, x, x), branch_computations={f, f} -> f(x), put in place

    Graphs count as the same that are so node for node, names and metadata aside.
    """
    branches, operands = branches_of(node), set(node.inputs[1:])
    if len(operands) != 1 or _waits(node) or not branches:
        return build.decline("the branches are given different operands")
    if any(not _are_alike(branches[0], each) for each in branches[1:]):
        return build.decline("the branches differ")
    build.consumed.append(node)
    return build.copy(branches[0], tuple(operands))


@BRANCHING.rewrites("conditional", benefit=3, depth=2, effects=True)
def unused_results(build: Builder, node: Apply) -> Node | None:
    """conditional(i, x, y) that yields (a, b), b used by nothing -> one that yields (a)"""
    kinds, used = elements_of(node.type), only_elements(node)
    if kinds is None or used is None or len(used) == len(kinds) or not _can_be_filled(kinds):
        return build.decline("all elements are used")
    kept = sorted(used)
    graphs = [_with_results(build, graph, kept) for graph in branches_of(node)]
    made = build.op(
        "conditional", *node.inputs, type=TupleType([kinds[index] for index in kept]),
        attributes=_with_branches(node, graphs, select_attributes(node.attributes, node.type, kept)),
    )  # fmt: skip
    build.carries_itself = True
    build.consumed.append(node)
    places = {index: place for place, index in enumerate(kept)}
    return tuple_of(
        build,
        [
            element(build, made, places[index]) if index in places else _filler(build, kind)
            for index, kind in enumerate(kinds)
        ],
    )


@BRANCHING.rewrites("conditional", benefit=2, depth=3, effects=True)
def unused_operands(build: Builder, node: Apply) -> Node | None:
    """conditional(i, tuple(a, b), y) -> conditional(i, tuple(a), y), where the branch does not use the second element

    Constants among the elements are copied into the branch, which then does not use them.
    """
    branches = branches_of(node)
    if len(branches) + 1 != len(node.inputs):
        return None
    operands, graphs = list(node.inputs), list(branches)
    for number, graph in enumerate(branches):
        found = _with_operands(build, graph, node.inputs[number + 1])
        if found is not None:
            graphs[number], operands[number + 1] = found
    if operands == list(node.inputs):
        return build.decline("the branches use all that they are given")
    build.carries_itself = True
    build.consumed.append(node)
    attributes = _with_branches(node, graphs, dict(node.attributes))
    return build.op("conditional", *operands, type=node.type, attributes=attributes)


@BRANCHING.rewrites("conditional", benefit=3, depth=2, effects=True)
def branch_by_predicate(build: Builder, node: Apply) -> Node | None:
    """conditional(convert(pred), x, y), branch_computations={f, g} -> conditional(pred, y, x), g where true, else f"""
    branches, chooser = branches_of(node), node.inputs[0]
    if "branch_computations" not in node.attributes or len(branches) != 2 or chooser.opcode != "convert":
        return None
    predicate = chooser.inputs[0]
    if not isinstance(predicate.type, TensorType) or predicate.type.dtype.name != "pred" or len(node.inputs) != 3:
        return None
    build.carries_itself = True
    build.consumed.append(node)
    attributes = {name: value for name, value in node.attributes.items() if name != "branch_computations"}
    attributes |= {"true_computation": branches[1], "false_computation": branches[0]}
    operands = (predicate, node.inputs[2], node.inputs[1])
    return build.op("conditional", *operands, type=node.type, attributes=attributes)


def _chosen(node: Apply, count: int) -> int | None:
    value = splat_of(node.inputs[0])
    if value is None:
        return None
    kind = node.inputs[0].type
    if isinstance(kind, TensorType) and kind.dtype.name == "pred":
        return 0 if value else 1
    return int(value) if 0 <= int(value) < count else count - 1


def _are_alike(one: Graph, other: Graph) -> bool:
    if one is other:
        return True
    if len(one.nodes) != len(other.nodes):
        return False
    return difference_of(one, other, metadata=False) is None


def _with_results(build: Builder, graph: Graph, kept: Sequence[int]) -> Graph:
    """A branch that yields some of the elements only."""
    made = build.new_graph(graph.name)
    made.execution_thread = graph.execution_thread
    root = graph.root
    results = [root.inputs[index] for index in kept] if root.opcode == "tuple" else [root]
    mapping: dict[Any, Any] = {}
    wanted = needed(graph, results)
    nodes = [node for node in graph.nodes if node in wanted or isinstance(node, Parameter)]
    _copy_with_parameters(build, nodes, mapping, made)
    if root.opcode == "tuple":
        parts = [mapping[each] for each in results]
    else:
        kinds = elements_of(root.type)
        parts = [
            made.add_apply(OPS["get-tuple-element"], [mapping[root]], kinds[index] if kinds else None, {"index": index})
            for index in kept
        ]
        build.made += parts
    known = [part.type for part in parts if part.type is not None]
    attributes = select_attributes(root.attributes, root.type, kept) if root.opcode == "tuple" else {}
    output = made.add_apply(OPS["tuple"], parts, TupleType(known), attributes, metadata=root.raw_metadata)
    build.made.append(output)
    made.set_output(output)
    return made


def _with_operands(build: Builder, graph: Graph, operand: Node) -> tuple[Graph, Node] | None:
    """A branch that is given some of the elements only, and what it is given; None where it needs all."""
    kinds = elements_of(operand.type)
    if kinds is None or len(graph.parameters) != 1 or graph.output is None:
        return None
    if graph.missing or graph.module.has_closures:
        return None
    whole = graph.parameters[0]
    used = only_elements(whole)
    if used is None:
        return None
    constants = _constants(operand) if operand.opcode == "tuple" else {}
    kept = [index for index in range(len(kinds)) if index in used and index not in constants]
    if len(kept) == len(kinds):
        return None
    made = build.new_graph(graph.name)
    made.execution_thread = graph.execution_thread
    parameter = made.add_parameter(
        TupleType([kinds[index] for index in kept]), whole.name,
        Attributes(select_attributes(whole.attributes, whole.type, kept)), whole.raw_metadata,
    )  # fmt: skip
    mapping: dict[Any, Any] = {whole: parameter}
    places = {index: place for place, index in enumerate(kept)}
    for index, nodes in element_nodes(whole).items():
        if index in constants:
            inside: dict[Any, Any] = {}
            build.copy_nodes([constants[index]], inside, made)
            mapping |= dict.fromkeys(nodes, inside[constants[index]])
    for node in graph.nodes:
        if node in mapping:
            continue
        build.copy_nodes([node], mapping, made)
        if node.opcode == "get-tuple-element" and node.inputs[0] is whole:
            copy = mapping[node]
            made.set_attributes(copy, copy.attributes.changed(index=places[copy.attributes["index"]]))
    made.set_output(mapping[graph.output])
    return made, tuple_of(build, [element(build, operand, index) for index in kept])


def _constants(operand: Node) -> dict[int, Node]:
    """The elements that are constants small enough to be copied."""
    return {index: each for index, each in enumerate(operand.inputs) if _is_small_constant(each)}


def _is_small_constant(node: Node) -> bool:
    if not isinstance(node, Constant) or not isinstance(node.value, Literal) or not isinstance(node.type, TensorType):
        return False
    return node.value.is_splat or used_once(node) or node.type.element_count <= LARGEST


def _copy_with_parameters(build: Builder, nodes: Sequence[Node], mapping: dict[Any, Any], into: Graph) -> None:
    """Copy nodes, parameters included, which are no nodes that the builder may take out again."""
    into.copy_nodes([node for node in nodes if isinstance(node, Parameter)], mapping)
    build.copy_nodes(nodes, mapping, into)


def _with_branches(node: Apply, graphs: Sequence[Graph], attributes: dict[str, Any]) -> dict[str, Any]:
    if "branch_computations" in node.attributes:
        return attributes | {"branch_computations": tuple(graphs)}
    return attributes | {"true_computation": graphs[0], "false_computation": graphs[1]}


def _can_be_filled(kinds: Sequence[Type]) -> bool:
    leaves = [leaf for kind in kinds for leaf in kind.leaves()]
    return all(leaf is TOKEN or (isinstance(leaf, TensorType) and leaf.is_static) for leaf in leaves)


def _filler(build: Builder, kind: Type) -> Node:
    """Any value of a type, for a place that nothing looks at."""
    if isinstance(kind, TupleType):
        return tuple_of(build, [_filler(build, each) for each in kind.elements])
    if isinstance(kind, TensorType):
        return build.constant(False if kind.dtype.name == "pred" else 0, kind)
    return build.op("after-all")


def _waits(node: Node) -> bool:
    return any(not each.is_graph for each in node.attributes.referents())
