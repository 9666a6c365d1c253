"""HLO built as arithmetic on arrays, in which dialects write what their ops mean.

`x * (1 + y.op("erf"))` adds three instructions and the constant. Types are inferred, and constants and reducers made
where they are needed. Arrays do not stretch to each other by themselves: each dialect has its own rule for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from hloom.autodiff import Emitter, add_reducer
from hloom.ir import (
    DType,
    Graph,
    Literal,
    Node,
    SliceDimension,
    TensorType,
    Type,
    Window,
    dtype,
)
from hloom.ops import OPS

Number = int | float | bool
INDEX = dtype("s32")
"""The element type of indices that are compared."""


class HloBuilder(Emitter):
    """Adds HLO instructions to a graph, each constant where it is used; all of them get `metadata`."""

    shares_constants = False

    def constant(self, value: Any, type: TensorType | DType) -> Node:
        """As NumPy converts it: integers are what a number with a fraction is without it."""
        element = type.dtype if isinstance(type, TensorType) else type
        return super().constant(np.asarray(value).astype(element.numpy).item(), type)

    def array(self, literal: Literal) -> HloArray:
        """A literal as an array."""
        return HloArray(self, self.graph.add_constant(literal, literal.type))

    def number(self, value: Number, element: DType) -> HloArray:
        """A constant without dimensions."""
        return HloArray(self, self.constant(value, element))

    def indices(self, dims: Sequence[int], dimension: int, element: DType) -> HloArray:
        """The index along a dimension."""
        return HloArray(self, self.iota(element, dims, dimension))

    def concatenate(self, parts: Sequence[HloArray], dimension: int) -> HloArray:
        """Arrays one after the other along a dimension."""
        return parts[0].op("concatenate", *parts[1:], dimensions=(dimension,))

    def comparer(self, direction: str, element: DType) -> Graph:
        """The computation that compares two numbers."""
        graph = self.graph.module.add_graph(f"{direction.lower()}_{element}")
        pair = [graph.add_parameter(TensorType(element), side) for side in ("left", "right")]
        graph.set_output(graph.add_apply(OPS["compare"], pair, TensorType(dtype("pred")), {"direction": direction}))
        return graph

    def _reducer(self, opcode: str, element: DType) -> Graph:
        return add_reducer(self.graph.module, f"{opcode}_{element}", opcode, element)


class HloArray:
    """An array of the program that is being built; in arithmetic a number stands for an array full of it."""

    __slots__ = ("build", "node")

    def __init__(self, build: HloBuilder, node: Node) -> None:
        self.build = build
        self.node = node

    @property
    def type(self) -> TensorType:
        type_ = type_of_node(self.node)
        assert isinstance(type_, TensorType), "it is an array"
        return type_

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def dims(self) -> tuple[int, ...]:
        return self.type.dims

    @property
    def rank(self) -> int:
        return self.type.rank

    def made(self, node: Node) -> HloArray:
        """A node that was made of this array; the array itself if it is its node."""
        return self if node is self.node else HloArray(self.build, node)

    def op(self, opcode: str, *others: HloArray | Number, **attributes: Any) -> HloArray:
        """An op of this array and others, with the type that it infers."""
        operands = [self.filled(other).node if not isinstance(other, HloArray) else other.node for other in others]
        return HloArray(self.build, self.build.op(opcode, self.node, *operands, **attributes))

    # Elementwise

    def __add__(self, other: HloArray | Number) -> HloArray:
        return self.op("add", other)

    def __radd__(self, other: Number) -> HloArray:
        return self.filled(other) + self

    def __sub__(self, other: HloArray | Number) -> HloArray:
        return self.op("subtract", other)

    def __rsub__(self, other: Number) -> HloArray:
        return self.filled(other) - self

    def __mul__(self, other: HloArray | Number) -> HloArray:
        return self.op("multiply", other)

    def __rmul__(self, other: Number) -> HloArray:
        return self.filled(other) * self

    def __truediv__(self, other: HloArray | Number) -> HloArray:
        return self.op("divide", other)

    def __rtruediv__(self, other: Number) -> HloArray:
        return self.filled(other) / self

    def __neg__(self) -> HloArray:
        return self.op("negate")

    def __and__(self, other: HloArray) -> HloArray:
        return self.op("and", other)

    def __lt__(self, other: HloArray | Number) -> HloArray:
        return self.compare(other, "LT")

    def __gt__(self, other: HloArray | Number) -> HloArray:
        return self.compare(other, "GT")

    def __le__(self, other: HloArray | Number) -> HloArray:
        return self.compare(other, "LE")

    def __ge__(self, other: HloArray | Number) -> HloArray:
        return self.compare(other, "GE")

    def compare(self, other: HloArray | Number, direction: str) -> HloArray:
        return self.op("compare", other, direction=direction)

    def select(self, chosen: HloArray, other: HloArray | Number) -> HloArray:
        """Elements of the first array where this is true, elsewhere those of the second."""
        return self.op("select", chosen, other if isinstance(other, HloArray) else chosen.filled(other))

    def convert(self, element: DType) -> HloArray:
        """The array with other elements; itself if it has them already."""
        return self.made(self.build.convert(self.node, element))

    def filled(self, value: Number, element: DType | None = None) -> HloArray:
        """An array with these dimensions, filled with one number."""
        return self.made(self.build.constant(value, TensorType(element or self.dtype, self.dims)))

    # Dimensions

    def spread(self, dims: Sequence[int], places: Sequence[int] = ()) -> HloArray:
        """Broadcast to new dimensions; `places` says which of them are the array's own."""
        return self.made(self.build.broadcast(self.node, dims, places))

    def stretch(self, dims: Sequence[int]) -> HloArray:
        """Broadcast as numpy does: dimensions of size 1 are repeated, and missing ones are added in front."""
        own = self.dims
        if own == tuple(dims):
            return self
        # HLO's broadcast never repeats a dimension of size 1: it is reshaped away first
        ahead = len(dims) - len(own)
        kept = [dim for dim, size in enumerate(own) if size == dims[ahead + dim]]
        return self.reshape([own[dim] for dim in kept]).spread(dims, [ahead + dim for dim in kept])

    def reshape(self, dims: Sequence[int]) -> HloArray:
        """Reshape; the array itself if it has these dimensions."""
        return self.made(self.build.reshape(self.node, dims))

    def transpose(self, order: Sequence[int]) -> HloArray:
        """Reorder the dimensions; the array itself if the order stays."""
        return self.made(self.build.transpose(self.node, order))

    def swapped(self) -> HloArray:
        """Exchange the last two dimensions."""
        return self.transpose((*range(self.rank - 2), self.rank - 1, self.rank - 2))

    def narrowed(self, axis: int, start: int, length: int) -> HloArray:
        """A range of indices of one dimension."""
        ranges = [SliceDimension(0, size) for size in self.dims]
        ranges[axis] = SliceDimension(start, start + length)
        return self.op("slice", slice=tuple(ranges))

    def lower_triangle(self, diagonal: int, fill: Number, element: DType = INDEX, direction: str = "LE") -> HloArray:
        """The elements on and below a diagonal ("GE": above it); a number elsewhere. `element` is that of indices."""
        rows, columns = (self.build.indices(self.dims, self.rank - back, element) for back in (2, 1))
        return columns.compare(rows + diagonal, direction).select(self, fill)

    # Sums

    def reduce(self, opcode: str, dimensions: Sequence[int]) -> HloArray:
        """Reduce dimensions with an op; the array itself where there are none."""
        return self.made(self.build.reduce(opcode, self.node, dimensions))

    def reduce_windows(self, opcode: str, window: Window, start: Number) -> HloArray:
        """Reduce each window with an op."""
        reducer = self.build.reducer(opcode, self.dtype)
        return self.op("reduce-window", self.build.number(start, self.dtype), window=window, to_apply=reducer)

    def product(self, other: HloArray) -> HloArray:
        """Multiply matrices, with all leading dimensions as batch dimensions."""
        batch = tuple(range(self.rank - 2))
        return self.op(
            "dot",
            other,
            lhs_batch_dims=batch,
            rhs_batch_dims=batch,
            lhs_contracting_dims=(self.rank - 1,),
            rhs_contracting_dims=(self.rank - 2,),
        )


