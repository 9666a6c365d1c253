"""While loops rebuilt with fewer elements of their state.

Follows RemoveDeadTupleIndices of XLA's xla/service/while_loop_simplifier.cc.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from hloom.ir import Apply, Attributes, Constant, Graph, Literal, Node, Parameter, TensorType, TupleType, TypeProblem
from hloom.ops import OPS, may_drop
from hloom.passes.rules.tuple_elements import element_nodes, elements_of, select_attributes
from hloom.rewrite import Builder, used_once

_GET = "get-tuple-element"
MAX_CONSTANT_ELEMENTS = 1024
"""How many elements a constant with other users may have to be copied into loop bodies and branches: at 8 bytes each a
copy takes 8 KiB at most, about what the tuple element that it replaces costs to pass."""


def element(build: Builder, node: Node, index: int) -> Node:
    """An element of a tuple, in the layout that the tuple has it in."""
    if node.opcode == "tuple":
        return node.operands[index]
    types = elements_of(node.type)
    return build.op(_GET, node, index=index, type=types[index] if types else None)


def tuple_of(build: Builder, nodes: Sequence[Node], **attributes: Any) -> Apply:
    """A tuple, its elements in the layouts that they have."""
    types = [node.type for node in nodes]
    known = [array_type for array_type in types if array_type is not None]
    return build.op("tuple", *nodes, type=TupleType(known) if len(known) == len(types) else None, **attributes)


def invariant_elements(body: Graph) -> set[int]:
    """The numbers of the elements that a loop's body yields as it got them."""
    root = body.output
    if root is None or len(body.parameters) != 1:
        return set()
    state = body.parameters[0]
    if root is state:
        return set(range(len(elements_of(state.type) or ())))
    if root.opcode != "tuple":
        return set()
    return {operand_index for operand_index, node in enumerate(root.operands) if is_element(node, state, operand_index)}


def is_element(node: Node, whole: Node, index: int) -> bool:
    """Whether a node is this element of that tuple."""
    return node.opcode == _GET and node.operands[0] is whole and node.attributes["index"] == index


def is_small_constant(node: Node) -> bool:
    """Whether it is a constant array that may be copied into a loop body or branch: small, a splat, or used once."""
    if not isinstance(node, Constant) or not isinstance(node.value, Literal) or not isinstance(node.type, TensorType):
        return False
    return node.value.is_splat or used_once(node) or node.type.element_count <= MAX_CONSTANT_ELEMENTS


def live_nodes(graph: Graph, results: Iterable[Node], left_out: Collection[Node] = ()) -> set[Node]:
    """What some nodes of a graph need, and what its effects need, but for effects that are left out."""
    needed_nodes: set[Node] = set()
    effects = (node for node in graph.nodes if isinstance(node, Apply) and not may_drop(node))
    pending = [*results, *(node for node in effects if node not in left_out)]
    while pending:
        node = pending.pop()
        if node not in needed_nodes:
            needed_nodes.add(node)
            pending += node.operands
            pending += [referent for referent in node.attributes.referents() if not referent.is_graph]
    return needed_nodes


def rebuild_loop(
    build: Builder, loop: Apply, kept: Sequence[int], same: Mapping[int, int], constants: Mapping[int, Node]
) -> Node:
    """The loop with some elements of its state only, and a tuple of all elements to stand in its place.

    `same` says which kept element stands for one that goes; `constants` gives the value, made of constants, that an
    element has all the time: it is copied into condition and body. What is in neither is used by nothing.
    """
    start, node_type = loop.operands[0], loop.type
    assert isinstance(node_type, TupleType), f"{loop!r} has no tuple for a state"
    inside = [_StateGraph(build, loop.attributes[name], kept, same, constants) for name in ("condition", "body")]
    condition, body = (state_graph.graph for state_graph in inside)
    inside[0].fill_condition()
    inside[1].fill_body()
    sharding = start.attributes.get("sharding") if start.opcode == "tuple" else None
    placed = select_attributes(Attributes({"sharding": sharding} if sharding else {}), start.type, kept)
    state = tuple_of(build, [element(build, start, index) for index in kept], attributes=placed)
    attributes = select_attributes(loop.attributes, node_type, kept) | {"condition": condition, "body": body}
    made = build.op(
        "while", state, type=TupleType([node_type.elements[index] for index in kept]), attributes=attributes
    )
    positions = {index: position for position, index in enumerate(kept)}
    build.carries_itself = True
    build.consumed.append(loop)
    parts: list[Node] = []
    for index in range(len(node_type.elements)):
        position = positions.get(same.get(index, index))
        parts.append(element(build, start, index) if position is None else element(build, made, position))
    sharding = loop.attributes.get("sharding") if loop.is_output else None
    return tuple_of(build, parts, sharding=sharding)


