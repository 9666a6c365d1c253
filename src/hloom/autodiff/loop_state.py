"""Facts about a loop's state: leaves that never change, counters, and where slices are taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.autodiff.activity import element_offset, leaf_count
from hloom.autodiff.emitter import Emitter, array_type, leaf_types, unflatten
from hloom.ir import Apply, Graph, Node, Parameter, TensorType, TupleType, Type

MOST_COUNTED = 1 << 22
"""For how many iterations positions of slices are worked out."""


@dataclass(frozen=True, slots=True)
class Counter:
    """An integer of the state that begins at a constant and grows by one."""

    start: int
    step: int


class LoopState:
    """The leaves of a loop's state, as its body has them.

    `body` may be a copy of the loop's body; its single parameter is the state.
    """

    def __init__(self, body: Graph, value: Node | None, init: Node) -> None:
        self.body = body
        self.parameter = body.parameters[0]
        self.types: list[Type] = leaf_types(self.parameter.type)
        self.results = leaf_nodes(value if value is not None else body.root)
        starts = leaf_nodes(init)
        self.invariant = {
            leaf for leaf, result in enumerate(self.results) if result is not None and self.leaf_of(result) == leaf
        }
        self.counters: dict[int, Counter] = {}
        for leaf, (result, start) in enumerate(zip(self.results, starts, strict=True)):
            step = self._step(leaf, result)
            first = _integer(start)
            if step is not None and first is not None:
                self.counters[leaf] = Counter(first, step)

    def leaf_of(self, node: Node) -> int | None:
        """Which leaf of the state a node of the body is, as the iteration begins."""
        path: list[int] = []
        while isinstance(node, Apply) and node.opcode == "get-tuple-element":
            path.append(node.attributes["index"])
            node = node.operands[0]
        if node is not self.parameter:
            return None
        value_type, leaf = node.type, 0
        for index in reversed(path):
            assert isinstance(value_type, TupleType), "an element is of a tuple"
            leaf += element_offset(value_type, index)
            value_type = value_type.elements[index]
        return None if isinstance(value_type, TupleType) else leaf

    def _step(self, leaf: int, result: Node | None) -> int | None:
        value_type = self.types[leaf]
        if (
            not isinstance(value_type, TensorType)
            or value_type.rank
            or not value_type.dtype.is_integer
            or result is None
        ):
            return None
        if not isinstance(result, Apply) or result.opcode != "add":
            return None
        for own, other in (result.operands, result.operands[::-1]):
            step = _integer(other)
            if self.leaf_of(own) == leaf and step is not None:
                return step
        return None

    def course(self, node: Node, count: int) -> np.ndarray | None:
        """The values of an integer scalar in each iteration; None where it does not follow from the counters alone."""
        if count > MOST_COUNTED:
            return None
        values: dict[Node, Any] = {}
        pending = [node]
        while pending:
            current = pending[-1]
            if current in values:
                pending.pop()
                continue
            result = self._given(current, count)
            if result is not None:
                values[current] = result
                pending.pop()
                continue
            rule = _COURSES.get(current.opcode)
            if rule is None or not isinstance(current, Apply) or len(pending) > 100:
                return None
            missing = [operand for operand in current.operands if operand not in values]
            if missing:
                pending += missing
                continue
            result = _wrapped(rule(current, *[values[operand] for operand in current.operands]), current.type)
            if result is None:
                return None
            values[current] = result
            pending.pop()
        return np.broadcast_to(np.asarray(values[node], np.int64), (count,))

    def _given(self, node: Node, count: int) -> Any:
        if node.literal is not None:
            value_type = node.type
            if isinstance(value_type, TensorType) and not value_type.rank and not value_type.dtype.is_float:
                return np.int64(int(node.literal.numpy()))
            return None
        leaf = self.leaf_of(node)
        counter = None if leaf is None else self.counters.get(leaf)
        if counter is None:
            return None
        return _wrapped(counter.start + counter.step * np.arange(count, dtype=np.int64), node.type)

    def takes_apart(self, starts: Sequence[Node], sizes: Sequence[int], dims: Sequence[int], count: int) -> bool:
        """Whether slices that begin at these indices never overlap, whatever two iterations they are of."""
        for start, size, length in zip(starts, sizes, dims, strict=True):
            result = self.course(start, count)
            if result is None:
                continue
            placed = np.sort(np.clip(result, 0, length - size))
            if count < 2 or (np.diff(placed) >= size).all():
                return True
        return False


def leaf_nodes(node: Node) -> list[Node | None]:
    """The nodes that the leaves of a value are, through tuples; None for those inside a value that is not made here."""
    result: list[Node | None] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if not isinstance(current.type, TupleType):
            result.append(current)
        elif current.opcode == "tuple":
            pending.extend(reversed(current.operands))
        elif isinstance(current, Parameter) and any(
            isinstance(element, TupleType) for element in current.type.elements
        ):
            result += [None] * leaf_count(current.type)
        else:
            result += [None] * leaf_count(current.type)
    return result


def _integer(node: Node | None) -> int | None:
    while node is not None and node.opcode in ("copy", "convert") and node.operands:
        node = node.operands[0]
    if node is None or node.literal is None or node.literal.is_elided:
        return None
    value_type = node.type
    if not isinstance(value_type, TensorType) or value_type.rank or not value_type.dtype.is_integer:
        return None
    return int(node.literal.numpy())


def _wrapped(value: Any, value_type: Type | None) -> Any:
    """Integers as their type holds them, modulo its range; None where that is not known here."""
    if not isinstance(value_type, TensorType) or value_type.dtype.is_float or value_type.dtype.is_complex:
        return None
    kept = np.asarray(value).astype(value_type.dtype.numpy)
    if value_type.dtype.name == "pred":
        return kept
    wide = kept.astype(np.int64)
    return None if value_type.dtype.name == "u64" and (wide < 0).any() else wide


def _compare(node: Apply, a: Any, b: Any) -> Any:
    return _COMPARISONS[node.attributes["direction"]](a, b)


_COMPARISONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_COURSES: dict[str, Any] = {
    "add": lambda node, a, b: a + b,
    "subtract": lambda node, a, b: a - b,
    "multiply": lambda node, a, b: a * b,
    "negate": lambda node, a: -a,
    "convert": lambda node, a: a,
    "copy": lambda node, a: a,
    "reshape": lambda node, a: a,
    "compare": _compare,
    "select": lambda node, p, a, b: np.where(p, a, b),
    "minimum": lambda node, a, b: np.minimum(a, b),
    "maximum": lambda node, a, b: np.maximum(a, b),
    "clamp": lambda node, low, a, high: np.clip(a, low, high),
    "and": lambda node, a, b: a & b,
    "or": lambda node, a, b: a | b,
}


def with_leaves(emitter: Emitter, graph: Graph, leaves: Sequence[Node]) -> dict[Any, Any]:
    """Append a copy of a graph of one parameter, given its leaves; what became what."""
    parameter = graph.parameters[0]
    mapping: dict[Any, Any] = {}
    is_flat = isinstance(parameter.type, TupleType) and not any(
        isinstance(element, TupleType) for element in parameter.type.elements
    )
    if is_flat:
        for node in graph.nodes:
            if isinstance(node, Apply) and node.opcode == "get-tuple-element" and node.operands[0] is parameter:
                mapping[node] = leaves[node.attributes["index"]]
    needs_whole = graph.root is parameter or any(
        operand is parameter and node not in mapping for node in graph.nodes for operand in node.operands
    )
    if needs_whole:
        assert parameter.type is not None, "it has a type"
        mapping[parameter] = unflatten(emitter, parameter.type, leaves)
    emitter.graph.copy_nodes([node for node in graph.nodes if node is not parameter], mapping)
    return mapping


def new_loop(
    emitter: Emitter, name: str, types: Sequence[Type], condition: Any, body: Any
) -> tuple[Graph, Graph, TupleType]:
    """The graphs of a loop over a tuple: `condition` and `body` are given an emitter and the leaves of the state."""
    module = emitter.graph.module
    state = emitter.typed(TupleType(types))
    assert isinstance(state, TupleType), "of a tuple"
    graphs = []
    for suffix, make in (("condition", condition), ("body", body)):
        graph = module.add_graph(f"{name}.{suffix}")
        inner = Emitter(graph)
        inner.metadata = emitter.metadata
        parameter = graph.add_parameter(state, "state")
        made = make(inner, [inner.element(parameter, number) for number in range(len(types))])
        graph.set_output(made if isinstance(made, Node) else inner.tuple(made))
        graphs.append(graph)
    return graphs[0], graphs[1], state


def loop(emitter: Emitter, name: str, init: Sequence[Node], condition: Any, body: Any) -> list[Node]:
    """A loop over a tuple of values, made from functions; what they are after it."""
    from_types = [value.type for value in init]
    types = [array_type(value) if isinstance(value.type, TensorType) else value.type for value in init]
    assert all(from_type is not None for from_type in from_types), "values have types"
    test, step, _ = new_loop(emitter, name, types, condition, body)  # pyright: ignore[reportArgumentType]
    done = emitter.op("while", emitter.tuple(init), condition=test, body=step)
    return [emitter.element(done, number) for number in range(len(init))]
