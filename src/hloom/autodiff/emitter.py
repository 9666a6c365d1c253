"""Appending instructions to a graph, their types inferred."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hloom.ir import (
    EMPTY,
    Apply,
    Attributes,
    DType,
    Graph,
    Literal,
    Module,
    Node,
    Op,
    TensorType,
    TupleType,
    Type,
    default_layout,
    dtype,
    infer_type,
    literal_of,
    map_leaves,
    without_layout,
)
from hloom.ops import OPS
from hloom.text import HloomError

PREDICATE = dtype("pred")
S32 = dtype("s32")
U32 = dtype("u32")
REAL_OF = {dtype("c64"): dtype("f32"), dtype("c128"): dtype("f64")}
COMPLEX_OF = {real: whole for whole, real in REAL_OF.items()}


def array_type(node: Any) -> TensorType:
    """The type of an array value, without its layout."""
    kind = node.type
    if not isinstance(kind, TensorType):
        raise HloomError(f"{node!r} is no array")
    return kind if kind.layout is None else kind.with_layout(None)


class Emitter:
    """Appends instructions to one graph.

    Constants are made once each. `metadata` is given to all that is made.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.metadata: str | None = None
        self._laid_out: dict[Type, Type] | None = {} if has_layouts(graph.module) else None
        self._constants: dict[Any, Node] = {}
        self._resolved: dict[Any, tuple[Op, Type, Attributes]] = {}

    def use(self, node: Node) -> Node:
        """The node as this graph may use it: the node itself."""
        return node

    def op(self, opcode: str, *operands: Node, type: Type | None = None, **attributes: Any) -> Node:
        """An application of an op.

        `type` is for ops whose operands and attributes do not determine the result. Raises TypeProblem.
        """
        used = [operand if operand.graph is self.graph else self.use(operand) for operand in operands]
        row, made, values = self.resolved(opcode, [operand.type for operand in used], type, attributes)
        return self.graph.add_apply(row, used, self.typed(made), values, metadata=self.metadata)

    def resolved(
        self, opcode: str, types: Sequence[Type | None], type: Type | None, attributes: Mapping[str, Any]
    ) -> tuple[Op, Type, Attributes]:
        """The row, result type and attributes of an op; what was worked out once is remembered."""
        key = (opcode, type, *types, *attributes.items())
        found = self._resolved.get(key)
        if found is None:
            row, values = OPS[opcode], ordered(opcode, attributes)
            made = type
            if made is None or row.infer is None:
                made = infer_type(row, types, values, type)  # pyright: ignore[reportArgumentType]
            found = self._resolved[key] = row, made, values
        return found

    def typed(self, kind: Type) -> Type:
        """A type with default layouts where it has none, in modules that have layouts: so equal values are merged."""
        if self._laid_out is None:
            return kind
        found = self._laid_out.get(kind)
        if found is None:
            found = self._laid_out[kind] = map_leaves(kind, _with_layout)
        return found

    def elementwise(self, opcode: str, *operands: Node) -> Node:
        """An elementwise op whose result has the first operand's type."""
        used = [operand if operand.graph is self.graph else self.use(operand) for operand in operands]
        kind = self.typed(array_type(used[0]))
        return self.graph.add_apply(OPS[opcode], used, kind, EMPTY, metadata=self.metadata)

    def add(self, a: Node, b: Node) -> Node:
        return self.elementwise("add", a, b)

    def sub(self, a: Node, b: Node) -> Node:
        return self.elementwise("subtract", a, b)

    def mul(self, a: Node, b: Node) -> Node:
        return self.elementwise("multiply", a, b)

    def div(self, a: Node, b: Node) -> Node:
        return self.elementwise("divide", a, b)

    def neg(self, a: Node) -> Node:
        return self.elementwise("negate", a)

    def compare(self, direction: str, a: Node, b: Node) -> Node:
        return self.op("compare", a, b, direction=direction)

    def select(self, predicate: Node, on_true: Node, on_false: Node) -> Node:
        return self.op("select", predicate, on_true, on_false)

    def constant(self, value: Any, type: TensorType | DType) -> Node:
        """A number in every element of an array, or a scalar of an element type, or an array of values."""
        kind = type if isinstance(type, TensorType) else TensorType(type)
        if np.ndim(value):
            return self.graph.add_constant(literal_of(value, kind.dtype), self.typed(kind), metadata=self.metadata)
        key = (value, kind.dtype, kind.dims, repr(value))
        found = self._constants.get(key)
        if found is None:
            if kind.rank:
                found = self.broadcast(self.constant(value, kind.dtype), kind.dims)
            else:
                literal = literal_of(np.asarray(value), kind.dtype)
                found = self.graph.add_constant(literal, TensorType(kind.dtype), metadata=self.metadata)
            self._constants[key] = found
        return found

    def literal(self, literal: Literal) -> Node:
        return self.graph.add_constant(literal, without_layout(literal.type), metadata=self.metadata)

    def like(self, value: Any, node: Any) -> Node:
        """A number in every element of an array of a node's type."""
        return self.constant(value, array_type(node))

    def zeros(self, kind: Type) -> Node:
        """An array of zeros."""
        if not isinstance(kind, TensorType):
            raise HloomError(f"there is no zero of type {kind}")
        return self.constant(False if kind.dtype is PREDICATE else 0, TensorType(kind.dtype, kind.dims))

    def broadcast(self, node: Node, dims: Sequence[int], dimensions: Sequence[int] = ()) -> Node:
        kind = array_type(node)
        if tuple(dims) == kind.dims and tuple(dimensions) == tuple(range(kind.rank)):
            return node
        return self.op("broadcast", node, type=TensorType(kind.dtype, dims), dimensions=tuple(dimensions))

    def reshape(self, node: Node, dims: Sequence[int]) -> Node:
        kind = array_type(node)
        if kind.dims == tuple(dims):
            return node
        return self.op("reshape", node, type=TensorType(kind.dtype, dims))

    def transpose(self, node: Node, dimensions: Sequence[int]) -> Node:
        if tuple(dimensions) == tuple(range(len(dimensions))):
            return node
        return self.op("transpose", node, dimensions=tuple(dimensions))

    def convert(self, node: Node, element: DType) -> Node:
        kind = array_type(node)
        if kind.dtype is element:
            return node
        return self.op("convert", node, type=kind.with_dtype(element))

    def iota(self, element: DType, dims: Sequence[int], dimension: int) -> Node:
        return self.op("iota", type=TensorType(element, dims), iota_dimension=dimension)

    def tuple(self, elements: Iterable[Node]) -> Node:
        used = [each if each.graph is self.graph else self.use(each) for each in elements]
        kind = TupleType([without_layout(each.type) for each in used])  # pyright: ignore[reportArgumentType]
        return self.graph.add_apply(OPS["tuple"], used, self.typed(kind), EMPTY, metadata=self.metadata)

    def element(self, node: Node, index: int) -> Node:
        """An element of a tuple; of a tuple instruction, its operand."""
        if node.graph is self.graph and node.opcode == "tuple":
            return node.inputs[index]
        return self.op("get-tuple-element", node, index=index)

    def reduce(self, opcode: str, node: Node, dimensions: Sequence[int]) -> Node:
        """A reduction by add, multiply, maximum, minimum, and, or; the node itself where nothing is reduced."""
        if not dimensions:
            return node
        element = array_type(node).dtype
        start = self.constant(identity_value(opcode, element), element)
        return self.op(
            "reduce", node, start, dimensions=tuple(dimensions), to_apply=self.reducer(opcode, element)
        )

    def reducer(self, opcode: str, element: DType) -> Graph:
        """The computation of two scalars that combines them by an op."""
        return combiner(self.graph, opcode, element)

    def conjugate(self, node: Node) -> Node:
        """The complex conjugate; a real array is its own."""
        if array_type(node).dtype not in REAL_OF:
            return node
        return self.op("complex", self.op("real", node), self.neg(self.op("imag", node)))

    def copy_graph(self, graph: Graph, arguments: Sequence[Node], mapping: dict[Any, Any] | None = None) -> Node:
        """Append a copy of a graph's instructions, given its arguments; the node that yields its output."""
        full: dict[Any, Any] = mapping if mapping is not None else {}
        full.update(zip(graph.parameters, arguments, strict=True))
        self.graph.copy_nodes(graph.nodes, full)
        return full[graph.root]


