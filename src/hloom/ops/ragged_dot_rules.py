"""Ragged products: one dimension of the left operand falls into groups whose sizes are data.

    groups of rows        ([b,m,k], [g,b,k,n], [b,g]) -> [b,m,n]     m: whole    g: indexed
    groups of the sum     ([b,m,k], [b,k,n], [b,g]) -> [g,b,m,n]     k: whole    g: whole
    groups of the batch   ([b,m,k], [b,k,n], [g]) -> [b,m,n]         b: whole    g: nowhere else

The ragged dimension is whole, since where a group begins depends on the sizes of all groups before it. Each point is
multiplied in one group only: the operations are twice the points over the number of groups. Source:
xla/service/shape_inference.cc, InferRaggedDotOpShape.
"""

from __future__ import annotations

from hloom.ir import AxisMap, AxisMapBuilder, FactorKind, TensorType, Type, TypeProblem
from hloom.ops.dot_rules import DotNumbers, Integers, braces, check_dot, dot_factors, element_of, sides, single
from hloom.ops.shapes import array, result_from, sizes_agree


def infer_ragged_dot(
    lhs: Type,
    rhs: Type,
    group_sizes: Type,
    *,
    lhs_batch_dims: Integers,
    rhs_batch_dims: Integers,
    lhs_contracting_dims: Integers,
    rhs_contracting_dims: Integers,
    lhs_ragged_dims: Integers,
    rhs_group_dims: Integers,
    result: Type | None = None,
) -> TensorType:
    """The plain product's result without the group dimension, or with it in front where the sum is grouped."""
    numbers = DotNumbers(lhs_batch_dims, rhs_batch_dims, lhs_contracting_dims, rhs_contracting_dims)
    left, right = sides(lhs, rhs)
    sizes = array(group_sizes, "the group sizes")
    factors = _axes_of(left, right, sizes, numbers, lhs_ragged_dims, rhs_group_dims)
    return result_from(factors, (left, right, sizes), element_of(left, right, result))


def ragged_dot_axes(
    lhs: Type,
    rhs: Type,
    group_sizes: Type,
    *,
    lhs_batch_dims: Integers,
    rhs_batch_dims: Integers,
    lhs_contracting_dims: Integers,
    rhs_contracting_dims: Integers,
    lhs_ragged_dims: Integers,
    rhs_group_dims: Integers,
) -> AxisMap:
    """The map of whichever of the three modes the ragged dimension says."""
    numbers = DotNumbers(lhs_batch_dims, rhs_batch_dims, lhs_contracting_dims, rhs_contracting_dims)
    sizes = array(group_sizes, "the group sizes")
    return _axes_of(*sides(lhs, rhs), sizes, numbers, lhs_ragged_dims, rhs_group_dims)


def _axes_of(
    lhs: TensorType, rhs: TensorType, sizes: TensorType, numbers: DotNumbers, ragged: Integers, groups: Integers
) -> AxisMap:
    check_dot(lhs, rhs, numbers)
    if len(ragged) != 1 or not 0 <= ragged[0] < lhs.rank:
        raise TypeProblem(f"lhs_ragged_dims={braces(ragged)} must name one dimension of the left operand {lhs}")
    before = _before(lhs, numbers, ragged[0])
    _check_sizes(lhs, sizes, before)
    _check_groups(rhs, sizes, numbers, ragged[0], groups)

    build = AxisMapBuilder()
    left, right, plain = dot_factors(build, lhs, rhs, numbers, ragged[0], groups[0] if groups else None)
    build.operand(*single(left)).operand(*single(right))
    outer = single([left[dim] for dim in before]) if sizes.rank > 1 else []
    if ragged[0] in numbers.lhs_batch:
        return build.operand(*outer, ()).result(*single(plain)).finish()
    if ragged[0] in numbers.lhs_contracting:
        group = build.factor(sizes.dims[-1], FactorKind.NEED_REPLICATION)
        return build.operand(*outer, (group,)).result((group,), *single(plain)).finish()
    group = right[groups[0]]
    return build.operand(*outer, (group,)).result(*single([factor for factor in plain if factor != group])).finish()


def _before(lhs: TensorType, numbers: DotNumbers, ragged: int) -> list[int]:
    """The dimensions of the left operand that group sizes may differ along: those outside the ragged one."""
    batch = list(numbers.lhs_batch)
    if ragged in batch:
        return batch[: batch.index(ragged)]
    own = list(numbers.lhs_contracting)
    if ragged not in own:
        own = [dim for dim in range(lhs.rank) if dim not in batch and dim not in own]
    return batch + own[: own.index(ragged)]


def _check_sizes(lhs: TensorType, sizes: TensorType, before: list[int]) -> None:
    if sizes.rank == 1:
        return
    outer = tuple(lhs.dims[dim] for dim in before)
    if sizes.rank == 0 or sizes.dims[:-1] != outer:
        wanted = ",".join(map(str, (*outer, "groups")))
        raise TypeProblem(f"the group sizes must be [groups] or [{wanted}], but are {sizes}")


def _check_groups(rhs: TensorType, sizes: TensorType, numbers: DotNumbers, ragged: int, groups: Integers) -> None:
    for dim in groups:
        if not 0 <= dim < rhs.rank:
            raise TypeProblem(f"rhs_group_dims={braces(groups)} but the right operand {rhs} has rank {rhs.rank}")
        if dim in numbers.rhs_batch or dim in numbers.rhs_contracting:
            raise TypeProblem(f"rhs_group_dims={braces(groups)} names a batch or contracting dimension")
    if ragged in numbers.lhs_batch or ragged in numbers.lhs_contracting:
        if groups:
            raise TypeProblem(f"rhs_group_dims={braces(groups)}: a ragged batch or contracting dimension leaves none")
        return
    if len(groups) != 1:
        raise TypeProblem(f"rhs_group_dims={braces(groups)} must name the one dimension of the right operand's groups")
    if not sizes_agree(sizes.dims[-1], rhs.dims[groups[0]]):
        raise TypeProblem(f"{sizes} holds {sizes.dims[-1]} group sizes, but {rhs} has {rhs.dims[groups[0]]} groups")
