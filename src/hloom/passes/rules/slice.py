"""Rules on slice and reverse. Elements are only moved: every bit is kept, NaN payloads included.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleSlice, HandleReverse).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloom.ir import Apply, Node, SliceDimension, TensorType
from hloom.ops import OPS
from hloom.passes.rules.broadcast import POINTWISE
from hloom.passes.rules.dimensions import (
    Dimensions,
    broadcast_dims,
    is_empty,
    replace_if_compatible,
    same_array,
    scalar_of,
)
from hloom.rewrite import Builder, Family, operand_is, register_condition, register_value, tensor_type, used_once

SLICE = Family("slice", formerly="slicing")

_BINARY = tuple(opcode for opcode in POINTWISE if OPS[opcode].arity == (2, 2))

Parts = tuple[SliceDimension, ...]


SLICE.table("""
slice-of-everything [4]: slice(x) -> in-place(x, root) if same-array(root, x)  # all of x is taken
slice-of-slice [3]: slice(slice(x, slice=a), slice=b) -> slice(x, slice=within(a, b)) if static, x is static
    # the inner strides times the outer ones
""")


@SLICE.rewrites("slice", benefit=2, requires=operand_is(0, "pad"), because="computes the slice without the padding")
def slice_of_pad(build: Builder, node: Apply) -> Node | None:
    """slice(pad(x, value)) -> broadcast(value), x or slice(x)

    Where only padding is taken; where just the padding is taken away again; where no padding is taken.
    """
    inner, array_type = node.operands[0], tensor_type(node)
    if inner.opcode != "pad" or array_type is None or is_empty(array_type):
        return None
    source, wide = tensor_type(inner.operands[0]), tensor_type(inner)
    if source is None or wide is None or source.dtype is not array_type.dtype:
        return None
    starts: list[SliceDimension] = []
    undoes = True
    for part, padding, size, whole in zip(
        _parts(node), inner.attributes["padding"], source.dims, wide.dims, strict=True
    ):
        if part.limit <= padding.low or part.start >= whole - padding.high:
            return build.broadcast(inner.operands[1], array_type)
        taken = SliceDimension(part.start - padding.low, part.limit - padding.low, part.stride)
        inside = padding.interior == 0 and taken.start >= 0 and taken.limit <= size
        starts.append(taken if inside else SliceDimension(-1, -1))
        count = -(-(part.limit - part.start) // part.stride)
        undoes = undoes and taken.start == 0 and count == size and (size == 1 or part.stride == padding.interior + 1)
    if undoes:
        return replace_if_compatible(build, node, inner.operands[0])
    if any(part.start < 0 for part in starts):
        return build.decline("the slice takes elements and padding")
    return build.op("slice", inner.operands[0], slice=tuple(starts))


@SLICE.rewrites("slice", benefit=2, requires=operand_is(0, "broadcast"), because="picks the parts of some dimensions")
def slice_of_broadcast(build: Builder, node: Apply) -> Node | None:
    """slice(broadcast(x)) -> broadcast(slice(x))"""
    inner, array_type = node.operands[0], tensor_type(node)
    source = tensor_type(inner.operands[0]) if inner.opcode == "broadcast" else None
    if array_type is None or source is None:
        return None
    parts = tuple(_parts(node)[dim] for dim in broadcast_dims(inner))
    return build.op(
        "broadcast", _sliced(build, inner.operands[0], parts), type=array_type, dimensions=broadcast_dims(inner)
    )


@SLICE.rewrites("slice", benefit=2, requires=operand_is(0, "concatenate"), because="takes any number of operands")
def slice_of_concatenate(build: Builder, node: Apply) -> Node | None:
    """slice(concatenate(x, y, z)) -> slice(concatenate(x, y)), slice(x) or x

    Only the operands stay that something is taken from.
    """
    inner, array_type = node.operands[0], tensor_type(node)
    if inner.opcode != "concatenate" or array_type is None or is_empty(array_type) or tensor_type(inner) is None:
        return None
    (along,) = inner.attributes["dimensions"]
    part = _parts(node)[along]
    last = part.start + (array_type.dims[along] - 1) * part.stride
    first_used, end_used, front, passed = None, 0, 0, 0
    for number, operand in enumerate(inner.operands):
        piece = tensor_type(operand)
        if piece is None:
            return None
        before, passed = passed, passed + piece.dims[along]
        if first_used is None and passed > part.start:
            first_used, front = number, before
        if passed > last:
            end_used = number + 1
            break
    used = inner.operands[first_used:end_used]
    if len(used) == len(inner.operands):
        return build.decline("the slice takes from all operands")
    taken = used[0] if len(used) == 1 else build.op("concatenate", *used, dimensions=(along,))
    assert isinstance(taken.type, TensorType)
    limit = min(part.limit - front, taken.type.dims[along])
    parts = list(_parts(node))
    parts[along] = SliceDimension(part.start - front, limit, part.stride)
    if same_array(taken.type, array_type):
        return replace_if_compatible(build, node, taken)
    return build.op("slice", taken, slice=tuple(parts))


@SLICE.rewrites("slice", requires=operand_is(0, "reshape"), because="computes the rows before the reshape")
def slice_of_reshape(build: Builder, node: Apply) -> Node | None:
    """slice(reshape(x)) -> reshape(slice(x)), where neighbouring rows are taken and make whole rows of x"""
    inner, array_type = node.operands[0], tensor_type(node)
    source, wide = (tensor_type(inner.operands[0]), tensor_type(inner)) if inner.opcode == "reshape" else (None, None)
    if array_type is None or source is None or wide is None or is_empty(array_type) or not source.rank:
        return None
    parts = _parts(node)
    if not parts or any(part.stride != 1 for part in parts) or array_type.dims[1:] != wide.dims[1:]:
        return build.decline("it takes other than neighbouring rows")
    limits = _leading(source.dims, array_type.element_count)
    if limits is None:
        return build.decline("the rows are not whole rows of what is reshaped")
    start, within = divmod(parts[0].start * math.prod(array_type.dims[1:]), math.prod(source.dims[1:]))
    if within or (start and tuple(limits[1:]) != source.dims[1:]):
        return build.decline("the rows begin within a row of what is reshaped")
    taken = (SliceDimension(start, start + limits[0]), *[SliceDimension(0, limit) for limit in limits[1:]])
    return build.op("reshape", build.op("slice", inner.operands[0], slice=taken), type=array_type)


@SLICE.rewrites("slice", requires=operand_is(0, "reverse"), because="computes the slice from the other end")
def slice_of_reverse(build: Builder, node: Apply) -> Node | None:
    """slice(reverse(x)) -> reverse(slice(x))"""
    inner, array_type = node.operands[0], tensor_type(node)
    source = tensor_type(inner.operands[0]) if inner.opcode == "reverse" else None
    if array_type is None or source is None or is_empty(array_type):
        return None
    reversed_places = inner.attributes["dimensions"]
    parts = list(_parts(node))
    for dim in reversed_places:
        part = parts[dim]
        last = part.start + (array_type.dims[dim] - 1) * part.stride
        size = source.dims[dim]
        parts[dim] = SliceDimension(size - 1 - last, size - part.start, part.stride)
    return build.op("reverse", _sliced(build, inner.operands[0], tuple(parts)), dimensions=reversed_places)


SLICE.table("""
slice-of-iota [2]: slice(iota(iota_dimension=k), slice=s) -> iota(type=root, iota_dimension=k)
    if static, from-the-first(s, k)  # the counted dimension is taken from its beginning, one by one
