"""Rules on conditional: known predicates, equal branches, unused operands and results, branches as selects.

Follows XLA's xla/service/conditional_simplifier.cc (TryRemoveConditional, TryRemoveUnusedConditionalOperands,
RemoveUnusedTupleElements, MergeDuplicateTupleElements) and xla/service/conditional_to_select.cc.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hloom.ir import TOKEN, Apply, Attributes, Graph, Node, Parameter, TensorType, Trait, TupleType, Type, dtype
from hloom.ir import difference as difference_of
from hloom.ops import CALLERS, OPS, may_merge, with_trait
from hloom.passes.computation_order import has_control_dependencies
from hloom.passes.rules.broadcast import POINTWISE
from hloom.passes.rules.loop_state import element, is_small_constant, live_nodes, tuple_of
from hloom.passes.rules.tuple_elements import element_nodes, elements_of, only_elements, select_attributes
from hloom.rewrite import Builder, Family, operand_is, splat_of, tensor_type

CONDITIONAL = Family("conditional", formerly="branching")
CONDITIONAL_TO_SELECT = Family("conditional-to-select", because="copies both branches in place")

_HOST = with_trait(Trait.POINT_TO_POINT) | with_trait(Trait.HOST_FEED)
"""Transfers whose other end is told of all that a program holds, whether it runs or not."""
_CHEAP = frozenset(
    (
        "broadcast", "concatenate", "constant", "dynamic-slice", "get-tuple-element", "iota", "pad", "reduce",
        "reshape", "slice", "tuple",
    )
)  # fmt: skip


def branches_of(node: Apply) -> tuple[Graph, ...]:
    """The branches of a conditional, in the order of its operands."""
    listed = node.attributes.get("branch_computations")
    if listed is not None:
        return tuple(listed)
    pair = (node.attributes.get("true_computation"), node.attributes.get("false_computation"))
    return tuple(graph for graph in pair if graph is not None)


def with_branches(node: Apply, graphs: Sequence[Graph], attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a conditional with other branches."""
    if "branch_computations" in node.attributes:
        return attributes | {"branch_computations": tuple(graphs)}
    return attributes | {"true_computation": graphs[0], "false_computation": graphs[1]}


@CONDITIONAL.rewrites(
    "conditional", benefit=5, depth=3, effects=True, because="works out the choice, and copies the branch in place"
)
def known_branch(build: Builder, node: Apply) -> Node | None:
    """conditional(constant 1, x, y), branch_computations={f, g} -> g(y), put in place; out of range means the last

    The branches that do not run have no effects either; where one sends or receives, the other end awaits all of them.
    """
    branches = branches_of(node)
    chosen = 0 if len(branches) == 1 else _chosen(node, len(branches))
    if chosen is None:
        return build.decline("the choice is not known")
    if has_control_dependencies(node) or len(branches) + 1 != len(node.operands):
        return build.decline("control dependencies name the conditional")
    if any(inner.opcode in _HOST for branch in branches for inner in branch.nodes):
        return build.decline("a branch sends or receives")
    build.consumed.append(node)
    return build.copy(branches[chosen], (node.operands[chosen + 1],))


@CONDITIONAL.rewrites("conditional", benefit=4, depth=2, effects=True, because="compares whole branches")
def equal_branches(build: Builder, node: Apply) -> Node | None:
    """conditional(i, x, x), branch_computations={f, f} -> f(x), put in place

    Graphs count as the same that are so node for node, names and metadata aside.
    """
    branches, operands = branches_of(node), set(node.operands[1:])
    if len(operands) != 1 or has_control_dependencies(node) or not branches:
        return build.decline("the branches are given different operands")
    if any(not are_isomorphic(branches[0], branch) for branch in branches[1:]):
        return build.decline("the branches differ")
    build.consumed.append(node)
    return build.copy(branches[0], tuple(operands))


@CONDITIONAL.rewrites("conditional", benefit=3, depth=2, effects=True, because="walks users, and edits the branches")
def unused_results(build: Builder, node: Apply) -> Node | None:
    """conditional(i, x, y) that yields (a, b), b used by nothing -> one that yields (a)"""
    types, used = elements_of(node.type), only_elements(node)
    if types is None or used is None or len(used) == len(types) or not _can_be_filled(types):
        return build.decline("all elements are used")
    kept = sorted(used)
    graphs = [_with_results(build, graph, kept) for graph in branches_of(node)]
    made = build.op(
        "conditional", *node.operands, type=TupleType([types[index] for index in kept]),
        attributes=with_branches(node, graphs, select_attributes(node.attributes, node.type, kept)),
    )  # fmt: skip
    build.carries_itself = True
    build.consumed.append(node)
    positions = {index: position for position, index in enumerate(kept)}
    return tuple_of(
        build,
        [
            element(build, made, positions[index]) if index in positions else _filler(build, element_type)
            for index, element_type in enumerate(types)
        ],
    )


