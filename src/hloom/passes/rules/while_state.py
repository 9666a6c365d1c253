"""Rules that change what a while loop carries: nested states become flat, and one counter stands for several.

Follows XLA's xla/service/while_loop_simplifier.cc (TryFlattenNestedTuples, TryMergeInductionVariables).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hloom.ir import Apply, Attributes, Constant, Graph, Node, TensorType, TupleType, Type, TypeProblem, literal_of
from hloom.ops import OPS
from hloom.passes.rules.loop_state import is_element, tuple_of
from hloom.passes.rules.tuple_elements import element_nodes, elements_of
from hloom.rewrite import Builder, Family, literal_value

WHILE_STATE = Family("while-state", because="edits the computations of a loop")
_GET = "get-tuple-element"
_LOST = ("origin", "statistics", "backend_config")
COUNTERS = frozenset(("s32", "s64", "u32", "u64"))
"""What loops count in."""


@WHILE_STATE.rewrites("while", benefit=1, depth=2, effects=True)
def nested_state(build: Builder, node: Apply) -> Node | None:
    """while(tuple(x, tuple(y, z))) -> while(tuple(x, y, z)), taken apart and put together around it"""
    types = elements_of(node.type)
    if types is None or not any(isinstance(element_type, TupleType) for element_type in types):
        return build.decline("no element is a tuple")
    assert isinstance(node.type, TupleType), f"{node!r} has no tuple for a state"
    leaves = TupleType(list(node.type.leaves()))
    graphs = {name: _flat_graph(build, node.attributes[name], leaves) for name in ("condition", "body")}
    start = tuple_of(build, list(_leaves_of(node.operands[0], build.get)))
    attributes = {name: value for name, value in node.attributes.items() if name not in _LOST}
    made = build.op("while", start, type=leaves, attributes=attributes | graphs)
    build.carries_itself = True
    build.consumed.append(node)
    parts = iter([build.get(made, index) for index in range(len(leaves.elements))])
    return _nested(node.type, parts, lambda elements: tuple_of(build, elements))


def _flat_graph(build: Builder, graph: Graph, leaves: TupleType) -> Graph:
    """A condition or body that takes the leaves of the state, and yields them where it yields a state."""
    if graph.output is None or graph.missing or graph.module.has_closures or len(graph.parameters) != 1:
        raise TypeProblem(f"graph {graph.name} is not a function of one state")
    made = build.new_graph(graph.name)
    made.execution_thread = graph.execution_thread
    state = graph.parameters[0]
    kept = Attributes({name: value for name, value in state.attributes.items() if name not in _LOST})
    parameter = made.add_parameter(leaves, state.name, kept, state.raw_metadata)

    def get(whole: Node, index: int) -> Node:
        if whole.opcode == "tuple":
            return whole.operands[index]
        types = elements_of(whole.type)
        element = made.add_apply(OPS[_GET], [whole], types[index] if types else None, {"index": index})
        build.made.append(element)
        return element

    def join(elements: Sequence[Node]) -> Node:
        types = [element.type for element in elements if element.type is not None]
        joined = made.add_apply(OPS["tuple"], elements, TupleType(types))
        build.made.append(joined)
        return joined

    assert state.type is not None, f"{state!r} has a type"
    parts = iter([get(parameter, index) for index in range(len(leaves.elements))])
    mapping: dict[Any, Any] = {state: _nested(state.type, parts, join)}
    build.copy_nodes(graph.nodes, mapping, made)
    result = mapping[graph.output]
    made.set_output(join(list(_leaves_of(result, get))) if isinstance(result.type, TupleType) else result)
    return made


def _leaves_of(node: Node, get: Callable[[Node, int], Node]) -> Iterator[Node]:
    """The arrays and tokens of a value that may be a tuple, in order."""
    pending = [node]
    while pending:
        value = pending.pop()
        types = elements_of(value.type)
        if types is None:
            yield value
        else:
            pending += [get(value, index) for index in range(len(types))][::-1]


def _nested(value_type: Type, leaves: Iterator[Node], join: Callable[[Sequence[Node]], Node]) -> Node:
    """Leaves put together as a type says; types are read to a depth that recursion can take."""
    if not isinstance(value_type, TupleType):
        return next(leaves)
    return join([_nested(element_type, leaves, join) for element_type in value_type.elements])


@dataclass(frozen=True, slots=True)
class _Counter:
    """An element to which each round adds a constant."""

    index: int
    step: int
    scalar: TensorType
    start: Node


@WHILE_STATE.rewrites("while", benefit=1, depth=2, effects=True)
def several_counters(build: Builder, node: Apply) -> Node | None:
    """while(tuple(0, y)), which adds 1 to the first and c to the second -> the second is y + c * first

    The first begins as a constant and goes up or down by one; the others, of its type, stay as they begin.
    """
    counters = _counters(node)
    named = _named_counter(node)
    for counter in counters:
        others = [other for other in counters if other is not counter and other.scalar == counter.scalar]
        value = literal_value(counter.start)
        if abs(counter.step) == 1 and value is not None and others and named in (None, counter.index):
            return _count_once(build, node, counter, int(value.numpy()), others)
    return build.decline("no two elements count")


def _count_once(build: Builder, node: Apply, counter: _Counter, first: int, others: Sequence[_Counter]) -> Node:
    assert isinstance(node.type, TupleType), f"{node!r} has no tuple for a state"
    steps = {other.index: other.step * counter.step for other in others}
    graphs: dict[str, Any] = {}
    for name in ("condition", "body"):
        graphs[name] = _counting_graph(build, node.attributes[name], counter, first, steps)
    attributes = {name: value for name, value in node.attributes.items() if name not in ("origin", "statistics")}
    made = build.op("while", node.operands[0], type=node.type, attributes=attributes | graphs)
    build.carries_itself = True
    build.consumed.append(node)
    parts = [build.get(made, index) for index in range(len(node.type.elements))]
    rounds = parts[counter.index]
    for index, step in steps.items():
        apart = build.op("subtract", rounds, build.constant(_scalar(first, counter.scalar)))
        scaled = build.op("multiply", apart, build.constant(_scalar(step, counter.scalar)))
        parts[index] = build.op("add", parts[index], scaled)
    sharding = node.attributes.get("sharding") if node.is_output else None
    return tuple_of(build, parts, sharding=sharding)


def _counting_graph(build: Builder, graph: Graph, counter: _Counter, first: int, steps: dict[int, int]) -> Graph:
    """A condition or body in which some elements are what they began as, and what the counter says is added to them."""
    if graph.output is None or graph.missing or graph.module.has_closures or len(graph.parameters) != 1:
        raise TypeProblem(f"graph {graph.name} is not a function of one state")
    made = build.new_graph(graph.name)
    made.execution_thread = graph.execution_thread
    state = graph.parameters[0]
    mapping: dict[Any, Any] = {}
    made.copy_nodes([state], mapping)
    parameter = mapping[state]
    scalar = counter.scalar

    def apply(opcode: str, *inputs: Node, index: int | None = None) -> Node:
        node = made.add_apply(OPS[opcode], inputs, scalar, {} if index is None else {"index": index})
        build.made.append(node)
        return node

    def constant(value: int) -> Node:
        node = made.add_constant(_scalar(value, scalar), scalar)
        build.made.append(node)
        return node

    gets = element_nodes(state)
    unchanged: dict[int, Node] = {}
    apart: Node | None = None
    for index, step in steps.items():
        unchanged[index] = apply(_GET, parameter, index=index)
        if gets.get(index):
            apart = apart or apply("subtract", apply(_GET, parameter, index=counter.index), constant(first))
            value = apply("add", unchanged[index], apply("multiply", apart, constant(step)))
            mapping |= dict.fromkeys(gets[index], value)
    build.copy_nodes(graph.nodes, mapping, made)
    output: Node = mapping[graph.output]
    if graph.output.opcode == "tuple":
        made.set_operands(output, [unchanged.get(index, operand) for index, operand in enumerate(output.operands)])
    made.set_output(output)
    return made


def _counters(loop: Apply) -> list[_Counter]:
    """The elements to which a loop's body adds a constant."""
    body, start = loop.attributes["body"], loop.operands[0]
    root = body.output
    if root is None or root.opcode != "tuple" or start.opcode != "tuple" or len(body.parameters) != 1:
        return []
    if len(root.operands) != len(start.operands):
        return []
    if any(user.opcode != _GET for graph in _graphs(loop) for user in graph.parameters[0].users):
        return []
    counters: list[_Counter] = []
    for index, (after, before) in enumerate(zip(root.operands, start.operands, strict=True)):
        step = _step(after, body.parameters[0], index)
        if step and isinstance(after.type, TensorType):
            counters.append(_Counter(index, step, after.type, before))
    return counters


