"""Instructions put into a graph before another one, their types inferred."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hloom.ir import (
    Apply,
    DType,
    Graph,
    Layout,
    Node,
    TensorType,
    Type,
    default_layout,
    infer_type,
    literal_of,
    without_layout,
)
from hloom.ops import OPS, splat_number


def splat_value(node: Node) -> float | None:
    """The real number in every element of an array; None where there is none, or it is not known."""
    number = splat_number(node)
    return None if number is None or np.iscomplexobj(number) else float(number)


def packed(type_: TensorType) -> TensorType:
    """An array's type, its elements packed where they are narrower than a byte, as XLA holds them."""
    bits = type_.dtype.bits
    layout = type_.layout
    if bits >= 8:
        return type_
    order = layout.minor_to_major if layout is not None else default_layout(type_.rank).minor_to_major
    return type_.with_layout(Layout(order, element_bits=bits))


class InsertionPoint:
    """Writes instructions in front of one, with that instruction's metadata; or at the end of a graph."""

    def __init__(self, graph: Graph, before: Node | None) -> None:
        self.graph = graph
        self.before = before
        self.metadata = before.raw_metadata if isinstance(before, Apply) else None

    def op(self, opcode: str, *operands: Node, type: Type | None = None, name: str | None = None, **attributes) -> Node:
        """An application of an op."""
        row = OPS[opcode]
        types = [without_layout(operand.type) for operand in operands if operand.type is not None]
        made = infer_type(row, types, attributes, type) if type is None or row.infer is not None else type
        if isinstance(made, TensorType):
            made = packed(made)
        return self.graph.add_apply(row, operands, made, attributes, name, before=self.before, metadata=self.metadata)

    def constant(self, value: float, element: DType) -> Node:
        """A scalar."""
        return self.graph.add_constant(
            literal_of(np.asarray(value), element), TensorType(element), before=self.before, metadata=self.metadata
        )

    def vector(self, values: np.ndarray, element: DType) -> Node:
        """An array constant."""
        return self.graph.add_constant(
            literal_of(values, element), TensorType(element, values.shape), before=self.before, metadata=self.metadata
        )

    def convert(self, node: Node, element: DType) -> Node:
        plain = node.array_type.with_layout(None)
        return node if plain.dtype is element else self.op("convert", node, type=plain.with_dtype(element))

    def multiply(self, a: Node, b: Node) -> Node:
        return self.op("multiply", a, b)

    def divide(self, a: Node, b: Node) -> Node:
        return self.op("divide", a, b)

    def subtract(self, a: Node, b: Node) -> Node:
        return self.op("subtract", a, b)

    def reshape(self, node: Node, dims: Sequence[int]) -> Node:
        plain = node.array_type.with_layout(None)
        if plain.dims == tuple(dims):
            return node
        return self.op("reshape", node, type=TensorType(plain.dtype, tuple(dims)))

    def transpose(self, node: Node, order: Sequence[int]) -> Node:
        if tuple(order) == tuple(range(len(order))):
            return node
        return self.op("transpose", node, dimensions=tuple(order))

    def broadcast(self, node: Node, dims: Sequence[int], into: Sequence[int]) -> Node:
        plain = node.array_type.with_layout(None)
        if plain.dims == tuple(dims) and tuple(into) == tuple(range(len(dims))):
            return node
        return self.op("broadcast", node, type=TensorType(plain.dtype, tuple(dims)), dimensions=tuple(into))

    def splat(self, value: float, like: TensorType) -> Node:
        """A number in every element."""
        return self.broadcast(self.constant(value, like.dtype), like.dims, ())
