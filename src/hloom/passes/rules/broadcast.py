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
    replace_if_compatible,
    resized,
    same_array,
    scalar_of,
    without,
)
from hloom.rewrite import Builder, Family, all_operands, operand_is, register_condition, tensor_type

BROADCAST = Family("broadcast", formerly="broadcasting")
BROADCAST_AS_XLA = Family("broadcast-as-xla", formerly="broadcasting-as-xla")
"""Forms that XLA prefers though they are not smaller."""

POINTWISE = tuple(sorted(with_trait(Trait.ELEMENTWISE) - {"bitcast-convert", "copy", "stochastic-convert"}))
"""Elementwise ops that other ops may be moved past: a bitcast may change the width of elements, a copy the layout, and
the numbers that a stochastic conversion draws belong to positions."""
UNARY = tuple(opcode for opcode in POINTWISE if OPS[opcode].arity == (1, 1))
"""Those with one operand."""


@BROADCAST.rewrites("broadcast", benefit=4)
def broadcast_that_adds_nothing(build: Builder, node: Apply) -> Node | None:
    """broadcast(x) -> reshape(x), where there are as many elements in the same order

    Where the shapes agree, x itself. A scalar constant stays broadcast, to one element as to many.
    """
    operand, array_type = node.operands[0], tensor_type(node)
    source, dimensions = tensor_type(operand), broadcast_dims(node)
    if array_type is None or source is None or list(dimensions) != sorted(dimensions) or is_empty(array_type):
        return None
    if not source.rank and array_type.rank and isinstance(operand, Constant):
        return None
    if array_type.element_count != source.element_count:
        return None
    return (
        replace_if_compatible(build, node, operand)
        if same_array(array_type, source)
        else build.op("reshape", operand, type=array_type)
    )


BROADCAST.table("""
broadcast-that-transposes [4]: broadcast(x, dimensions=d) -> transpose(x, dimensions=inverse(d))
    where same-rank(root, x), falling(d)  # every dimension is one of x
broadcast-of-broadcast [3]: broadcast(broadcast(x, dimensions=a), dimensions=b) ->
    broadcast(x, type=root, dimensions=composed(b, a)) where static, x is static  # each element is repeated at once
""")


@BROADCAST.rewrites("broadcast", benefit=3, requires=operand_is(0, "reshape"))
def broadcast_of_reshape(build: Builder, node: Apply) -> Node | None:
    """broadcast(reshape(x)) -> broadcast(x), where the reshape only adds dimensions of size 1"""
    inner, array_type = node.operands[0], tensor_type(node)
    source = tensor_type(inner.operands[0]) if inner.opcode == "reshape" else None
    made = tensor_type(inner)
    if array_type is None or source is None or made is None or is_empty(source):
        return None
    added = _added_ones(source.dims, made.dims)
    if added is None:
        return None
    return build.op("broadcast", inner.operands[0], type=array_type, dimensions=without(broadcast_dims(node), added))


BROADCAST.table("""
broadcast-of-iota [3]: broadcast(i:iota(iota_dimension=k), dimensions=d) -> iota(type=root, iota_dimension=item(d, k))
    where static, i is static  # it counts along another dimension
iota-of-one [2]: iota(iota_dimension=k) -> 0 if static, counts-to-one(root, k)
    # the counted dimension has one element at most
""")


@BROADCAST_AS_XLA.rewrites("broadcast")
def broadcast_of_ones(build: Builder, node: Apply) -> Node | None:
    """broadcast(x) -> broadcast(reshape(x)), where the reshape takes away dimensions of size 1"""
    operand, array_type = node.operands[0], tensor_type(node)
    source = tensor_type(operand)
    if array_type is None or source is None or 1 not in source.dims:
        return None
    ones = [dim for dim, size in enumerate(source.dims) if size == 1]
    smaller = build.op("reshape", operand, type=resized(source, without(source.dims, ones)))
    return build.op("broadcast", smaller, type=array_type, dimensions=without(broadcast_dims(node), ones))


@BROADCAST.rewrites(*POINTWISE, requires=all_operands("broadcast", "iota"))
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
