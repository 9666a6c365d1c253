"""Rules on broadcasts, and on elementwise ops of broadcasts. Every bit is kept, NaN payloads included.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleBroadcast, HandleIota,
TryToSinkBroadcastAfterElementwiseOps).
"""

from __future__ import annotations

from hloom.ir import Apply, Constant, Node, TensorType, Trait
from hloom.ops import OPS, with_trait
from hloom.passes.rules.dimensions import (
    Dimensions,
    broadcast_dims,
    is_empty,
    kept_by_reshape,
    resized,
    scalar_of,
    without,
)
from hloom.rewrite import Builder, Family, all_operands, register_condition, register_value, tensor_type

BROADCAST = Family("broadcast", formerly="broadcasting")
BROADCAST_AS_XLA = Family("broadcast-as-xla", formerly="broadcasting-as-xla")
"""Forms that XLA prefers though they are not smaller."""

POINTWISE = tuple(sorted(with_trait(Trait.ELEMENTWISE) - {"bitcast-convert", "copy", "stochastic-convert"}))
"""Elementwise ops that other ops may be moved past: a bitcast may change the width of elements, a copy the layout, and
the numbers that a stochastic conversion draws belong to positions."""
UNARY = tuple(opcode for opcode in POINTWISE if OPS[opcode].arity == (1, 1))
"""Those with one operand."""


BROADCAST.table("""
broadcast-that-adds-nothing [4]: broadcast(x, dimensions=d) -> in-place(x, root) if same-array(root, x);
    broadcast(x, dimensions=d) -> reshape(x, type=root) where rising(d), repeats-nothing(root, x)
    # as many elements in the same order
broadcast-that-transposes [4]: broadcast(x, dimensions=d) -> transpose(x, dimensions=inverse(d))
    where same-rank(root, x), falling(d)  # every dimension is one of x
broadcast-of-broadcast [3]: broadcast(broadcast(x, dimensions=a), dimensions=b) ->
    broadcast(x, type=root, dimensions=composed(b, a)) where static, x is static  # each element is repeated at once
broadcast-of-reshape [3]: broadcast(r:reshape(x), dimensions=d) -> broadcast(x, type=root, dimensions=left-of(d, x, r))
    if static, x is not empty, adds-ones(r, x)  # the reshape only adds dimensions of size 1
broadcast-of-iota [3]: broadcast(i:iota(iota_dimension=k), dimensions=d) -> iota(type=root, iota_dimension=item(d, k))
    where static, i is static  # it counts along another dimension
iota-of-one [2]: iota(iota_dimension=k) -> 0 if static, counts-to-one(root, k)
    # the counted dimension has one element at most
""")


@BROADCAST_AS_XLA.rewrites("broadcast", because="computes the shape without dimensions of size 1")
def broadcast_of_ones(build: Builder, node: Apply) -> Node | None:
    """broadcast(x) -> broadcast(reshape(x)), where the reshape takes away dimensions of size 1"""
    operand, array_type = node.operands[0], tensor_type(node)
    source = tensor_type(operand)
    if array_type is None or source is None or 1 not in source.dims:
        return None
    ones = [dim for dim, size in enumerate(source.dims) if size == 1]
    smaller = build.op("reshape", operand, type=resized(source, without(source.dims, ones)))
    return build.op("broadcast", smaller, type=array_type, dimensions=without(broadcast_dims(node), ones))


@BROADCAST.rewrites(
    *POINTWISE,
    requires=all_operands("broadcast", "iota"),
    because="matches any elementwise op, with any number of operands",
)
def pointwise_of_broadcasts(build: Builder, node: Apply) -> Node | None:
    """f(broadcast(x), broadcast(y)) -> broadcast(f(x, y))

    The operands are broadcasts of scalars, or of arrays of one shape to the same places; an iota is a broadcast of the
    numbers of one dimension. What is computed in each place is the same as before, once instead of many times.
    """
    array_type = tensor_type(node)
    if array_type is None or not array_type.rank:
        return None
    shape: Dimensions = ()
    dimensions: Dimensions = ()
    for operand in node.operands:
        wide, way = tensor_type(operand), _broadcast_way(operand)
        if way is None or wide is None or wide.dims != array_type.dims:
            return build.decline("an operand is not a broadcast")
        if not way[0]:
            continue
        if shape and (shape, dimensions) != way:
            return build.decline("the operands are broadcast in different ways")
        shape, dimensions = way
    if is_empty(array_type) and not shape:
        return None
    return _computed_before(build, node, array_type, shape, dimensions)