""")


@SLICE.rewrites("slice", benefit=2, because="computes the slice")
def slice_with_idle_stride(build: Builder, node: Apply) -> Node | None:
    """slice(x), [a:b:s] -> slice(x), [a:a+1], where one element is taken"""
    array_type = tensor_type(node)
    if array_type is None:
        return None
    parts = [
        SliceDimension(part.start, part.start + 1) if part.stride != 1 and size == 1 else part
        for part, size in zip(_parts(node), array_type.dims, strict=True)
    ]
    return None if tuple(parts) == _parts(node) else build.like(node, node.operands[0], slice=tuple(parts))


@SLICE.rewrites("reverse", benefit=3, because="computes the dimensions that are left")
def reverse_of_ones(build: Builder, node: Apply) -> Node | None:
    """reverse(x) -> x, where the dimensions have size 1 at most; such dimensions are left out"""
    array_type = tensor_type(node)
    if array_type is None:
        return None
    dimensions = tuple(dim for dim in node.attributes["dimensions"] if array_type.dims[dim] > 1)
    if not dimensions or is_empty(array_type):
        return replace_if_compatible(build, node, node.operands[0])
    if dimensions == node.attributes["dimensions"]:
        return None
    return build.op("reverse", node.operands[0], dimensions=dimensions)


SLICE.table("""
reverse-of-reverse [2]: reverse(reverse(x, dimensions=a), dimensions=b) -> in-place(x, root) if same-members(a, b);
    reverse(reverse(x, dimensions=a), dimensions=b) -> reverse(x, dimensions=only-once(a, b)) where static
    # what is reversed twice is where it was
