"""HLO, built node by node: types inferred, constants and reducers made where needed; what an op's lowering is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from hloom.dialects.oneflow.rows import axis_in, plain
from hloom.ir import Apply, DType, Graph, Module, Node, TensorType, dtype, infer_type, literal_of
from hloom.ops import OPS

Number = int | float | bool


class HloBuilder:
    """Adds HLO nodes to a graph; `metadata` is given to all that is made."""

    def __init__(self, module: Module, graph: Graph) -> None:
        self.module = module
        self.graph = graph
        self.metadata: str | None = None
        self._reducers: dict[tuple[str, DType], Graph] = {}

    def apply(self, opcode: str, *operands: Node, **attributes: Any) -> Apply:
        """An op of operands, with the type that it infers."""
        op = OPS[opcode]
        kinds = [kind_of(operand) for operand in operands]
        return self.graph.add_apply(op, operands, infer_type(op, kinds, attributes), attributes, metadata=self.metadata)

    def convert(self, x: Node, element: DType) -> Node:
        """The array with other elements; itself where it has them."""
        operand_type = tensor(x)
        if operand_type.dtype is element:
            return x
        return self.graph.add_apply(OPS["convert"], [x], operand_type.with_dtype(element), metadata=self.metadata)

    def number(self, value: Number, element: DType) -> Node:
        """A constant without dimensions."""
        literal = literal_of(np.asarray(value, element.numpy)) if element.name != "pred" else literal_of(bool(value))
        return self.graph.add_constant(literal, literal.type, metadata=self.metadata)

    def filled(self, value: Number, like: Node, element: DType | None = None) -> Node:
        """One number everywhere, in an array like another."""
        array_type = tensor(like)
        return self.spread(self.number(value, element or array_type.dtype), array_type.dims, ())

    def spread(self, x: Node, dims: Sequence[int], places: Sequence[int]) -> Node:
        """The array repeated along new dimensions; `places` are where its own go."""
        array_type = TensorType(tensor(x).dtype, dims)
        attributes = {"dimensions": tuple(places)}
        return self.graph.add_apply(OPS["broadcast"], [x], array_type, attributes, metadata=self.metadata)

    def stretch(self, x: Node, dims: Sequence[int]) -> Node:
        """The array with its dimensions of size 1, and those that it lacks in front, repeated."""
        own = tensor(x).dims
        if own == tuple(dims):
            return x
        ahead = len(dims) - len(own)
        kept = [dim for dim, size in enumerate(own) if size == dims[ahead + dim]]
        small = self.reshape(x, [own[dim] for dim in kept])
        return self.spread(small, dims, [ahead + dim for dim in kept])

    def reshape(self, x: Node, dims: Sequence[int]) -> Node:
        """The elements in other dimensions."""
        operand_type = tensor(x)
        if operand_type.dims == tuple(dims):
            return x
        reshaped = TensorType(operand_type.dtype, dims)
        return self.graph.add_apply(OPS["reshape"], [x], reshaped, metadata=self.metadata)

    def transpose(self, x: Node, order: Sequence[int]) -> Node:
        """The dimensions in another order."""
        return self.apply("transpose", x, dimensions=tuple(order)) if list(order) != sorted(order) else x

    def iota(self, dims: Sequence[int], dimension: int, element: DType) -> Node:
        """The index along a dimension."""
        attributes = {"iota_dimension": dimension}
        return self.graph.add_apply(OPS["iota"], [], TensorType(element, dims), attributes, metadata=self.metadata)

    def compare(self, left: Node, right: Node, direction: str) -> Node:
        """Element by element."""
        return self.apply("compare", left, right, direction=direction)

    def reduce(self, opcode: str, x: Node, dimensions: Sequence[int], start: Number) -> Node:
        """All elements along dimensions put together by an op, from a number on."""
        operand_type = tensor(x)
        reducer = self._reducer(opcode, operand_type.dtype)
        attributes = {"dimensions": tuple(dimensions), "to_apply": reducer}
        return self.apply("reduce", x, self.number(start, operand_type.dtype), **attributes)

    def product(self, a: Node, b: Node) -> Node:
        """The products of matrices in two arrays with the same batch dimensions."""
        rank = tensor(a).rank
        batch = tuple(range(rank - 2))
        return self.apply(
            "dot",
            a,
            b,
            lhs_batch_dims=batch,
            rhs_batch_dims=batch,
            lhs_contracting_dims=(rank - 1,),
            rhs_contracting_dims=(rank - 2,),
        )

    def _reducer(self, opcode: str, element: DType) -> Graph:
        cached = self._reducers.get((opcode, element))
        if cached is None:
            cached = self._reducers[opcode, element] = self.module.add_graph(f"{opcode}_{element}")
            scalar = TensorType(element)
            pair = [cached.add_parameter(scalar, name) for name in ("left", "right")]
            cached.set_output(cached.add_apply(OPS[opcode], pair, scalar))
        return cached


def kind_of(node: Node) -> Any:
    """The type of a node that must have one."""
    assert node.type is not None, "what is built here has types"
    return node.type


def tensor(node: Node) -> TensorType:
    """The type of a node that is an array."""
    return cast(TensorType, kind_of(node))


INDEX = dtype("s32")
"""The element type of indices that are compared."""


@dataclass(frozen=True, slots=True)
class Given:
    """One op to be lowered: its node, the HLO of its operands, and what to build with."""

    node: Apply
    operands: tuple[Node, ...]
    build: HloBuilder

    def __getitem__(self, name: str) -> Any:
        """A plain attribute, defaults included."""
        return plain(self.node.attribute(name))

    @property
    def x(self) -> Node:
        """The first operand."""
        return self.operands[0]

    @property
    def x_type(self) -> TensorType:
        """The first operand's type."""
        return tensor(self.operands[0])

    def axis(self) -> int:
        """The attribute `axis`, counted from the front."""
        return axis_in(self.node.attribute("axis"), self.x_type)

    def along(self, values: Node, axis: int, like: Node) -> Node:
        """One value for each index of an axis, in an array like another."""
        return self.build.spread(values, tensor(like).dims, (axis,))

    def argument(self, array_type: TensorType, stem: str) -> Node:
        """A further parameter of the program."""
        return self.build.graph.add_parameter(array_type, stem)


Rule = Callable[[Given], Node | Sequence[Node]]
"""Builds an op's HLO: its result, or its results in order."""


AnyRule = TypeVar("AnyRule", bound=Rule)


def table_of() -> tuple[dict[str, Rule], Callable[..., Callable[[AnyRule], AnyRule]]]:
    """An empty table, and the decorator that enters functions into it by the ops' short names."""
    table: dict[str, Rule] = {}

    def lowers(*names: str) -> Callable[[AnyRule], AnyRule]:
        def register(rule: AnyRule) -> AnyRule:
            table.update({f"oneflow.{name}": rule for name in names})
            return rule

        return register

    return table, lowers
