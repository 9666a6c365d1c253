"""HLO, built node by node: types inferred, constants and reducers made where needed; what an op's lowering is given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

from hloom.autodiff import Emitter, add_reducer
from hloom.dialects.oneflow.rows import axis_in, plain
from hloom.ir import Apply, DType, Graph, Module, Node, TensorType, dtype

Number = int | float | bool


class HloBuilder(Emitter):
    """Adds HLO nodes to a graph, each constant where it is used."""

    shares_constants = False

    def __init__(self, module: Module, graph: Graph) -> None:
        super().__init__(graph)
        self.module = module

    def constant(self, value: Any, type: TensorType | DType) -> Node:
        """As NumPy converts it: integers are what a number with a fraction is without it."""
        element = type.dtype if isinstance(type, TensorType) else type
        return super().constant(np.asarray(value).astype(element.numpy).item(), type)

    def stretch(self, x: Node, dims: Sequence[int]) -> Node:
        """The array with its dimensions of size 1, and those that it lacks in front, repeated."""
        own = tensor(x).dims
        if own == tuple(dims):
            return x
        ahead = len(dims) - len(own)
        kept = [dim for dim, size in enumerate(own) if size == dims[ahead + dim]]
        small = self.reshape(x, [own[dim] for dim in kept])
        return self.broadcast(small, dims, [ahead + dim for dim in kept])

    def product(self, a: Node, b: Node) -> Node:
        """The products of matrices in two arrays with the same batch dimensions."""
        rank = tensor(a).rank
        batch = tuple(range(rank - 2))
        return self.op(
            "dot",
            a,
            b,
            lhs_batch_dims=batch,
            rhs_batch_dims=batch,
            lhs_contracting_dims=(rank - 1,),
            rhs_contracting_dims=(rank - 2,),
        )

    def _reducer(self, opcode: str, element: DType) -> Graph:
        return add_reducer(self.module, f"{opcode}_{element}", opcode, element)


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
        return self.build.broadcast(values, tensor(like).dims, (axis,))

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