def type_of_node(node: Node) -> Type:
    """The type of a node that must have one."""
    assert node.type is not None, "what is built here has types"
    return node.type


AnyRule = TypeVar("AnyRule", bound=Callable[..., Any])


def table_of(prefix: str = "") -> tuple[dict[str, Any], Callable[..., Callable[[AnyRule], AnyRule]]]:
    """An empty table, and the decorator that enters functions into it under their ops' names with a prefix."""
    table: dict[str, Any] = {}

    def lowers(*names: str) -> Callable[[AnyRule], AnyRule]:
        def register(rule: AnyRule) -> AnyRule:
            table.update({prefix + name: rule for name in names})
            return rule

        return register

    return table, lowers


# Formulas shared by dialects


def relu(x: HloArray) -> HloArray:
    """The positive part."""
    return x.op("maximum", 0)


def erf_gelu(x: HloArray) -> HloArray:
    """0.5 * x * (1 + erf(x / sqrt 2))."""
    bent = (x * math.sqrt(0.5)).op("erf")
    return x * 0.5 * (bent + 1)


def tanh_gelu(x: HloArray) -> HloArray:
    """0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))."""
    inner = x + x * x * x * 0.044715
    bent = (inner * math.sqrt(2 / math.pi)).op("tanh")
    return x * 0.5 * (bent + 1)
