"""Sorting: tangents follow the permutation, which an additional operand of the sort records.

Source: jax/_src/lax/lax.py, _sort_jvp.
"""

from __future__ import annotations

from typing import Any

from hloom.autodiff.backward import Backward
from hloom.autodiff.emitter import S32, Emitter, array_type
from hloom.autodiff.linear import FORWARD_FORMS, Linear, LinearOps
from hloom.autodiff.linearize import STRUCTURES, Walk
from hloom.autodiff.table import rules, structural, transposition
from hloom.ir import Apply, Graph, Node, TensorType, TupleType

TAKEN = "take-along-dimension"
"""The linear op that takes, at each place, the element whose index along a dimension stands there; all distinct."""

structural("sort")


def sort(walk: Walk, node: Apply, operands: list[Node], tangents: list[Any], needed: int) -> tuple[Node, Any]:
    """A sort of one operand more, the places along the dimension; the tangents are taken from there."""
    emitter, t = walk.emitter, walk.ops
    value_type = array_type(operands[0])
    (dimension,) = node.attributes["dimensions"]
    if not value_type.rank:
        return _unsorted(emitter, node, operands, tangents)
    places = emitter.iota(S32, value_type.dims, dimension)
    graph = _with_places(node.attributes["to_apply"], [array_type(value).dtype for value in (*operands, places)])
    attributes = {**node.attributes, "to_apply": graph}
    made = emitter.op("sort", *operands, places, **attributes)
    order = emitter.element(made, len(operands))
    values = [emitter.element(made, number) for number in range(len(operands))]
    result = [
        t.op(TAKEN, tangent, order, type=array_type(operand), dimension=dimension) if tangent is not None else None
        for operand, tangent in zip(operands, tangents, strict=True)
    ]
    if isinstance(node.type, TupleType):
        return emitter.tuple(values), result
    return values[0], result[0]


def _unsorted(emitter: Emitter, node: Apply, operands: list[Node], tangents: list[Any]) -> tuple[Node, Any]:
    if isinstance(node.type, TupleType):
        return emitter.tuple(operands), tangents
    return operands[0], tangents[0]


def _with_places(graph: Graph, elements: list[Any]) -> Graph:
    """The comparator with two parameters more, which it does not use."""
    module = graph.module
    made = module.add_graph(graph.name)
    mapping: dict[Any, Any] = {}
    for parameter in graph.parameters:
        mapping[parameter] = made.add_parameter(parameter.type, parameter.name)
    for label in ("left_place", "right_place"):
        made.add_parameter(TensorType(elements[-1]), label)
    made.copy_nodes(graph.nodes, mapping)
    made.set_output(mapping[graph.root])
    return made


STRUCTURES["sort"] = sort


@rules("topk")
def topk(t: LinearOps, node: Apply, tangents: list[Any]) -> Any:
    """The values' tangents from where they stood; the places have none."""
    order = t.primal.element(node, 1)
    value_type = array_type(order).with_dtype(array_type(node.operands[0]).dtype)
    return [t.op(TAKEN, tangents[0], order, type=value_type, dimension=value_type.rank - 1), None]


def take_along(emitter: Emitter, operand: Node, order: Node, *, dimension: int, type: Any = None) -> Node:
    """A gather of single elements, all other dimensions batched."""
    dims = array_type(order).dims
    batch = tuple(dim for dim in range(len(dims)) if dim != dimension)
    return emitter.op(
        "gather",
        operand,
        emitter.reshape(order, [*dims, 1]),
        offset_dims=(),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        operand_batching_dims=batch,
        start_indices_batching_dims=batch,
        index_vector_dim=len(dims),
        slice_sizes=(1,) * len(dims),
    )


FORWARD_FORMS[TAKEN] = take_along


@transposition(TAKEN)
def transpose_take_along(b: Backward, value: Linear, cotangent: Node) -> None:
    operand, order = value.operands
    dimension = value.attributes["dimension"]
    zeros = array_type(operand)
    b.give_update(operand, lambda total: _scattered(b, total or b.zeros(zeros), order, cotangent, dimension))


def _scattered(emitter: Emitter, total: Node, order: Node, updates: Node, dimension: int) -> Node:
    """Single elements added where distinct indices along a dimension say, all other dimensions batched."""
    dims = array_type(order).dims
    batch = tuple(dim for dim in range(len(dims)) if dim != dimension)
    return emitter.op(
        "scatter",
        total,
        emitter.reshape(order, [*dims, 1]),
        updates,
        update_window_dims=(),
        inserted_window_dims=(dimension,),
        scatter_dims_to_operand_dims=(dimension,),
        input_batching_dims=batch,
        scatter_indices_batching_dims=batch,
        index_vector_dim=len(dims),
        unique_indices=True,
        to_apply=emitter.reducer("add", array_type(total).dtype),
    )


PERMUTED = "permute-along-dimension"
"""The linear op that puts the slices of a dimension in the order of a permutation, one for each batch."""


def permuted(t: LinearOps, tangent: Any, order: Node, dimension: int) -> Any:
    """A tangent with the slices of a dimension in another order: rows or columns of matrices."""
    return t.op(PERMUTED, tangent, order, type=array_type(tangent), dimension=dimension)


def _slices_in_order(emitter: Emitter, operand: Node, order: Node, *, dimension: int, type: Any = None) -> Node:
    """A gather of whole slices, the leading dimensions batched."""
    dims = array_type(operand).dims
    batch = tuple(range(array_type(order).rank - 1))
    single = {*batch, dimension}
    return emitter.op(
        "gather",
        operand,
        emitter.reshape(order, [*array_type(order).dims, 1]),
        offset_dims=tuple(dim for dim in range(len(dims)) if dim not in single),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        operand_batching_dims=batch,
        start_indices_batching_dims=batch,
        index_vector_dim=len(batch) + 1,
        slice_sizes=tuple(1 if dim in single else size for dim, size in enumerate(dims)),
    )


FORWARD_FORMS[PERMUTED] = _slices_in_order


@transposition(PERMUTED)
def transpose_permuted(b: Backward, value: Linear, cotangent: Node) -> None:
    """The inverse permutation."""
    operand, order = value.operands
    value_type = array_type(order)
    last = value_type.rank - 1
    numbers = b.convert(b.iota(S32, value_type.dims, last), value_type.dtype)
    inverse = _scattered(b, b.zeros(value_type), order, numbers, last)
    b.give(operand, _slices_in_order(b, cotangent, inverse, dimension=value.attributes["dimension"]))
