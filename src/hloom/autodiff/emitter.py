"""Appends instructions to a graph and infers their types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hloom.ir import (
    EMPTY,
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
from hloom.ops import EXTREMES, OPS
from hloom.text import HloomError

PREDICATE = dtype("pred")
S32 = dtype("s32")
U32 = dtype("u32")
REAL_OF = {dtype("c64"): dtype("f32"), dtype("c128"): dtype("f64")}


def array_type(node: Any) -> TensorType:
    """The type of an array value, without its layout."""
    value_type = node.type
    if not isinstance(value_type, TensorType):
        raise HloomError(f"{node!r} is not an array")
    return value_type.with_layout(None)


class Emitter:
    """Adds instructions to one graph, at its end or in front of one of its nodes.

    `metadata` is given to all that is made.
    """

    shares_constants: ClassVar[bool] = True
    """Whether a constant is made once, and not each time it is asked for."""

    def __init__(self, graph: Graph, before: Node | None = None) -> None:
        self.graph = graph
        self.before = before
        self.metadata: str | None = None
        self._laid_out: dict[Type, Type] | None = {} if has_layouts(graph.module) else None
        self._constants: dict[Any, Node] = {}
        self._reducers: dict[tuple[str, DType], Graph] = {}
        self._elementwise: dict[Type | None, Type] = {}
        self._resolved: dict[Any, tuple[Op, Type, Attributes]] = {}
        self._shapes: dict[tuple[Type | None, tuple[int, ...]], TensorType] = {}

    def use(self, node: Node) -> Node:
        """The node as this graph may use it: the node itself."""
        return node

    def op(
        self, opcode: str, *operands: Node, type: Type | None = None, name: str | None = None, **attributes: Any
    ) -> Node:
        """An application of an op, named after its opcode if nothing else is asked for.

        `type` is for ops whose operands and attributes do not determine the result. Raises TypeProblem.
        """
        used = self.used(operands)
        row, made, values = self.resolved(opcode, [operand.type for operand in used], type, attributes)
        return self._apply(row, used, self.typed(made), values, name)

    def used(self, operands: tuple[Node, ...]) -> tuple[Node, ...]:
        """Nodes as this graph may use them."""
        graph = self.graph
        for operand in operands:
            if operand.graph is not graph:
                return tuple([value if value.graph is graph else self.use(value) for value in operands])
        return operands

    def resolved(
        self, opcode: str, types: Sequence[Type | None], type: Type | None, attributes: Mapping[str, Any]
    ) -> tuple[Op, Type, Attributes]:
        """The row, result type and attributes of an op; what was worked out once is remembered."""
        key = (opcode, type, *types, *attributes.items())
        result = self._resolved.get(key)
        if result is None:
            row, values = OPS[opcode], ordered(opcode, attributes)
            made = type
            if made is None or row.infer is None:
                made = infer_type(row, types, values, type)  # pyright: ignore[reportArgumentType]
            result = self._resolved[key] = row, made, values
        return result

    def typed(self, value_type: Type) -> Type:
        """A type with default layouts where it has none, in modules that have layouts: so equal values are merged."""
        if self._laid_out is None:
            return value_type
        result = self._laid_out.get(value_type)
        if result is None:
            result = self._laid_out[value_type] = map_leaves(value_type, _with_layout)
        return result

    def elementwise(self, opcode: str, *operands: Node) -> Node:
        """An elementwise op whose result has the first operand's type."""
        used = self.used(operands)
        value_type = self._elementwise.get(used[0].type)
        if value_type is None:
            value_type = self._elementwise[used[0].type] = self.typed(array_type(used[0]))
        return self._apply(OPS[opcode], used, value_type)

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
        element, dims = (type.dtype, type.dims) if isinstance(type, TensorType) else (type, ())
        if not isinstance(value, (int, float)) and np.ndim(value):
            value_type = type if isinstance(type, TensorType) else TensorType(type)
            return self._constant(literal_of(value, element), self.typed(value_type))
        key = (value.__class__, value or repr(value), element, dims)  # -0.0 equals 0.0
        result = self._constants.get(key) if self.shares_constants else None
        if result is None:
            if dims:
                result = self.broadcast(self.constant(value, element), dims)
            else:
                literal = literal_of(np.asarray(value), element)
                result = self._constant(literal, TensorType(element))
            self._constants[key] = result
        return result

    def literal(self, literal: Literal) -> Node:
        return self._constant(literal, without_layout(literal.type))

    def like(self, value: Any, node: Any) -> Node:
        """A number in every element of an array of a node's type."""
        return self.constant(value, array_type(node))

    def zeros(self, value_type: Type) -> Node:
        """An array of zeros."""
        if not isinstance(value_type, TensorType):
            raise HloomError(f"there is no zero of type {value_type}")
        return self.constant(
            False if value_type.dtype is PREDICATE else 0, TensorType(value_type.dtype, value_type.dims)
        )

    def broadcast(self, node: Node, dims: Sequence[int], dimensions: Sequence[int] = ()) -> Node:
        value_type, dims = array_type(node), tuple(dims)
        if dims == value_type.dims and tuple(dimensions) == tuple(range(value_type.rank)):
            return node
        return self.op("broadcast", node, type=self.shaped(value_type, dims), dimensions=tuple(dimensions))

    def reshape(self, node: Node, dims: Sequence[int]) -> Node:
        value_type, dims = array_type(node), tuple(dims)
        if value_type.dims == dims:
            return node
        made = self.typed(self.shaped(value_type, dims))
        return self._apply(OPS["reshape"], self.used((node,)), made)

    def shaped(self, value_type: TensorType, dims: tuple[int, ...]) -> TensorType:
        """An array of other dimensions."""
        result = self._shapes.get((value_type, dims))
        if result is None:
            result = self._shapes[value_type, dims] = TensorType(value_type.dtype, dims)
        return result

    def transpose(self, node: Node, dimensions: Sequence[int]) -> Node:
        if tuple(dimensions) == tuple(range(len(dimensions))):
            return node
        return self.op("transpose", node, dimensions=tuple(dimensions))

    def convert(self, node: Node, element: DType) -> Node:
        value_type = array_type(node)
        if value_type.dtype is element:
            return node
        return self.op("convert", node, type=value_type.with_dtype(element))

    def iota(self, element: DType, dims: Sequence[int], dimension: int) -> Node:
        return self.op("iota", type=TensorType(element, dims), iota_dimension=dimension)

    def tuple(self, elements: Iterable[Node]) -> Node:
        used = [value if value.graph is self.graph else self.use(value) for value in elements]
        value_type = TupleType([without_layout(value.type) for value in used])  # pyright: ignore[reportArgumentType]
        return self._apply(OPS["tuple"], used, self.typed(value_type))

    def element(self, node: Node, index: int) -> Node:
        """An element of a tuple; of a tuple instruction, its operand."""
        if node.graph is self.graph and node.opcode == "tuple":
            return node.operands[index]
        return self.op("get-tuple-element", node, index=index)

    def reduce(self, opcode: str, node: Node, dimensions: Sequence[int]) -> Node:
        """A reduction by add, multiply, maximum, minimum, and, or; the node itself where nothing is reduced."""
        if not dimensions:
            return node
        element = array_type(node).dtype
        start = self.constant(identity_value(opcode, element), element)
        return self.op("reduce", node, start, dimensions=tuple(dimensions), to_apply=self.reducer(opcode, element))

    def reducer(self, opcode: str, element: DType) -> Graph:
        """The computation of two scalars that combines them by an op."""
        result = self._reducers.get((opcode, element))
        if result is None:
            result = self._reducers[opcode, element] = self._reducer(opcode, element)
        return result

    def _reducer(self, opcode: str, element: DType) -> Graph:
        module, name = self.graph.module, f"autodiff.{opcode}.{element}"
        return module[name] if name in module else add_reducer(module, name, opcode, element)

    def conjugate(self, node: Node) -> Node:
        """The complex conjugate; a real array is its own."""
        if array_type(node).dtype not in REAL_OF:
            return node
        return self.op("complex", self.op("real", node), self.neg(self.op("imag", node)))

    def copy_graph(self, graph: Graph, arguments: Sequence[Node], mapping: dict[Any, Any] | None = None) -> Node:
        """Append a copy of a graph's instructions, given its arguments; the node that yields its output."""
        return self.graph.copy_body(graph, arguments, mapping)

    def _apply(
        self, row: Op, operands: Iterable[Node], type: Type, attributes: Attributes = EMPTY, name: str | None = None
    ) -> Node:
        return self.graph.add_apply(row, operands, type, attributes, name, before=self.before, metadata=self.metadata)

    def _constant(self, literal: Literal, type: Type) -> Node:
        return self.graph.add_constant(literal, type, before=self.before, metadata=self.metadata)