@CONDITIONAL.rewrites(
    "get-tuple-element",
    benefit=2,
    depth=2,
    requires=operand_is(0, "conditional"),
    because="compares what each branch yields",
)
def repeated_results(build: Builder, node: Apply) -> Node | None:
    """get-tuple-element(conditional(i, x, y), index=1) -> that of index 0, where each branch yields both alike"""
    conditional, index = node.operands[0], node.attributes["index"]
    if not isinstance(conditional, Apply):
        return None
    roots = [branch.output for branch in branches_of(conditional)]
    yielded = [root.operands for root in roots if root is not None and root.opcode == "tuple"]
    if not yielded or len(yielded) < len(roots):
        return build.decline("a branch yields no tuple of its own")
    for first in range(index):
        if all(values[first] is values[index] for values in yielded):
            return build.like(node, conditional, index=first)
    return build.decline("it is the first of its value")


@CONDITIONAL.rewrites("conditional", benefit=2, depth=3, effects=True, because="edits the branches")
def unused_operands(build: Builder, node: Apply) -> Node | None:
    """conditional(i, tuple(a, b), y) -> conditional(i, tuple(a), y), where the branch does not use the second element

    Constants among the elements are copied into the branch, which then does not use them.
    """
    branches = branches_of(node)
    if len(branches) + 1 != len(node.operands):
        return None
    operands, graphs = list(node.operands), list(branches)
    for number, graph in enumerate(branches):
        narrow_computation = _with_operands(build, graph, node.operands[number + 1])
        if narrow_computation is not None:
            graphs[number], operands[number + 1] = narrow_computation
    if operands == list(node.operands):
        return build.decline("the branches use all that they are given")
    build.carries_itself = True
    build.consumed.append(node)
    attributes = with_branches(node, graphs, dict(node.attributes))
    return build.op("conditional", *operands, type=node.type, attributes=attributes)


@CONDITIONAL.rewrites("conditional", benefit=3, depth=2, effects=True, because="moves the branches to other attributes")
def branch_by_predicate(build: Builder, node: Apply) -> Node | None:
    """conditional(convert(pred), x, y), branch_computations={f, g} -> conditional(pred, y, x), g where true, else f"""
    branches, chooser = branches_of(node), node.operands[0]
    if "branch_computations" not in node.attributes or len(branches) != 2 or chooser.opcode != "convert":
        return None
    predicate = chooser.operands[0]
    if not isinstance(predicate.type, TensorType) or predicate.type.dtype.name != "pred" or len(node.operands) != 3:
        return None
    build.carries_itself = True
    build.consumed.append(node)
    attributes = {name: value for name, value in node.attributes.items() if name != "branch_computations"}
    attributes |= {"true_computation": branches[1], "false_computation": branches[0]}
    operands = (predicate, node.operands[2], node.operands[1])
    return build.op("conditional", *operands, type=node.type, attributes=attributes)


@CONDITIONAL_TO_SELECT.rewrites("conditional", depth=3, effects=True)
def select_of_branches(build: Builder, node: Apply) -> Node | None:
    """conditional(p, x, y), true_computation=f, false_computation=g -> select(p, f(x), g(y)), both put in place

    Where both compute something, and nothing but cheap ops; in a graph that runs for each element, whatever they
    compute. Of tokens both are awaited.
    """
    branches, chooser = branches_of(node), tensor_type(node.operands[0])
    if len(branches) != 2 or chooser is None or chooser.dtype.name != "pred" or has_control_dependencies(node):
        return build.decline("the choice is not a predicate, or control dependencies name it")
    if not all(_is_plain(inner) for branch in branches for inner in branch.nodes) or node.type is None:
        return build.decline("a branch has an effect")
    is_embedded = any(caller.opcode not in CALLERS for caller in node.graph.callers)
    if not is_embedded:
        if any(inner.opcode in CALLERS or not _is_cheap(inner) for branch in branches for inner in branch.nodes):
            return build.decline("a branch is expensive")
        if any(isinstance(branch.output, Parameter) and isinstance(node.type, TensorType) for branch in branches):
            return build.decline("a branch computes nothing")
    results = [build.copy(branch, (operand,)) for branch, operand in zip(branches, node.operands[1:], strict=True)]
    build.consumed.append(node)
    build.carries_itself = True
    return _selected(build, node.operands[0], results[0], results[1], node.type)


def _is_plain(node: Node) -> bool:
    return not isinstance(node, Apply) or (may_merge(node) and not has_control_dependencies(node))


def _is_cheap(node: Node) -> bool:
    return not isinstance(node, Apply) or node.opcode in _CHEAP or node.opcode in POINTWISE