def _broadcast_way(operand: Node) -> tuple[Dimensions, Dimensions] | None:
    """The dimensions that a broadcast is of, and where they are in the result; None for what is not a broadcast.

    An iota is one of the numbers along its dimension, where there are further elements.
    """
    array_type = tensor_type(operand)
    if operand.opcode == "iota" and array_type is not None:
        counted: int = operand.attributes["iota_dimension"]
        size = array_type.dims[counted]
        return ((size,), (counted,)) if size < array_type.element_count else None
    source = tensor_type(operand.operands[0]) if operand.opcode == "broadcast" else None
    return None if source is None else (source.dims, broadcast_dims(operand))


def _computed_before(
    build: Builder, node: Apply, array_type: TensorType, shape: Dimensions, dimensions: Dimensions
) -> Node:
    narrow = [_narrowed(build, operand, shape) for operand in node.operands]
    made = build.like(node, *narrow, type=resized(array_type, shape), sharding=None)
    return build.op("broadcast", made, type=array_type, dimensions=dimensions)


def _narrowed(build: Builder, operand: Node, shape: Dimensions) -> Node:
    if operand.opcode == "iota":
        assert isinstance(operand.type, TensorType)
        return build.op("iota", type=resized(operand.type, shape), iota_dimension=0)
    scalar = scalar_of(operand)
    if scalar is None or not shape:
        return operand.operands[0]
    assert isinstance(scalar.type, TensorType)
    return build.broadcast(scalar, resized(scalar.type, shape))


def _added_ones(before: Dimensions, after: Dimensions) -> list[int] | None:
    """The dimensions of size 1 that a reshape adds; None where it does anything else."""
    if kept_by_reshape(before, after) is None or len(after) <= len(before):
        return None
    added, position = [], 0
    for number, size in enumerate(after):
        if position < len(before) and size == before[position]:
            position += 1
        else:
            added.append(number)
    return added if position == len(before) else None


def _counts_to_one(node: Node, counted: int) -> bool:
    array_type = tensor_type(node)
    return array_type is not None and array_type.dims[counted] <= 1


def _same_rank(node: Node, other: Node) -> bool:
    one, second = tensor_type(node), tensor_type(other)
    return one is not None and second is not None and one.rank == second.rank


register_condition("counts-to-one", _counts_to_one)
register_condition("same-rank", _same_rank)
register_condition("falling", lambda dimensions: list(dimensions or ()) != sorted(dimensions or ()))


def _repeats_nothing(node: Node, source: Node) -> bool:
    """Whether a broadcast has elements, as many as its source; a scalar constant stays broadcast, to one as to many."""
    array_type, source_type = tensor_type(node), tensor_type(source)
    if array_type is None or source_type is None or is_empty(array_type):
        return False
    if not source_type.rank and array_type.rank and isinstance(source, Constant):
        return False
    return array_type.element_count == source_type.element_count


def _ones_added(node: Node, source: Node) -> list[int] | None:
    """The dimensions of size 1 that a reshape adds to its source; None where it does anything else."""
    made, source_type = tensor_type(node), tensor_type(source)
    return None if made is None or source_type is None else _added_ones(source_type.dims, made.dims)


register_condition("repeats-nothing", _repeats_nothing)
register_condition("adds-ones", lambda node, source: _ones_added(node, source) is not None)
register_value("left-of", lambda dims, source, node: without(dims or (), _ones_added(node, source) or ()))
