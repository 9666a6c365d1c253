"""Gathers and scatters of one row of indices after another, and of slices that have all dimensions of the operand.

Follows XLA's xla/hlo/transforms/simplifiers/gather_simplifier.cc (GatherSimplifier) and
xla/service/scatter_simplifier.cc (ScatterSimplifier).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloom.ir import Apply, Node, TensorType, TupleType
from hloom.passes.computation_order import has_control_dependencies
from hloom.passes.rules.dimensions import resized
from hloom.rewrite import Builder, Family, tensor_type

CANONICAL_GATHER = Family("canonical-gather", because="computes the shape of index vectors and slices")


@CANONICAL_GATHER.rewrites("gather", depth=1)
def gather_of_rows(build: Builder, node: Apply) -> Node | None:
    """gather(x, i [7,2]) -> reshape(gather(x, reshape(i) [14,1])): one index vector in a row, slices of x's rank

    A gather of a scalar is its broadcast; slices without elements are zeros.
    """
    operand, indices, result = (tensor_type(value) for value in (*node.operands[:2], node))
    attributes = node.attributes
    if operand is None or indices is None or result is None or not operand.is_static or not result.is_static:
        return None
    if attributes.get("operand_batching_dims") or has_control_dependencies(node):
        return build.decline("it has batches, or control dependencies")
    sizes = tuple(attributes["slice_sizes"])
    if not operand.rank:
        return build.broadcast(node.operands[0], result.with_layout(None))
    if 0 in sizes:
        return build.constant(0, result.with_layout(None))
    offsets, collapsed = tuple(attributes["offset_dims"]), set(attributes["collapsed_slice_dims"])
    simple = tuple(range(1, operand.rank + 1))
    if indices.rank == 2 and attributes["index_vector_dim"] == 1 and offsets == simple and not collapsed:
        return build.decline("it has this form")
    rows, lead = _rows(build, node.operands[1], indices, attributes["index_vector_dim"])
    count = math.prod(lead)
    made = build.like(
        node, node.operands[0], rows, type=resized(result, (count, *sizes)), offset_dims=simple,
        collapsed_slice_dims=(), index_vector_dim=1,
    )  # fmt: skip
    kept = [size for dim, size in enumerate(sizes) if dim not in collapsed]
    parts = build.reshape(made, resized(result, (*lead, *kept)))
    return _moved(build, parts, offsets, len(lead))


@CANONICAL_GATHER.rewrites("scatter", depth=1)
def scatter_of_rows(build: Builder, node: Apply) -> Node | None:
    """scatter(x, i [7,2], u) -> scatter(x, reshape(i) [14,1], reshape(u)): one index vector in a row, slices as x is

    A scatter into a scalar is what it combines.
    """
    count = len(node.operands) // 2
    operands, updates = node.operands[:count], node.operands[count + 1 :]
    types = [tensor_type(value) for value in (*operands, node.operands[count], *updates)]
    known = [array_type for array_type in types if array_type is not None and array_type.is_static]
    attributes = node.attributes
    if len(known) < len(types) or attributes.get("input_batching_dims") or has_control_dependencies(node):
        return build.decline("it has batches, control dependencies, or arrays of dynamic size")
    rank, indices, update = known[0].rank, known[count], known[count + 1]
    if not rank:
        return build.copy(attributes["to_apply"], (*operands, *updates)) if not update.rank else None
    window, inserted = tuple(attributes["update_window_dims"]), set(attributes["inserted_window_dims"])
    simple = tuple(range(1, rank + 1))
    if indices.rank == 2 and attributes["index_vector_dim"] == 1 and window == simple and not inserted:
        return build.decline("it has this form")
    if list(window) != sorted(window):
        return build.decline("the dimensions of its slices are not in order")
    rows, lead = _rows(build, node.operands[count], indices, attributes["index_vector_dim"])
    inside = iter([update.dims[dim] for dim in window])
    sizes = [1 if dim in inserted else next(inside) for dim in range(rank)]
    order = [*(dim for dim in range(update.rank) if dim not in window), *window]
    moved: list[Node] = []
    for value in updates:
        value_type = tensor_type(value)
        assert value_type is not None
        taken = value if order == sorted(order) else build.transpose(value, order)
        moved.append(build.reshape(taken, resized(value_type, (math.prod(lead), *sizes))))
    result = node.type
    assert isinstance(result, (TensorType, TupleType))
    return build.like(
        node, *operands, rows, *moved, type=result, update_window_dims=simple, inserted_window_dims=(),
        index_vector_dim=1,
    )  # fmt: skip


def _rows(build: Builder, indices: Node, array_type: TensorType, vector_dim: int) -> tuple[Node, tuple[int, ...]]:
    """Indices with one vector in each row, and how many there are along each dimension that they had."""
    lead = [dim for dim in range(array_type.rank) if dim != vector_dim]
    sizes = tuple(array_type.dims[dim] for dim in lead)
    width = array_type.dims[vector_dim] if vector_dim < array_type.rank else 1
    order = [*lead, vector_dim] if vector_dim < array_type.rank else lead
    moved = indices if order == sorted(order) else build.transpose(indices, order)
    return build.reshape(moved, resized(array_type, (math.prod(sizes), width))), sizes


def _moved(build: Builder, parts: Node, offsets: Sequence[int], batches: int) -> Node:
    """An array whose batches come first, with the dimensions of its slices where they are wanted."""
    assert isinstance(parts.type, TensorType)
    rank = parts.type.rank
    lead = [dim for dim in range(rank) if dim not in offsets]
    source = {dim: at for at, dim in enumerate(lead)} | {dim: batches + at for at, dim in enumerate(offsets)}
    order = [source[dim] for dim in range(rank)]
    return parts if order == sorted(order) else build.transpose(parts, order)
