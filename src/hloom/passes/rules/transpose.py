"""Rules on transpose. Elements are only moved: every bit is kept, NaN payloads included.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleTranspose, HandleReshape).
"""

from __future__ import annotations

import math

from hloom.ir import Apply, Node, SliceDimension, TensorType
from hloom.passes.rules.dimensions import (
    Dimensions,
    broadcast_dims,
    inverse,
    is_row_major,
    kept_by_reshape,
)
from hloom.rewrite import Builder, Family, operand_is, tensor_type, used_once

TRANSPOSE = Family("transpose", formerly="transposing")
TRANSPOSE_AS_XLA = Family("transpose-as-xla", formerly="transposing-as-xla")
"""Forms that XLA prefers though they are not smaller."""

_MAX_CHUNKS = 5
"""Into so many slices at most a depth-to-space transformation is taken apart, as XLA does."""


TRANSPOSE.table("""
transpose-that-moves-nothing [4]: transpose(x, dimensions=d) -> in-place(x, root) if rising(d)
    # no dimension changes its place
transpose-of-transpose [3]: transpose(transpose(x, dimensions=a), dimensions=b) ->
    transpose(x, dimensions=composed(a, b)) where static, x is static  # by both permutations
""")


@TRANSPOSE.rewrites("transpose", benefit=2)
def transpose_of_ones(build: Builder, node: Apply) -> Node | None:
    """transpose(x) -> reshape(x), where only dimensions of size 1 move past others"""
    array_type, source = tensor_type(node), tensor_type(node.operands[0])
    if array_type is None or source is None:
        return None
    large = [dim for dim in _order(node) if source.dims[dim] != 1]
    if len(large) == source.rank or large != sorted(large):
        return None
    return build.op("reshape", node.operands[0], type=array_type)


@TRANSPOSE.rewrites("transpose", benefit=2, requires=operand_is(0, "broadcast"))
def transpose_of_broadcast(build: Builder, node: Apply) -> Node | None:
    """transpose(broadcast(x)) -> broadcast(x), where the dimensions of x keep their order"""
    inner, array_type = node.operands[0], tensor_type(node)
    if inner.opcode != "broadcast" or array_type is None or tensor_type(inner.operands[0]) is None:
        return None
    back = inverse(_order(node))
    dimensions = tuple(back[dim] for dim in broadcast_dims(inner))
    if list(dimensions) != sorted(dimensions):
        return build.decline("the dimensions of what is broadcast change places")
    return build.op("broadcast", inner.operands[0], type=array_type, dimensions=dimensions)


TRANSPOSE.table("""
transpose-of-iota [2]: transpose(iota(iota_dimension=i), dimensions=d) -> iota(type=root, iota_dimension=place(i, d))
    where static  # it counts along another dimension
""")


@TRANSPOSE.rewrites("transpose", requires=operand_is(0, "reshape", "bitcast"))
def transpose_that_undoes_another(build: Builder, node: Apply) -> Node | None:
    """transpose(reshape(transpose(x))) -> reshape(x), where all dimensions but those of size 1 are where they were

    The reshape in between only adds or removes dimensions of size 1. A bitcast between row-major arrays is one too.
    """
    inner, array_type = node.operands[0], tensor_type(node)
    if inner.opcode not in ("reshape", "bitcast") or array_type is None or inner.operands[0].opcode != "transpose":
        return None
    first = inner.operands[0]
    before, after = tensor_type(first), tensor_type(inner)
    if inner.opcode == "bitcast" and not (before and after and _is_reshape(before, after)):
        return None
    kept = kept_by_reshape(before.dims, after.dims) if before and after else None
    if kept is None or tensor_type(first.operands[0]) is None:
        return None
    back = {later: _order(first)[earlier] for earlier, later in kept.items()}
    large = [back[dim] for dim in _order(node) if dim in back]
    return build.op("reshape", first.operands[0], type=array_type) if large == sorted(large) else None


@TRANSPOSE_AS_XLA.rewrites("reshape", benefit=2, requires=operand_is(0, "transpose"))
def depth_to_space_of_slices(build: Builder, node: Apply) -> Node | None:
    """reshape(transpose(reshape(x))) -> reshape(concatenate(slices of x)), for few chunks of one dimension

        reshape(transpose(reshape(f32[8,4,6]) as f32[8,4,2,3], {0,2,1,3})) as f32[16,4,3]
          ->
        reshape(concatenate(x[:,:,0:3], x[:,:,3:6], dimensions={1})) as f32[16,4,3]

    The first reshape splits one dimension in two, the transpose moves only the major part, the second reshape joins it
    with the dimension in front of its place.
    """
    inner, array_type = node.operands[0], tensor_type(node)
    if array_type is None or inner.opcode != "transpose" or not used_once(inner) or not isinstance(inner, Apply):
        return None
    split, source = tensor_type(inner.operands[0]), None
    if inner.operands[0].opcode == "reshape":
        source = tensor_type(inner.operands[0].operands[0])
    if split is None or source is None or split.rank != source.rank + 1 or 0 in source.dims:
        return None
    split_dim = _split_dimension(source.dims, split.dims)
    if split_dim is None:
        return build.decline("the inner reshape does not split one dimension in two")
    order = _order(inner)
    target = order.index(split_dim)
    rest = [dim for dim in order if dim != split_dim]
    if target in (0, split_dim, split_dim + 1) or rest != sorted(rest) or split.dims[split_dim] > _MAX_CHUNKS:
        return build.decline("the transpose does not move just the major part, in few chunks")
    chunks, size = split.dims[split_dim], split.dims[split_dim + 1]
    wanted = list(source.dims)
    wanted[split_dim] //= chunks
    wanted[target - 1] *= chunks
    if tuple(wanted) != array_type.dims or math.prod(array_type.dims) != math.prod(source.dims):
        return build.decline("the outer reshape does not join the moved part with what stands before it")
    taken = inner.operands[0].operands[0]
    slices = [_slice_of(build, taken, source, split_dim, number * size, size) for number in range(chunks)]
    return build.op("reshape", build.op("concatenate", *slices, dimensions=(target,)), type=array_type)


def _is_reshape(before: TensorType, after: TensorType) -> bool:
    return before.dtype is after.dtype and is_row_major(before) and is_row_major(after)


def _order(node: Node) -> Dimensions:
    return tuple(node.attributes["dimensions"])


def _split_dimension(before: Dimensions, after: Dimensions) -> int | None:
    """The dimension that is split in two, the others staying as they are; None where there is none."""
    for dim, size in enumerate(before):
        if size != after[dim]:
            joined = (*after[:dim], after[dim] * after[dim + 1], *after[dim + 2 :])
            return dim if joined == before else None
    return None


def _slice_of(build: Builder, node: Node, array_type: TensorType, dim: int, start: int, size: int) -> Node:
    parts = [SliceDimension(0, extent) for extent in array_type.dims]
    parts[dim] = SliceDimension(start, start + size)
    return build.op("slice", node, slice=tuple(parts))
