"""Rules for transposes. All of them only place elements: every bit stays, NaN's included."""

from __future__ import annotations

import math

from hloom.ir import Apply, Node, SliceDimension, TensorType
from hloom.passes.rules.dimensions import (
    Dimensions,
    inverse,
    is_row_major,
    kept_by_reshape,
    places_of,
    stand_in,
)
from hloom.rewrite import Builder, Family, tensor_type, used_once

TRANSPOSING = Family("transposing")
TRANSPOSING_AS_XLA = Family("transposing-as-xla")
"""Forms that XLA prefers though they are not smaller."""

_MOST_CHUNKS = 5
"""Into so many slices at most a depth-to-space transformation is taken apart, as XLA does."""


@TRANSPOSING.rewrites("transpose", benefit=4)
def transpose_that_moves_nothing(build: Builder, node: Apply) -> Node | None:
    """transpose(x), dimensions={0,1,...} -> x"""
    order = _order(node)
    return stand_in(build, node, node.inputs[0]) if order == tuple(range(len(order))) else None


@TRANSPOSING.rewrites("transpose", benefit=3)
def transpose_of_transpose(build: Builder, node: Apply) -> Node | None:
    """transpose(transpose(x)) -> transpose(x), by both permutations"""
    inner = node.inputs[0]
    if inner.opcode != "transpose" or tensor_type(node) is None or tensor_type(inner.inputs[0]) is None:
        return None
    first = _order(inner)
    return build.op("transpose", inner.inputs[0], dimensions=tuple(first[place] for place in _order(node)))


@TRANSPOSING.rewrites("transpose", benefit=2)
def transpose_of_ones(build: Builder, node: Apply) -> Node | None:
    """transpose(x) -> reshape(x), where only dimensions of size 1 move past others"""
    kind, source = tensor_type(node), tensor_type(node.inputs[0])
    if kind is None or source is None:
        return None
    large = [place for place in _order(node) if source.dims[place] != 1]
    if len(large) == source.rank or large != sorted(large):
        return None
    return build.op("reshape", node.inputs[0], type=kind)


@TRANSPOSING.rewrites("transpose", benefit=2)
def transpose_of_broadcast(build: Builder, node: Apply) -> Node | None:
    """transpose(broadcast(x)) -> broadcast(x), where the dimensions of x keep their order"""
    inner, kind = node.inputs[0], tensor_type(node)
    if inner.opcode != "broadcast" or kind is None or tensor_type(inner.inputs[0]) is None:
        return None
    back = inverse(_order(node))
    places = tuple(back[place] for place in places_of(inner))
    if list(places) != sorted(places):
        return build.decline("the dimensions of what is broadcast change places")
    return build.op("broadcast", inner.inputs[0], type=kind, dimensions=places)


@TRANSPOSING.rewrites("transpose", benefit=2)
def transpose_of_iota(build: Builder, node: Apply) -> Node | None:
    """transpose(iota) -> iota"""
    inner, kind = node.inputs[0], tensor_type(node)
    if inner.opcode != "iota" or kind is None:
        return None
    return build.op("iota", type=kind, iota_dimension=_order(node).index(inner.attributes["iota_dimension"]))


@TRANSPOSING.rewrites("transpose")
def transpose_that_undoes_another(build: Builder, node: Apply) -> Node | None:
    """transpose(reshape(transpose(x))) -> reshape(x), where all dimensions but those of size 1 are where they were

    The reshape in between only adds or removes dimensions of size 1. A bitcast between row-major arrays is one too.
    """
    inner, kind = node.inputs[0], tensor_type(node)
    if inner.opcode not in ("reshape", "bitcast") or kind is None or inner.inputs[0].opcode != "transpose":
        return None
    first = inner.inputs[0]
    before, after = tensor_type(first), tensor_type(inner)
    if inner.opcode == "bitcast" and not (before and after and _is_reshape(before, after)):
        return None
    kept = kept_by_reshape(before.dims, after.dims) if before and after else None
    if kept is None or tensor_type(first.inputs[0]) is None:
        return None
    back = {later: _order(first)[earlier] for earlier, later in kept.items()}
    large = [back[place] for place in _order(node) if place in back]
    return build.op("reshape", first.inputs[0], type=kind) if large == sorted(large) else None


@TRANSPOSING_AS_XLA.rewrites("reshape", benefit=2)
def depth_to_space_of_slices(build: Builder, node: Apply) -> Node | None:
    """reshape(transpose(reshape(x))) -> reshape(concatenate(slices of x)), for few chunks of one dimension

        reshape(transpose(reshape(f32[8,4,6]) as f32[8,4,2,3], {0,2,1,3})) as f32[16,4,3]
          ->
        reshape(concatenate(x[:,:,0:3], x[:,:,3:6], dimensions={1})) as f32[16,4,3]

    The first reshape splits one dimension in two, the transpose moves only the major part, the second reshape joins it
    with the dimension in front of its place.
    """
    inner, kind = node.inputs[0], tensor_type(node)
    if kind is None or inner.opcode != "transpose" or not used_once(inner) or not isinstance(inner, Apply):
        return None
    split, source = tensor_type(inner.inputs[0]), None
    if inner.inputs[0].opcode == "reshape":
        source = tensor_type(inner.inputs[0].inputs[0])
    if split is None or source is None or split.rank != source.rank + 1 or 0 in source.dims:
        return None
    place = _split_dimension(source.dims, split.dims)
    if place is None:
        return build.decline("the inner reshape does not split one dimension in two")
    order = _order(inner)
    target = order.index(place)
    rest = [each for each in order if each != place]
    if target in (0, place, place + 1) or rest != sorted(rest) or split.dims[place] > _MOST_CHUNKS:
        return build.decline("the transpose does not move just the major part, in few chunks")
    chunks, size = split.dims[place], split.dims[place + 1]
    wanted = list(source.dims)
    wanted[place] //= chunks
    wanted[target - 1] *= chunks
    if tuple(wanted) != kind.dims or math.prod(kind.dims) != math.prod(source.dims):
        return build.decline("the outer reshape does not join the moved part with what stands before it")
    taken = inner.inputs[0].inputs[0]
    slices = [_slice_of(build, taken, source, place, number * size, size) for number in range(chunks)]
    return build.op("reshape", build.op("concatenate", *slices, dimensions=(target,)), type=kind)


def _is_reshape(before: TensorType, after: TensorType) -> bool:
    return before.dtype is after.dtype and is_row_major(before) and is_row_major(after)


def _order(node: Node) -> Dimensions:
    return tuple(node.attributes["dimensions"])


def _split_dimension(before: Dimensions, after: Dimensions) -> int | None:
    """The dimension that is split in two, the others staying as they are; None where there is none."""
    for place, size in enumerate(before):
        if size != after[place]:
            joined = (*after[:place], after[place] * after[place + 1], *after[place + 2 :])
            return place if joined == before else None
    return None


def _slice_of(build: Builder, node: Node, kind: TensorType, place: int, start: int, size: int) -> Node:
    parts = [SliceDimension(0, each) for each in kind.dims]
    parts[place] = SliceDimension(start, start + size)
    return build.op("slice", node, slice=tuple(parts))