class _StateGraph:
    """A condition or a body, copied for a state with fewer elements."""

    def __init__(
        self, build: Builder, old: Graph, kept: Sequence[int], same: Mapping[int, int], constants: Mapping[int, Node]
    ) -> None:
        if old.output is None or old.missing or old.module.has_closures or len(old.parameters) != 1:
            raise TypeProblem(f"graph {old.name} is not a function of one state")
        self.build, self.old, self.kept, self.same, self.constants = build, old, kept, same, constants
        self.state = old.parameters[0]
        self.element_types = elements_of(self.state.type) or ()
        self.graph = build.new_graph(old.name)
        self.graph.execution_thread = old.execution_thread
        self.parameter = self.graph.add_parameter(
            TupleType([self.element_types[index] for index in kept]), self.state.name,
            Attributes(select_attributes(self.state.attributes, self.state.type, kept)), self.state.raw_metadata,
        )  # fmt: skip
        self.positions = {index: position for position, index in enumerate(kept)}
        self.mapping: dict[Any, Any] = {}
        self.by_index: dict[int, Node] = {}

    def fill_condition(self) -> None:
        self.copy_needed([self.old.root])
        self.graph.set_output(self.mapping[self.old.root])

    def fill_body(self) -> None:
        root = self.old.root
        if root is self.state:
            results = [self.element(index) for index in self.kept]
        elif root.opcode == "tuple":
            self.copy_needed([root.operands[index] for index in self.kept])
            results = [self.mapping[root.operands[index]] for index in self.kept]
        else:
            self.copy_needed([root])
            results = [self.get(self.mapping[root], index) for index in self.kept]
        attributes = select_attributes(root.attributes, root.type, self.kept) if root.opcode == "tuple" else {}
        types = [result.type for result in results]
        state_type = TupleType([element_type for element_type in types if element_type is not None])
        output = self.graph.add_apply(OPS["tuple"], results, state_type, attributes, metadata=root.raw_metadata)
        self.build.made.append(output)
        self.graph.set_output(output)

    def copy_needed(self, results: list[Node]) -> None:
        """Copy what these need; elements of the state are exchanged for those of the new one."""
        wanted = live_nodes(self.old, results)
        for index, nodes in element_nodes(self.state).items():
            for node in nodes:
                if node in wanted:
                    self.mapping[node] = self.element(index, node)
        if self.state in wanted and any(user in wanted and user.opcode != _GET for user in self.state.users):
            parts = [self.element(index) for index in range(len(self.element_types))]
            whole = self.graph.add_apply(OPS["tuple"], parts, self.state.type)
            self.build.made.append(whole)
            self.mapping[self.state] = whole
        nodes = [node for node in self.old.nodes if node in wanted and not isinstance(node, Parameter)]
        self.build.copy_nodes(nodes, self.mapping, self.graph)
        if self.old.root is self.state and self.state in results:
            raise TypeProblem("a condition that yields its state")

    def element(self, index: int, like: Node | None = None) -> Node:
        """What stands for an element of the old state."""
        index = self.same.get(index, index)
        if index not in self.by_index:
            if index in self.constants:
                self.by_index[index] = self.copy_outside(self.constants[index])
            elif index in self.positions:
                self.by_index[index] = self.get(self.parameter, self.positions[index], like)
            else:
                raise TypeProblem(f"element {index} of the state is used in {self.old.name}")
        return self.by_index[index]

    def get(self, whole: Node, index: int, like: Node | None = None) -> Node:
        types = elements_of(whole.type)
        attributes: Mapping[str, Any] = like.attributes.changed(index=index) if like else {"index": index}
        made = self.graph.add_apply(
            OPS[_GET], [whole], types[index] if types else None, attributes, like.name if like else None,
            metadata=like.raw_metadata if like else None,
        )  # fmt: skip
        self.build.made.append(made)
        return made

    def copy_outside(self, value: Node) -> Node:
        """A copy of a value that is made of constants only."""
        ordered: dict[Node, None] = {}
        pending = [value]
        while pending:
            node = pending[-1]
            missing = [operand for operand in node.operands if operand not in ordered]
            if missing:
                pending += missing
            else:
                ordered[pending.pop()] = None
        mapping: dict[Any, Any] = {}
        self.build.copy_nodes(ordered, mapping, self.graph)
        return mapping[value]
