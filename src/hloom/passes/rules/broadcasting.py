"""Rules for broadcasts, and for what is computed on them. Every bit stays, NaN's included."""

from __future__ import annotations

from hloom.ir import Apply, Constant, Node, TensorType
from hloom.passes.rules.dimensions import (
    Dimensions,
    inverse,
    is_empty,
    kept_by_reshape,
    places_of,
    resized,
    same_array,
    scalar_of,
    stand_in,
    without,
)
from hloom.rewrite import Builder, Family, tensor_type

BROADCASTING = Family("broadcasting")
BROADCASTING_AS_XLA = Family("broadcasting-as-xla")
"""Forms that XLA prefers though they are not smaller."""

_UNARY = (
    "ceil floor round-nearest-afz round-nearest-even real imag abs sign negate not count-leading-zeros popcnt "
    "is-finite cbrt erf acos acosh asin asinh atanh cosh cosine exponential exponential-minus-one log log-plus-one "
    "logistic rsqrt sine sinh sqrt tan tanh convert reduce-precision"
)
_OTHERS = (
    "add maximum minimum multiply divide power remainder subtract atan2 and or xor mulhi shift-left "
    "shift-right-arithmetic shift-right-logical complex compare clamp select"
)
UNARY = tuple(_UNARY.split())
"""Those with one operand."""
POINTWISE = (*UNARY, *_OTHERS.split())
"""The ops whose elements depend on the elements of their operands in the same place, and on nothing else."""


@BROADCASTING.rewrites("broadcast", benefit=4)
def broadcast_that_adds_nothing(build: Builder, node: Apply) -> Node | None:
    """broadcast(x) -> reshape(x), where there are as many elements in the same order

    Where the shapes agree, x itself. A scalar constant stays broadcast, to one element as to many.
    """
    operand, kind = node.inputs[0], tensor_type(node)
    source, places = tensor_type(operand), places_of(node)
    if kind is None or source is None or list(places) != sorted(places) or is_empty(kind):
        return None
    if not source.rank and kind.rank and isinstance(operand, Constant):
        return None
    if kind.element_count != source.element_count:
        return None
    return stand_in(build, node, operand) if same_array(kind, source) else build.op("reshape", operand, type=kind)


@BROADCASTING.rewrites("broadcast", benefit=4)
def broadcast_that_transposes(build: Builder, node: Apply) -> Node | None:
    """broadcast(x) -> transpose(x), where every dimension is one of x"""
    operand, kind = node.inputs[0], tensor_type(node)
    source, places = tensor_type(operand), places_of(node)
    if kind is None or source is None or source.rank != kind.rank or list(places) == sorted(places):
        return None
    return build.op("transpose", operand, dimensions=inverse(places))


@BROADCASTING.rewrites("broadcast", benefit=3)
def broadcast_of_broadcast(build: Builder, node: Apply) -> Node | None:
    """broadcast(broadcast(x)) -> broadcast(x)"""
    inner, kind = node.inputs[0], tensor_type(node)
    if inner.opcode != "broadcast" or kind is None or tensor_type(inner.inputs[0]) is None:
        return None
    outer = places_of(node)
    places = tuple(outer[place] for place in places_of(inner))
    return build.op("broadcast", inner.inputs[0], type=kind, dimensions=places)


@BROADCASTING.rewrites("broadcast", benefit=3)
def broadcast_of_reshape(build: Builder, node: Apply) -> Node | None:
    """broadcast(reshape(x)) -> broadcast(x), where the reshape only adds dimensions of size 1"""
    inner, kind = node.inputs[0], tensor_type(node)
    source = tensor_type(inner.inputs[0]) if inner.opcode == "reshape" else None
    made = tensor_type(inner)
    if kind is None or source is None or made is None or is_empty(source):
        return None
    added = _added_ones(source.dims, made.dims)
    if added is None:
        return None
    return build.op("broadcast", inner.inputs[0], type=kind, dimensions=without(places_of(node), added))


@BROADCASTING.rewrites("broadcast", benefit=3)
def broadcast_of_iota(build: Builder, node: Apply) -> Node | None:
    """broadcast(iota) -> iota"""
    inner, kind = node.inputs[0], tensor_type(node)
    if inner.opcode != "iota" or kind is None or tensor_type(inner) is None:
        return None
    return build.op("iota", type=kind, iota_dimension=places_of(node)[inner.attributes["iota_dimension"]])


@BROADCASTING.rewrites("iota", benefit=2)
def iota_of_one(build: Builder, node: Apply) -> Node | None:
    """iota() -> broadcast(0), where the counted dimension has one element at most"""
    kind = tensor_type(node)
    if kind is None or kind.dims[node.attributes["iota_dimension"]] > 1:
        return None
    return build.constant(0, kind)


@BROADCASTING_AS_XLA.rewrites("broadcast")
def broadcast_of_ones(build: Builder, node: Apply) -> Node | None:
    """broadcast(x) -> broadcast(reshape(x)), where the reshape takes away dimensions of size 1"""
    operand, kind = node.inputs[0], tensor_type(node)
    source = tensor_type(operand)
    if kind is None or source is None or 1 not in source.dims:
        return None
    ones = [place for place, size in enumerate(source.dims) if size == 1]
    smaller = build.op("reshape", operand, type=resized(source, without(source.dims, ones)))
    return build.op("broadcast", smaller, type=kind, dimensions=without(places_of(node), ones))


@BROADCASTING.rewrites(*POINTWISE)
def pointwise_of_broadcasts(build: Builder, node: Apply) -> Node | None:
    """f(broadcast(x), broadcast(y)) -> broadcast(f(x, y))

    The operands are broadcasts of scalars, or of arrays of one shape to the same places. What is computed in each
    place is the same as before, once instead of many times.
    """
    kind = tensor_type(node)
    if kind is None or not kind.rank:
        return None
    shape: Dimensions = ()
    places: Dimensions = ()
    for operand in node.inputs:
        source = tensor_type(operand.inputs[0]) if operand.opcode == "broadcast" else None
        wide = tensor_type(operand)
        if source is None or wide is None or wide.dims != kind.dims:
            return build.decline("an operand is no broadcast")
        if not source.rank:
            continue
        if shape and (shape, places) != (source.dims, places_of(operand)):
            return build.decline("the operands are broadcast in different ways")
        shape, places = source.dims, places_of(operand)
    if is_empty(kind) and not shape:
        return None
    return _computed_before(build, node, kind, shape, places)


def _computed_before(build: Builder, node: Apply, kind: TensorType, shape: Dimensions, places: Dimensions) -> Node:
    narrow = [_narrowed(build, operand, shape) for operand in node.inputs]
    made = build.like(node, *narrow, type=resized(kind, shape), sharding=None)
    return build.op("broadcast", made, type=kind, dimensions=places)


def _narrowed(build: Builder, operand: Node, shape: Dimensions) -> Node:
    scalar = scalar_of(operand)
    if scalar is None or not shape:
        return operand.inputs[0]
    assert isinstance(scalar.type, TensorType)
    return build.broadcast(scalar, resized(scalar.type, shape))


def _added_ones(before: Dimensions, after: Dimensions) -> list[int] | None:
    """The dimensions of size 1 that a reshape adds; None where it does anything else."""
    if kept_by_reshape(before, after) is None or len(after) <= len(before):
        return None
    added, place = [], 0
    for number, size in enumerate(after):
        if place < len(before) and size == before[place]:
            place += 1
        else:
            added.append(number)
    return added if place == len(before) else None
