"""Rules for slices whose place is computed. Every bit stays, NaN's included.

A start is moved to where the slice fits: `place` below is the start after that.
"""

from __future__ import annotations

from collections.abc import Sequence

from hloom.ir import Apply, Node, SliceDimension
from hloom.ir.number_conversion import integer_range
from hloom.passes.rules.dimensions import inverse, is_empty, kept_by_reshape, places_of, same_array, scalar_of, stand_in
from hloom.passes.rules.starts import (
    clamped,
    constant_places,
    dynamic_slice,
    fits,
    merged_starts,
    number,
    same_starts,
    starts_of,
)
from hloom.rewrite import Builder, Family, array_value, scalar_integer, tensor_type

INDEXING = Family("indexing")
INDEXING_AS_XLA = Family("indexing-as-xla")
"""Forms that XLA prefers though they are not smaller."""


@INDEXING.rewrites("dynamic-slice", benefit=4)
def dynamic_slice_of_everything(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(x, i) -> x, where all of x is taken: it fits only at the beginning"""
    return stand_in(build, node, node.inputs[0]) if same_array(node.type, node.inputs[0].type) else None


@INDEXING.rewrites("dynamic-slice", "dynamic-update-slice", benefit=3)
def index_of_whole_dimension(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(x, i) -> dynamic-slice(x, 0), where a whole dimension is taken; so too for updates"""
    starts, whole = starts_of(node), tensor_type(node.inputs[0])
    part = tensor_type(node if node.opcode == "dynamic-slice" else node.inputs[1])
    if starts is None or whole is None or part is None:
        return None
    idle = [
        size == taken and not (start.opcode == "constant" and scalar_integer(start) == 0)
        for start, size, taken in zip(starts, whole.dims, part.dims, strict=True)
    ]
    if not any(idle):
        return None
    zero = number(build, 0, starts[0])
    others = node.inputs[: len(node.inputs) - len(starts)]
    return build.like(node, *others, *(zero if each else start for each, start in zip(idle, starts, strict=True)))


@INDEXING.rewrites("dynamic-slice", benefit=2)
def dynamic_slice_of_broadcast(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(broadcast(x), i, j) -> broadcast(dynamic-slice(x, j))"""
    inner, kind, starts = node.inputs[0], tensor_type(node), starts_of(node)
    if inner.opcode != "broadcast" or kind is None or starts is None or tensor_type(inner.inputs[0]) is None:
        return None
    places = places_of(inner)
    smaller = inner.inputs[0]
    if places:
        sizes = [kind.dims[place] for place in places]
        smaller = dynamic_slice(build, smaller, [starts[place] for place in places], sizes)
    return build.op("broadcast", smaller, type=kind, dimensions=places)


@INDEXING.rewrites("dynamic-slice")
def dynamic_slice_of_reshape(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(reshape(x), i) -> reshape(dynamic-slice(x, i)), where the reshape only adds and removes ones"""
    inner, kind, starts = node.inputs[0], tensor_type(node), starts_of(node)
    source = tensor_type(inner.inputs[0]) if inner.opcode == "reshape" else None
    made = tensor_type(inner)
    if kind is None or starts is None or source is None or made is None or is_empty(kind):
        return None
    kept = kept_by_reshape(source.dims, made.dims)
    if kept is None:
        return None
    zero = number(build, 0, starts[0]) if starts else None
    if not source.rank or zero is None:
        return None
    moved = [starts[kept[place]] if place in kept else zero for place in range(source.rank)]
    sizes = [kind.dims[kept[place]] if place in kept else 1 for place in range(source.rank)]
    return build.op("reshape", dynamic_slice(build, inner.inputs[0], moved, sizes), type=kind)


@INDEXING.rewrites("dynamic-slice")
def dynamic_slice_of_transpose(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(transpose(x), i, j) -> transpose(dynamic-slice(x, j, i))"""
    inner, kind, starts = node.inputs[0], tensor_type(node), starts_of(node)
    if inner.opcode != "transpose" or kind is None or starts is None or tensor_type(inner) is None:
        return None
    order = inner.attributes["dimensions"]
    back = inverse(order)
    smaller = dynamic_slice(
        build, inner.inputs[0], [starts[place] for place in back], [kind.dims[place] for place in back]
    )
    return build.op("transpose", smaller, dimensions=order)


@INDEXING.rewrites("dynamic-slice", benefit=2)
def dynamic_slice_at_constant(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(x, 2) -> slice(x), [2:...]"""
    kind, source = tensor_type(node), tensor_type(node.inputs[0])
    places = constant_places(node, source, kind)
    if kind is None or places is None:
        return None
    parts = [SliceDimension(place, place + size) for place, size in zip(places, kind.dims, strict=True)]
    return build.op("slice", node.inputs[0], slice=tuple(parts))


@INDEXING.rewrites("dynamic-slice", benefit=2)
def dynamic_slice_of_iota(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(iota, i) -> broadcast(clamp(0, i, last)), where one number is taken; iota, where all are

    Also of an iota times a scalar.
    """
    inner, kind, starts = node.inputs[0], tensor_type(node), starts_of(node)
    factor = scalar_of(inner.inputs[1]) if inner.opcode == "multiply" else None
    iota = inner if factor is None else inner.inputs[0]
    source = tensor_type(iota)
    if iota.opcode != "iota" or kind is None or source is None or starts is None or is_empty(kind):
        return None
    counted = iota.attributes["iota_dimension"]
    if kind.dims[counted] == source.dims[counted] and factor is None:
        return build.op("iota", type=kind, iota_dimension=counted)
    index = tensor_type(starts[counted])
    last = source.dims[counted] - 1
    if kind.dims[counted] != 1 or index is None or not kind.dtype.is_integer or integer_range(kind.dtype)[1] < last:
        return build.decline("several numbers are taken, or the type does not hold them")
    number: Node = build.convert(clamped(build, starts[counted], last), kind.dtype)
    if factor is not None:
        number = build.op("multiply", number, factor)
    return build.broadcast(number, kind)


@INDEXING_AS_XLA.rewrites("dynamic-slice", benefit=2)
def dynamic_slice_of_progression(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice({0, 3, 6, 9}, i) -> reshape(clamp(0, i, 3) * 3), of a constant and for one number"""
    kind, starts, values = tensor_type(node), starts_of(node), array_value(node.inputs[0])
    if kind is None or starts is None or values is None or kind.dims != (1,) or not kind.dtype.is_integer:
        return None
    count = values.shape[0]
    step = int(values[1]) if count > 1 else 0
    if not step or [int(value) for value in values] != [number * step for number in range(count)]:
        return build.decline("the numbers do not rise evenly from 0")
    if integer_range(kind.dtype)[1] < count:
        return build.decline("the type does not hold the number of the last")
    taken: Node = build.convert(clamped(build, starts[0], count - 1), kind.dtype)
    if step != 1:
        taken = build.op("multiply", taken, build.constant(step, kind.dtype))
    return build.op("reshape", taken, type=kind)


@INDEXING.rewrites("dynamic-slice")
def dynamic_slice_of_slice(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(slice(x), i) -> dynamic-slice(x, i'), where each dimension is cut by one of them only"""
    inner, kind, starts = node.inputs[0], tensor_type(node), starts_of(node)
    source = tensor_type(inner.inputs[0]) if inner.opcode == "slice" else None
    if kind is None or starts is None or source is None:
        return None
    moved: list[Node] = []
    for part, start, size, taken in zip(inner.attributes["slice"], starts, source.dims, kind.dims, strict=True):
        if part == SliceDimension(0, size):
            moved.append(start)
        elif part.stride == 1 and part.limit - part.start == taken and fits(part.start, start):
            moved.append(number(build, part.start, start))
        else:
            return build.decline("a dimension is cut twice")
    return dynamic_slice(build, inner.inputs[0], moved, kind.dims)


@INDEXING.rewrites("dynamic-slice")
def dynamic_slice_of_dynamic_slice(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(dynamic-slice(x, i), j) -> dynamic-slice(x, k), where k is i, j or a constant in each dimension"""
    moved = _merged(build, node)
    known = node.inputs + node.inputs[0].inputs
    if moved is None or not all(each in known or each.opcode == "constant" for each in moved):
        return None
    return dynamic_slice(build, node.inputs[0].inputs[0], moved, node.attributes["dynamic_slice_sizes"])


@INDEXING_AS_XLA.rewrites("dynamic-slice")
def dynamic_slice_of_dynamic_slice_by_sum(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(dynamic-slice(x, i), j) -> dynamic-slice(x, place(j) + place(i))"""
    moved = _merged(build, node)
    if moved is None:
        return None
    return dynamic_slice(build, node.inputs[0].inputs[0], moved, node.attributes["dynamic_slice_sizes"])


@INDEXING.rewrites("dynamic-slice", benefit=2)
def dynamic_slice_of_update(build: Builder, node: Apply) -> Node | None:
    """dynamic-slice(dynamic-update-slice(x, y, i), i) -> y, of the size of y"""
    inner, starts = node.inputs[0], starts_of(node)
    if inner.opcode != "dynamic-update-slice" or starts is None or not same_array(node.type, inner.inputs[1].type):
        return None
    if not same_starts(starts, starts_of(inner)):
        return build.decline("the places are not known to be the same")
    return stand_in(build, node, inner.inputs[1])


def _merged(build: Builder, node: Node) -> Sequence[Node] | None:
    """Where a slice of a slice begins in the whole."""
    inner, starts = node.inputs[0], starts_of(node)
    if inner.opcode != "dynamic-slice" or starts is None:
        return None
    first = starts_of(inner)
    whole, middle, small = (tensor_type(each) for each in (inner.inputs[0], inner, node))
    if first is None or whole is None or middle is None or small is None:
        return None
    return merged_starts(build, starts, first, small.dims, middle.dims, whole.dims)
