"""Rules for slices and reversals. All of them only place elements: every bit stays, NaN's included."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hloom.ir import Apply, Node, SliceDimension, TensorType
from hloom.passes.rules.dimensions import Dimensions, is_empty, places_of, same_array, scalar_of, stand_in
from hloom.rewrite import Builder, Family, tensor_type, used_once

SLICING = Family("slicing")

_NAMES = (
    "add maximum minimum multiply divide power remainder subtract atan2 and or xor shift-left shift-right-arithmetic "
    "shift-right-logical"
)
_BINARY = frozenset(_NAMES.split())

Parts = tuple[SliceDimension, ...]


@SLICING.rewrites("slice", benefit=4)
def slice_of_everything(build: Builder, node: Apply) -> Node | None:
    """slice(x) -> x, where all of x is taken"""
    return stand_in(build, node, node.inputs[0]) if same_array(node.type, node.inputs[0].type) else None


@SLICING.rewrites("slice", benefit=3)
def slice_of_slice(build: Builder, node: Apply) -> Node | None:
    """slice(slice(x)) -> slice(x)"""
    inner = node.inputs[0]
    if inner.opcode != "slice" or tensor_type(node) is None or tensor_type(inner.inputs[0]) is None:
        return None
    parts = [_within(*pair) for pair in zip(_parts(inner), _parts(node), strict=True)]
    return build.op("slice", inner.inputs[0], slice=tuple(parts))


@SLICING.rewrites("slice", benefit=2)
def slice_of_pad(build: Builder, node: Apply) -> Node | None:
    """slice(pad(x, value)) -> broadcast(value), x or slice(x)

    Where only padding is taken; where just the padding is taken away again; where no padding is taken.
    """
    inner, kind = node.inputs[0], tensor_type(node)
    if inner.opcode != "pad" or kind is None or is_empty(kind):
        return None
    source, wide = tensor_type(inner.inputs[0]), tensor_type(inner)
    if source is None or wide is None or source.dtype is not kind.dtype:
        return None
    starts: list[SliceDimension] = []
    undoes = True
    for part, padding, size, whole in zip(
        _parts(node), inner.attributes["padding"], source.dims, wide.dims, strict=True
    ):
        if part.limit <= padding.low or part.start >= whole - padding.high:
            return build.broadcast(inner.inputs[1], kind)
        taken = SliceDimension(part.start - padding.low, part.limit - padding.low, part.stride)
        inside = padding.interior == 0 and taken.start >= 0 and taken.limit <= size
        starts.append(taken if inside else SliceDimension(-1, -1))
        count = -(-(part.limit - part.start) // part.stride)
        undoes = undoes and taken.start == 0 and count == size and (size == 1 or part.stride == padding.interior + 1)
    if undoes:
        return stand_in(build, node, inner.inputs[0])
    if any(part.start < 0 for part in starts):
        return build.decline("the slice takes elements and padding")
    return build.op("slice", inner.inputs[0], slice=tuple(starts))


@SLICING.rewrites("slice", benefit=2)
def slice_of_broadcast(build: Builder, node: Apply) -> Node | None:
    """slice(broadcast(x)) -> broadcast(slice(x))"""
    inner, kind = node.inputs[0], tensor_type(node)
    source = tensor_type(inner.inputs[0]) if inner.opcode == "broadcast" else None
    if kind is None or source is None:
        return None
    parts = tuple(_parts(node)[place] for place in places_of(inner))
    return build.op("broadcast", _sliced(build, inner.inputs[0], parts), type=kind, dimensions=places_of(inner))


@SLICING.rewrites("slice", benefit=2)
def slice_of_concatenate(build: Builder, node: Apply) -> Node | None:
    """slice(concatenate(x, y, z)) -> slice(concatenate(x, y)), slice(x) or x

    Only the operands stay that something is taken from.
    """
    inner, kind = node.inputs[0], tensor_type(node)
    if inner.opcode != "concatenate" or kind is None or is_empty(kind) or tensor_type(inner) is None:
        return None
    (along,) = inner.attributes["dimensions"]
    part = _parts(node)[along]
    last = part.start + (kind.dims[along] - 1) * part.stride
    first_used, end_used, front, passed = None, 0, 0, 0
    for number, operand in enumerate(inner.inputs):
        piece = tensor_type(operand)
        if piece is None:
            return None
        before, passed = passed, passed + piece.dims[along]
        if first_used is None and passed > part.start:
            first_used, front = number, before
        if passed > last:
            end_used = number + 1
            break
    used = inner.inputs[first_used:end_used]
    if len(used) == len(inner.inputs):
        return build.decline("the slice takes from all operands")
    taken = used[0] if len(used) == 1 else build.op("concatenate", *used, dimensions=(along,))
    assert isinstance(taken.type, TensorType)
    limit = min(part.limit - front, taken.type.dims[along])
    parts = list(_parts(node))
    parts[along] = SliceDimension(part.start - front, limit, part.stride)
    if same_array(taken.type, kind):
        return stand_in(build, node, taken)
    return build.op("slice", taken, slice=tuple(parts))


@SLICING.rewrites("slice")
def slice_of_reshape(build: Builder, node: Apply) -> Node | None:
    """slice(reshape(x)) -> reshape(slice(x)), where neighbouring rows are taken and make whole rows of x"""
    inner, kind = node.inputs[0], tensor_type(node)
    source, wide = (tensor_type(inner.inputs[0]), tensor_type(inner)) if inner.opcode == "reshape" else (None, None)
    if kind is None or source is None or wide is None or is_empty(kind) or not source.rank:
        return None
    parts = _parts(node)
    if not parts or any(part.stride != 1 for part in parts) or kind.dims[1:] != wide.dims[1:]:
        return build.decline("it takes other than neighbouring rows")
    limits = _leading(source.dims, kind.element_count)
    if limits is None:
        return build.decline("the rows are no whole rows of what is reshaped")
    start, within = divmod(parts[0].start * math.prod(kind.dims[1:]), math.prod(source.dims[1:]))
    if within or (start and tuple(limits[1:]) != source.dims[1:]):
        return build.decline("the rows begin within a row of what is reshaped")
    taken = (SliceDimension(start, start + limits[0]), *[SliceDimension(0, limit) for limit in limits[1:]])
    return build.op("reshape", build.op("slice", inner.inputs[0], slice=taken), type=kind)


@SLICING.rewrites("slice")
def slice_of_reverse(build: Builder, node: Apply) -> Node | None:
    """slice(reverse(x)) -> reverse(slice(x))"""
    inner, kind = node.inputs[0], tensor_type(node)
    source = tensor_type(inner.inputs[0]) if inner.opcode == "reverse" else None
    if kind is None or source is None or is_empty(kind):
        return None
    reversed_places = inner.attributes["dimensions"]
    parts = list(_parts(node))
    for place in reversed_places:
        part = parts[place]
        last = part.start + (kind.dims[place] - 1) * part.stride
        size = source.dims[place]
        parts[place] = SliceDimension(size - 1 - last, size - part.start, part.stride)
    return build.op("reverse", _sliced(build, inner.inputs[0], tuple(parts)), dimensions=reversed_places)


@SLICING.rewrites("slice", benefit=2)
def slice_of_iota(build: Builder, node: Apply) -> Node | None:
    """slice(iota) -> iota, where the counted dimension is taken from its beginning, one by one"""
    inner, kind = node.inputs[0], tensor_type(node)
    if inner.opcode != "iota" or kind is None:
        return None
    part = _parts(node)[inner.attributes["iota_dimension"]]
    if part.start or part.stride != 1:
        return None
    return build.op("iota", type=kind, iota_dimension=inner.attributes["iota_dimension"])


@SLICING.rewrites("slice", benefit=2)
def slice_with_idle_stride(build: Builder, node: Apply) -> Node | None:
    """slice(x), [a:b:s] -> slice(x), [a:a+1], where one element is taken"""
    kind = tensor_type(node)
    if kind is None:
        return None
    parts = [
        SliceDimension(part.start, part.start + 1) if part.stride != 1 and size == 1 else part
        for part, size in zip(_parts(node), kind.dims, strict=True)
    ]
    return None if tuple(parts) == _parts(node) else build.like(node, node.inputs[0], slice=tuple(parts))


@SLICING.rewrites("reverse", benefit=3)
def reverse_of_ones(build: Builder, node: Apply) -> Node | None:
    """reverse(x) -> x, where the dimensions have size 1 at most; such dimensions are left out"""
    kind = tensor_type(node)
    if kind is None:
        return None
    places = tuple(place for place in node.attributes["dimensions"] if kind.dims[place] > 1)
    if not places or is_empty(kind):
        return stand_in(build, node, node.inputs[0])
    if places == node.attributes["dimensions"]:
        return None
    return build.op("reverse", node.inputs[0], dimensions=places)


@SLICING.rewrites("reverse", benefit=2)
def reverse_of_reverse(build: Builder, node: Apply) -> Node | None:
    """reverse(reverse(x)) -> reverse(x), of the dimensions that only one of them reverses"""
    inner = node.inputs[0]
    if inner.opcode != "reverse" or tensor_type(node) is None:
        return None
    places = tuple(sorted(set(node.attributes["dimensions"]) ^ set(inner.attributes["dimensions"])))
    if not places:
        return stand_in(build, node, inner.inputs[0])
    return build.op("reverse", inner.inputs[0], dimensions=places)


@SLICING.rewrites("reverse", benefit=2)
def reverse_of_broadcast(build: Builder, node: Apply) -> Node | None:
    """reverse(broadcast(x)) -> broadcast(reverse(x)), of the dimensions of x that are reversed"""
    inner, kind = node.inputs[0], tensor_type(node)
    if inner.opcode != "broadcast" or kind is None or tensor_type(inner.inputs[0]) is None:
        return None
    reversed_places = node.attributes["dimensions"]
    places = [number for number, place in enumerate(places_of(inner)) if place in reversed_places]
    if not places:
        return stand_in(build, node, inner)
    smaller = build.op("reverse", inner.inputs[0], dimensions=tuple(places))
    return build.op("broadcast", smaller, type=kind, dimensions=places_of(inner))


@SLICING.rewrites("reverse", benefit=2)
def reverse_of_iota(build: Builder, node: Apply) -> Node | None:
    """reverse(iota) -> iota, where the counted dimension is not reversed"""
    inner = node.inputs[0]
    if inner.opcode != "iota" or inner.attributes["iota_dimension"] in node.attributes["dimensions"]:
        return None
    return stand_in(build, node, inner)


@SLICING.rewrites("reverse")
def reverse_of_pointwise(build: Builder, node: Apply) -> Node | None:
    """reverse(f(x, broadcast(c))) -> f(reverse(x), broadcast(c)), for an op of two operands and a scalar c"""
    inner = node.inputs[0]
    if inner.opcode not in _BINARY or tensor_type(node) is None or not used_once(inner):
        return None
    assert isinstance(inner, Apply)
    scalars = [scalar_of(operand) is not None for operand in inner.inputs]
    if not any(scalars):
        return build.decline("neither operand is one number in every place")
    which = 1 if scalars[0] else 0
    operands = list(inner.inputs)
    operands[which] = build.op("reverse", operands[which], dimensions=node.attributes["dimensions"])
    return build.like(inner, *operands, sharding=None)


@SLICING.rewrites("reverse")
def reverse_of_reshape(build: Builder, node: Apply) -> Node | None:
    """reverse(reshape(x)) -> reshape(reverse(x)), where the reshape only adds dimensions of size 1"""
    inner, kind = node.inputs[0], tensor_type(node)
    source = tensor_type(inner.inputs[0]) if inner.opcode == "reshape" else None
    if kind is None or source is None or is_empty(kind) or len(source.dims) >= len(kind.dims):
        return None
    back = _source_places(source.dims, kind.dims)
    if back is None:
        return None
    places = tuple(back[place] for place in node.attributes["dimensions"] if place in back and kind.dims[place] > 1)
    smaller = build.op("reverse", inner.inputs[0], dimensions=places) if places else inner.inputs[0]
    return build.op("reshape", smaller, type=kind)


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
    for place in reversed(range(len(dims))):
        if count >= limits[place]:
            if count % limits[place]:
                return None
            count //= limits[place]
        else:
            limits[place], count = count, 1
    return limits if math.prod(limits) else None


def _source_places(before: Dimensions, after: Dimensions) -> dict[int, int] | None:
    """Where dimensions come from that a reshape keeps while it adds ones; None where it does anything else."""
    back, place = {}, 0
    for number, size in enumerate(after):
        if place < len(before) and size == before[place]:
            back[number] = place
            place += 1
        elif size != 1:
            return None
    return back if place == len(before) else None