def _graphs(loop: Apply) -> list[Graph]:
    graphs = [loop.attributes[name] for name in ("condition", "body")]
    return [graph for graph in graphs if graph.parameters]


def _step(node: Node, state: Node, index: int) -> int:
    """What a node adds to an element of the state; 0 where it does not, or that is not known."""
    scalar = node.type
    if not isinstance(scalar, TensorType) or scalar.rank or scalar.dtype.name not in COUNTERS:
        return 0
    if node.opcode not in ("add", "subtract") or node.attributes:
        return 0
    left, right = node.operands
    if node.opcode == "add" and isinstance(left, Constant):
        left, right = right, left
    value = literal_value(right)
    if value is None or not is_element(left, state, index):
        return 0
    return int(value.numpy()) if node.opcode == "add" else -int(value.numpy())


def _named_counter(loop: Apply) -> int | None:
    """The element that the loop's configuration says it counts in."""
    text = loop.attributes.get("backend_config")
    if not isinstance(text, str) or "known_induction_variable" not in text:
        return None
    try:
        return int(json.loads(text)["known_induction_variable"]["tuple_index"])
    except (ValueError, KeyError, TypeError):
        return -1


def _scalar(value: int, scalar: TensorType) -> Any:
    bits = scalar.dtype.bits
    value %= 1 << bits
    if scalar.dtype.name.startswith("s") and value >> (bits - 1):
        value -= 1 << bits
    return literal_of(value, scalar.dtype)
