"""Rules on transpose. Elements are only moved: every bit is kept, NaN payloads included.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleTranspose, HandleReshape).
"""

from __future__ import annotations

import math

from hloom.ir import Apply, Node, SliceDimension, TensorType
from hloom.passes.rules.dimensions import (
    Dimensions,
    composed,
    inverse,
    is_row_major,
    kept_by_reshape,
)
from hloom.rewrite import Builder, Family, operand_is, register_condition, tensor_type, used_once

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
transpose-of-ones [2]: transpose(x, dimensions=d) -> reshape(x, type=root) if static, x is static, moves-ones(d, x)
    # only dimensions of size 1 move past others
transpose-of-broadcast [2]: transpose(broadcast(x, dimensions=a), dimensions=b) ->
    broadcast(x, type=root, dimensions=composed(inverse(b), a)) if static, x is static, keeps-order(a, b)
    # the dimensions of x keep their order
transpose-of-iota [2]: transpose(iota(iota_dimension=i), dimensions=d) -> iota(type=root, iota_dimension=place(i, d))
    where static  # it counts along another dimension
transpose-that-undoes-another: transpose(m:f(t:transpose(x))) -> reshape(x, type=root)
    where static, x is static, undone(root, m, t) for f in reshape, bitcast
    # all dimensions but those of size 1 are where they were
""")


@TRANSPOSE_AS_XLA.rewrites(
    "reshape", benefit=2, requires=operand_is(0, "transpose"), because="makes a slice for each chunk"
)
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


def _moves_ones(order: Dimensions, node: Node) -> bool:
    """Whether a permutation moves dimensions of size 1 alone past others."""
    array_type = tensor_type(node)
    if array_type is None:
        return False
    large = [dim for dim in order if array_type.dims[dim] != 1]
    return len(large) < array_type.rank and large == sorted(large)


def _keeps_order(dims: Dimensions | None, order: Dimensions) -> bool:
    """Whether a transpose leaves the dimensions of what is broadcast in order."""
    moved = composed(inverse(order), dims)
    return list(moved) == sorted(moved)


def _is_undone(node: Node, view: Node, first: Node) -> bool:
    """Whether a transpose undoes another, with a view between that only adds or removes dimensions of size 1.

    A bitcast between row-major arrays is one too.
    """
    before, after = tensor_type(first), tensor_type(view)
    if before is None or after is None or (view.opcode == "bitcast" and not _is_reshape(before, after)):
        return False
    kept = kept_by_reshape(before.dims, after.dims)
    if kept is None:
        return False
    back = {later: _order(first)[earlier] for earlier, later in kept.items()}
    large = [back[dim] for dim in _order(node) if dim in back]
    return large == sorted(large)


register_condition("moves-ones", _moves_ones)
register_condition("keeps-order", _keeps_order)
register_condition("undone", _is_undone)