reverse-of-broadcast [2]: reverse(b:broadcast(x, dimensions=a), dimensions=d) -> in-place(b, root) if apart(a, d);
    reverse(b:broadcast(x, dimensions=a), dimensions=d) ->
    broadcast(reverse(x, dimensions=places(d, a)), type=root, dimensions=a)
    where static, x is static  # what is repeated is the same from both ends
reverse-of-iota [2]: reverse(i:iota(iota_dimension=k), dimensions=d) -> in-place(i, root) if outside(k, d)
    # the counted dimension is not reversed
""")


@SLICE.rewrites("reverse", requires=operand_is(0, *_BINARY), because="matches any elementwise op of two operands")
def reverse_of_pointwise(build: Builder, node: Apply) -> Node | None:
    """reverse(f(x, broadcast(c))) -> f(reverse(x), broadcast(c)), for an op of two operands and a scalar c"""
    inner = node.operands[0]
    if inner.opcode not in _BINARY or tensor_type(node) is None or not used_once(inner):
        return None
    assert isinstance(inner, Apply)
    scalars = [scalar_of(operand) is not None for operand in inner.operands]
    if not any(scalars):
        return build.decline("neither operand is a splat")
    which = 1 if scalars[0] else 0
    operands = list(inner.operands)
    operands[which] = build.op("reverse", operands[which], dimensions=node.attributes["dimensions"])
    return build.like(inner, *operands, sharding=None)


@SLICE.rewrites("reverse", requires=operand_is(0, "reshape"), because="computes where dimensions come from")
def reverse_of_reshape(build: Builder, node: Apply) -> Node | None:
    """reverse(reshape(x)) -> reshape(reverse(x)), where the reshape only adds dimensions of size 1"""
    inner, array_type = node.operands[0], tensor_type(node)
    source = tensor_type(inner.operands[0]) if inner.opcode == "reshape" else None
    if array_type is None or source is None or is_empty(array_type) or len(source.dims) >= len(array_type.dims):
        return None
    back = _source_places(source.dims, array_type.dims)
    if back is None:
        return None
    dimensions = tuple(back[dim] for dim in node.attributes["dimensions"] if dim in back and array_type.dims[dim] > 1)
    smaller = build.op("reverse", inner.operands[0], dimensions=dimensions) if dimensions else inner.operands[0]
    return build.op("reshape", smaller, type=array_type)


def _parts(node: Node) -> Parts:
    return node.attributes["slice"]


def _within(outer: SliceDimension, inner: SliceDimension) -> SliceDimension:
    """What a slice of a slice takes of the whole."""
    if outer.stride == inner.stride == 1:
        return SliceDimension(outer.start + inner.start, outer.start + inner.limit)
    count = -(-(inner.limit - inner.start) // inner.stride)
    start, stride = outer.start + inner.start * outer.stride, outer.stride * inner.stride
    if not count:
        return SliceDimension(min(start, outer.limit), min(start, outer.limit))
    return SliceDimension(start, start + (count - 1) * stride + 1, stride)


def _sliced(build: Builder, node: Node, parts: Parts) -> Node:
    """A slice, or the node itself where everything is taken."""
    assert isinstance(node.type, TensorType)
    if parts == tuple(SliceDimension(0, size) for size in node.type.dims):
        return node
    return build.op("slice", node, slice=parts)


def _leading(dims: Dimensions, count: int) -> Sequence[int] | None:
    """How much of each dimension the first so many elements fill; None where they leave a part of a row."""
    limits = list(dims)
    for dim in reversed(range(len(dims))):
        if count >= limits[dim]:
            if count % limits[dim]:
                return None
            count //= limits[dim]
        else:
            limits[dim], count = count, 1
    return limits if math.prod(limits) else None


def _source_places(before: Dimensions, after: Dimensions) -> dict[int, int] | None:
    """Where dimensions come from that a reshape keeps while it adds ones; None where it does anything else."""
    back, position = {}, 0
    for number, size in enumerate(after):
        if position < len(before) and size == before[position]:
            back[number] = position
            position += 1
        elif size != 1:
            return None
    return back if position == len(before) else None


def _parts_within(outer: Parts, inner: Parts) -> Parts:
    return tuple(_within(*pair) for pair in zip(outer, inner, strict=True))


register_condition("outside", lambda number, dimensions: number not in dimensions)
register_value("within", _parts_within)
register_condition("from-the-first", lambda parts, dim: parts[dim].start == 0 and parts[dim].stride == 1)
register_condition("same-members", lambda one, other: set(one) == set(other))
register_condition("apart", lambda one, other: set(one or ()).isdisjoint(other))
register_value("only-once", lambda one, other: tuple(sorted(set(one) ^ set(other))))
register_value("places", lambda wanted, dims: tuple(at for at, dim in enumerate(dims) if dim in wanted))