def has_layouts(module: Module) -> bool:
    """Whether a module's types have layouts: whether those of its entry's parameters do."""
    leaves = [leaf for parameter in module.entry.parameters for leaf in leaf_types(parameter.type)]
    return any(isinstance(leaf, TensorType) and leaf.rank and leaf.layout is not None for leaf in leaves)


def _with_layout(kind: Type) -> Type:
    if isinstance(kind, TensorType) and kind.layout is None and kind.rank:
        return kind.with_layout(default_layout(kind.rank))
    return kind


def ordered(opcode: str, attributes: Mapping[str, Any]) -> Attributes:
    """Attributes in the row's order; those that are None or equal their defaults are left out."""
    if not attributes:
        return EMPTY
    known = OPS[opcode].attributes
    values: dict[str, Any] = {}
    for name, row in known.items():
        value = attributes.get(name)
        if value is not None and (row.required or row.written or value != row.default):
            values[name] = value
    unknown = [name for name in attributes if name not in known]
    if unknown:
        raise HloomError(f"{opcode} has no attribute '{unknown[0]}'")
    return Attributes(values)


def combiner(graph: Graph, opcode: str, element: DType) -> Graph:
    """The computation of two scalars that combines them by an op, made once in a module."""
    module = graph.module
    name = f"autodiff.{opcode}.{element}"
    if name in module:
        return module[name]
    made = module.add_graph(name)
    scalar = TensorType(element)
    left, right = made.add_parameter(scalar, "lhs"), made.add_parameter(scalar, "rhs")
    made.set_output(made.add_apply(OPS[opcode], (left, right), scalar))
    return made