def _selected(build: Builder, predicate: Node, one: Node, other: Node, value_type: Type) -> Node:
    """One of two values, element by element of a tuple."""
    if isinstance(value_type, TupleType):
        parts = [
            _selected(build, predicate, element(build, one, index), element(build, other, index), part)
            for index, part in enumerate(value_type.elements)
        ]
        return tuple_of(build, parts)
    if not isinstance(value_type, TensorType):
        return build.op("after-all", one, other)
    wide = predicate
    if value_type.rank:
        wide = build.broadcast(predicate, TensorType(dtype("pred"), value_type.dims))
    return build.op("select", wide, one, other, type=value_type)


def _chosen(node: Apply, count: int) -> int | None:
    value = splat_of(node.operands[0])
    if value is None:
        return None
    node_type = node.operands[0].type
    if isinstance(node_type, TensorType) and node_type.dtype.name == "pred":
        return 0 if value else 1
    return int(value) if 0 <= int(value) < count else count - 1


def are_isomorphic(one: Graph, other: Graph) -> bool:
    """Whether graphs are the same node for node, names and metadata aside."""
    if one is other:
        return True
    if len(one.nodes) != len(other.nodes):
        return False
    return difference_of(one, other, metadata=False) is None


def copied_branch(
    build: Builder, graph: Graph, results: Sequence[Node], left_out: Collection[Node] = ()
) -> tuple[Graph, dict[Any, Any]]:
    """A copy of a branch that computes some values only, without an output yet, and where its nodes are in it.

    Effects are in it too, but for those that are left out.
    """
    made = build.new_graph(graph.name)
    made.execution_thread = graph.execution_thread
    mapping: dict[Any, Any] = {}
    wanted = live_nodes(graph, results, left_out)
    nodes = [node for node in graph.nodes if node in wanted or isinstance(node, Parameter)]
    made.copy_nodes(graph.parameters, mapping)  # which are not nodes that the builder may take out again
    build.copy_nodes(nodes, mapping, made)
    return made, mapping


def _with_results(build: Builder, graph: Graph, kept: Sequence[int]) -> Graph:
    """A branch that yields some of the elements only."""
    root = graph.root
    results = [root.operands[index] for index in kept] if root.opcode == "tuple" else [root]
    made, mapping = copied_branch(build, graph, results)
    if root.opcode == "tuple":
        parts = [mapping[result] for result in results]
    else:
        types = elements_of(root.type)
        parts = [
            made.add_apply(OPS["get-tuple-element"], [mapping[root]], types[index] if types else None, {"index": index})
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
    types = elements_of(operand.type)
    if types is None or len(graph.parameters) != 1 or graph.output is None:
        return None
    if graph.missing or graph.module.has_closures:
        return None
    whole = graph.parameters[0]
    used = only_elements(whole)
    if used is None:
        return None
    constants = _constants(operand) if operand.opcode == "tuple" else {}
    kept = [index for index in range(len(types)) if index in used and index not in constants]
    if len(kept) == len(types):
        return None
    made = build.new_graph(graph.name)
    made.execution_thread = graph.execution_thread
    parameter = made.add_parameter(
        TupleType([types[index] for index in kept]), whole.name,
        Attributes(select_attributes(whole.attributes, whole.type, kept)), whole.raw_metadata,
    )  # fmt: skip
    mapping: dict[Any, Any] = {whole: parameter}
    positions = {index: position for position, index in enumerate(kept)}
    for index, nodes in element_nodes(whole).items():
        if index in constants:
            inside: dict[Any, Any] = {}
            build.copy_nodes([constants[index]], inside, made)
            mapping |= dict.fromkeys(nodes, inside[constants[index]])
    for node in graph.nodes:
        if node in mapping:
            continue
        build.copy_nodes([node], mapping, made)
        if node.opcode == "get-tuple-element" and node.operands[0] is whole:
            copy = mapping[node]
            made.set_attributes(copy, copy.attributes.changed(index=positions[copy.attributes["index"]]))
    made.set_output(mapping[graph.output])
    return made, tuple_of(build, [element(build, operand, index) for index in kept])


def _constants(operand: Node) -> dict[int, Node]:
    """The elements that are constants small enough to be copied."""
    return {index: element for index, element in enumerate(operand.operands) if is_small_constant(element)}


def _can_be_filled(types: Sequence[Type]) -> bool:
    leaves = [leaf for element_type in types for leaf in element_type.leaves()]
    return all(leaf is TOKEN or (isinstance(leaf, TensorType) and leaf.is_static) for leaf in leaves)


def _filler(build: Builder, value_type: Type) -> Node:
    """Any value of a type, for a place that nothing looks at."""
    if isinstance(value_type, TupleType):
        return tuple_of(build, [_filler(build, element) for element in value_type.elements])
    if isinstance(value_type, TensorType):
        return build.constant(False if value_type.dtype.name == "pred" else 0, value_type)
    return build.op("after-all")
