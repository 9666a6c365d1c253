"""Instructions put into a graph before another one, their types inferred."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hloom.autodiff import Emitter, add_reducer
from hloom.ir import (
    DTYPES,
    Apply,
    DType,
    Graph,
    Layout,
    Node,
    Parameter,
    SliceDimension,
    TensorType,
    Type,
    default_layout,
)
from hloom.ops import reducer_of, splat_number


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


def replace_node(node: Apply, made: Node) -> None:
    """Let an instruction take the place of another, and its name."""
    graph, name = node.graph, node.name
    graph.replace_uses(node, made)
    graph.erase(node)
    graph.rename(made, name)


def redirect(node: Node, users: Iterable[Node], made: Node) -> None:
    """Let some users of a node read another one instead."""
    for user in users:
        user.graph.set_operands(user, [made if operand is node else operand for operand in user.operands])


def first_of(nodes: Iterable[Node]) -> Node | None:
    """The node of a graph that comes before all others of these."""
    first: Node | None = None
    for node in nodes:
        if first is None or node.graph.comes_before(node, first):
            first = node
    return first


def first_instruction(graph: Graph) -> Node | None:
    """The first node that is not a parameter, in front of which further parameters are put."""
    return next((node for node in graph.nodes if not isinstance(node, Parameter)), None)


class InsertionPoint(Emitter):
    """Writes instructions in front of one, with that instruction's metadata; or at the end of a graph.

    Arrays of narrow elements are packed, other types have no layouts. Each constant is written where it is read.
    """

    shares_constants = False

    def __init__(self, graph: Graph, before: Node | None) -> None:
        super().__init__(graph, before)
        self.metadata = before.raw_metadata if isinstance(before, Apply) else None

    def typed(self, value_type: Type) -> Type:
        return packed(value_type) if isinstance(value_type, TensorType) else value_type

    def cut(self, node: Node, dim: int, start: int, size: int) -> Node:
        """A run of the positions of a dimension."""
        parts = [SliceDimension(0, whole, 1) for whole in node.array_type.dims]
        parts[dim] = SliceDimension(start, start + size, 1)
        return self.op("slice", node, slice=tuple(parts))

    def take(self, node: Node, dim: int, positions: np.ndarray) -> Node:
        """Some positions of a dimension, in any order."""
        dims, rank = node.array_type.dims, node.array_type.rank
        return self.op(
            "gather",
            node,
            self.constant(positions.astype(np.int32), TensorType(DTYPES["s32"], positions.shape)),
            offset_dims=tuple(at for at in range(rank) if at != dim),
            collapsed_slice_dims=(dim,),
            start_index_map=(dim,),
            index_vector_dim=1,
            slice_sizes=tuple(1 if at == dim else size for at, size in enumerate(dims)),
        )

    def maximum(self, magnitudes: Node, dimensions: Sequence[int]) -> Node:
        """The greatest element along dimensions, or 0."""
        element = magnitudes.array_type.dtype
        zero = self.constant(0.0, element)
        reducer = self.reducer("maximum", element)
        return self.op("reduce", magnitudes, zero, dimensions=tuple(dimensions), to_apply=reducer)

    def _reducer(self, opcode: str, element: DType) -> Graph:
        module, name = self.graph.module, f"{opcode}_{element}"
        if name in module and reducer_of(module[name]) == opcode:
            return module[name]
        return add_reducer(module, module.unique_graph_name(name), opcode, element)
