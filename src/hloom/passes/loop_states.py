"""Adds elements to the state of while loops and removes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hloom.ir import Apply, Attributes, Graph, Node, TupleSharding, TupleType, Uniform
from hloom.ops import OPS
from hloom.passes.pipeline import rules_pass
from hloom.passes.rules.loop_state import is_element
from hloom.passes.rules.tuple import element_of_tuple
from hloom.passes.rules.tuple_elements import elements_of
from hloom.passes.rules.while_loop import dead_elements

_GET = "get-tuple-element"

DROP_ELEMENTS = rules_pass("drop-elements", (dead_elements, element_of_tuple), "loops carry only what is needed")


def initial_element(loop: Apply, index: int) -> Node:
    """The initial value of an element of a loop's state."""
    start = loop.operands[0]
    return start.operands[index] if start.opcode == "tuple" else _element(loop.graph, start, index, loop)


def widen_loop(loop: Apply, added: Sequence[Node]) -> tuple[Apply, list[Node]]:
    """Add elements to a loop's state that the body passes on; returns the new loop, and the elements in the body.

    `added` are their initial values. The old loop is replaced; its body and condition are changed, so no other loop may
    call them, and they must take a single tuple state.
    """
    graph, start, state_type, body = loop.graph, loop.operands[0], loop.type, loop.attributes["body"]
    assert isinstance(state_type, TupleType), f"{loop!r} has no tuple for a state"
    width = len(state_type.elements)
    wider = TupleType([*state_type.elements, *[node.known_type for node in added]])
    shardings = [node.attributes.get("sharding") for node in added]
    values = [*(initial_element(loop, index) for index in range(width)), *added]
    attributes = _wider(start.attributes, shardings) if start.opcode == "tuple" else {}
    whole = graph.add_apply(OPS["tuple"], values, wider, attributes, before=loop, metadata=start.raw_metadata)
    for callee in (body, loop.attributes["condition"]):
        parameter = callee.parameters[0]
        _use_narrow_state(callee, width)
        callee.set_type(parameter, TupleType([*(elements_of(parameter.type) or ()), *wider.elements[width:]]))
        callee.set_attributes(parameter, _wider(parameter.attributes, shardings))
    state, root = body.parameters[0], body.root
    first = _next(body, state)
    elements: list[Node] = [
        body.add_apply(OPS[_GET], [state], node.type, {"index": index}, before=first)
        for index, node in enumerate(added, width)
    ]
    body.set_operands(root, [*root.operands, *elements])
    body.set_type(root, TupleType([*(elements_of(root.type) or ()), *[node.known_type for node in elements]]))
    body.set_attributes(root, _wider(root.attributes, shardings))
    made = _replace(loop, whole, wider, _wider(loop.attributes, shardings))
    if start.opcode == "tuple" and not start.is_used:
        graph.erase(start)
    return made, elements


def _next(graph: Graph, state: Node) -> Node | None:
    """What comes after a state, which constants may come before."""
    return next((after for node, after in pairwise(graph.nodes) if node is state), None)


def _use_narrow_state(graph: Graph, width: int) -> None:
    """Make users of a loop's whole state use a tuple of its first elements."""
    state = graph.parameters[0]
    whole = [
        user for user in state.users if user.opcode != _GET or not is_element(user, state, user.attributes["index"])
    ]
    if not whole:
        return
    first = _next(graph, state)
    parts = [
        graph.add_apply(OPS[_GET], [state], element_type, {"index": index}, before=first)
        for index, element_type in enumerate((elements_of(state.type) or ())[:width])
    ]
    narrow = graph.add_apply(OPS["tuple"], parts, state.type, before=first)
    for user in whole:
        graph.set_operands(user, [narrow if operand is state else operand for operand in user.operands])
        graph.set_attributes(user, user.attributes.mapped({state: narrow}))


def _replace(loop: Apply, state: Node, state_type: TupleType, attributes: Attributes) -> Apply:
    """Put a loop of a wider state in place of a loop."""
    graph, name = loop.graph, loop.name
    made = graph.add_apply(loop.op, [state], state_type, attributes, name, before=loop, metadata=loop.raw_metadata)
    for user in loop.users:
        if user.opcode == _GET and is_element(user, loop, user.attributes["index"]):
            graph.set_operands(user, [made])
    if loop.is_used:
        assert isinstance(loop.type, TupleType), f"{loop!r} has no tuple for a state"
        parts = [_element(graph, made, index, loop) for index in range(len(loop.type.elements))]
        sharding = {name: loop.attributes[name] for name in ("sharding",) if name in loop.attributes}
        graph.replace_uses(loop, graph.add_apply(OPS["tuple"], parts, loop.type, sharding, before=loop))
    graph.erase(loop)
    graph.rename(made, name)
    return made


def _element(graph: Graph, node: Node, index: int, before: Node) -> Node:
    types = elements_of(node.type)
    return graph.add_apply(OPS[_GET], [node], types[index] if types else None, {"index": index}, before=before)


def wider_attributes(attributes: Attributes, count: int) -> Attributes:
    """Attributes of a tuple-valued node after `count` elements without shardings are added."""
    return _wider(attributes, [None] * count)


def _wider(attributes: Attributes, shardings: list[Any]) -> Attributes:
    """Attributes of what yields a tuple, when it yields further elements of these shardings."""
    sharding = attributes.get("sharding")
    changed: dict[str, Any] = {"origin": None}
    if isinstance(sharding, TupleSharding):
        further = [leaf or Uniform("replicated") for leaf in shardings]
        changed["sharding"] = TupleSharding((*sharding.elements, *further))
    return attributes.changed(changed) if "origin" in attributes or "sharding" in changed else attributes