def has_layouts(module: Module) -> bool:
    """Whether a module's types have layouts: whether those of its entry's parameters do."""
    parameters = module.entry.parameters if module.has_entry else ()
    leaves = [leaf for parameter in parameters for leaf in leaf_types(parameter.type)]
    return any(isinstance(leaf, TensorType) and leaf.rank and leaf.layout is not None for leaf in leaves)


def _with_layout(value_type: Type) -> Type:
    if isinstance(value_type, TensorType) and value_type.layout is None and value_type.rank:
        return value_type.with_layout(default_layout(value_type.rank))
    return value_type


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


def add_reducer(module: Module, name: str, opcode: str, element: DType) -> Graph:
    """Add the computation of two scalars that combines them by an op."""
    made, scalar = module.add_graph(name), TensorType(element)
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
    if opcode not in EXTREMES:
        raise HloomError(f"{opcode} has no identity")
    low = opcode == "maximum"
    if element.is_float:
        return -np.inf if low else np.inf
    if element is PREDICATE:
        return not low
    limits = np.iinfo(element.numpy)
    return int(limits.min if low else limits.max)


def leaf_types(value_type: Type | None) -> list[Type]:
    """The types of the leaves of a value."""
    return list(value_type.leaves()) if value_type is not None else []


def flatten(emitter: Emitter, node: Node) -> list[Node]:
    """The leaves of a value, as nodes."""
    if not isinstance(node.type, TupleType):
        return [node]
    result: list[Node] = []
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current.type, TupleType):
            pending.extend(emitter.element(current, index) for index in reversed(range(len(current.type.elements))))
        else:
            result.append(current)
    return result


def unflatten(emitter: Emitter, value_type: Type, leaves: Iterable[Node]) -> Node:
    """A value of a type from its leaves."""
    remaining = iter(leaves)
    if not isinstance(value_type, TupleType):
        return next(remaining)
    stack: list[tuple[TupleType, list[Node]]] = [(value_type, [])]
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