def identity_value(opcode: str, element: DType) -> Any:
    """The number that an op leaves others unchanged by."""
    if opcode == "add":
        return 0
    if opcode == "multiply":
        return 1
    if opcode == "and":
        return True if element is PREDICATE else -1
    if opcode == "or":
        return False if element is PREDICATE else 0
    if opcode not in ("maximum", "minimum"):
        raise HloomError(f"{opcode} has no identity")
    low = opcode == "maximum"
    if element.is_float:
        return -np.inf if low else np.inf
    if element is PREDICATE:
        return not low
    limits = np.iinfo(element.numpy)
    return int(limits.min if low else limits.max)


def leaf_types(kind: Type | None) -> list[Type]:
    """The types of the leaves of a value."""
    return list(kind.leaves()) if kind is not None else []


def flatten(emitter: Emitter, node: Node) -> list[Node]:
    """The leaves of a value, as nodes."""
    if not isinstance(node.type, TupleType):
        return [node]
    found: list[Node] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current.type, TupleType):
            pending.extend(emitter.element(current, index) for index in reversed(range(len(current.type.elements))))
        else:
            found.append(current)
    return found


def unflatten(emitter: Emitter, kind: Type, leaves: Iterable[Node]) -> Node:
    """A value of a type from its leaves."""
    remaining = iter(leaves)
    if not isinstance(kind, TupleType):
        return next(remaining)
    stack: list[tuple[TupleType, list[Node]]] = [(kind, [])]
    while True:
        current, done = stack[-1]
        if len(done) < len(current.elements):
            element = current.elements[len(done)]
            if isinstance(element, TupleType):
                stack.append((element, []))
            else:
                done.append(next(remaining))
            continue
        stack.pop()
        made = emitter.tuple(done)
        if not stack:
            return made
        stack[-1][1].append(made)


def is_apply(node: Any, opcode: str) -> bool:
    return isinstance(node, Apply) and node.opcode == opcode
