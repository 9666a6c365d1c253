"""Type inference and axis maps of plain, scaled and ragged dots.

    dot, batch and contracting dimensions of both sides
    ([b,i,k], [b,k,j]) -> [b,i,j]          b, i, j: parallel    k: contracted by add

Twice the points of the map are the floating-point operations. Source: xla/service/shape_inference.cc, InferDotOpShape.

Of scaled operands every block shares one scale:

    ([i,(kq)], [(kq),j], [i,k], [k,j]) -> [i,j]        k blocks of q elements, contracted by add

The operands are the left and right side, then the left and right scale. XLA's parser, when the result's type is left
out, takes the third operand for the right side, against its own order elsewhere; we do not. A scale's dimension is the
major factors of its operand's dimension, none where it is 1, and a whole factor of its own where the two do not divide.

In a ragged product one dimension of the left operand falls into groups whose sizes are data (InferRaggedDotOpShape):

    groups of rows        ([b,m,k], [g,b,k,n], [b,g]) -> [b,m,n]     m: whole    g: indexed
    groups of the sum     ([b,m,k], [b,k,n], [b,g]) -> [g,b,m,n]     k: whole    g: whole
    groups of the batch   ([b,m,k], [b,k,n], [g]) -> [b,m,n]         b: whole    g: nowhere else

The ragged dimension is whole, since where a group begins depends on the sizes of all groups before it. Each point is
multiplied in one group only: the operations are twice the points over the number of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from hloom.ir import AxisMap, AxisMapBuilder, DType, DTypeKind, Factor, FactorKind, TensorType, Type, TypeProblem
from hloom.ops.shapes import array, result_from, sizes_agree, wider

Integers = tuple[int, ...]


class DotNumbers(NamedTuple):
    """Which dimensions of both sides a product pairs."""

    lhs_batch: Integers
    rhs_batch: Integers
    lhs_contracting: Integers
    rhs_contracting: Integers


class Sides(NamedTuple):
    """The factors of the left and right operand's dimensions, and those of the plain product's result."""

    left: list[int]
    right: list[int]
    result: list[int]


def infer_dot(
    lhs: Type,
    rhs: Type,
    *,
    lhs_batch_dims: Integers,
    rhs_batch_dims: Integers,
    lhs_contracting_dims: Integers,
    rhs_contracting_dims: Integers,
    result: Type | None = None,
) -> TensorType:
    """Batch dimensions, the left operand's others, the right operand's others; a written element type stays."""
    numbers = DotNumbers(lhs_batch_dims, rhs_batch_dims, lhs_contracting_dims, rhs_contracting_dims)
    left, right = sides(lhs, rhs)
    return result_from(axes_of(left, right, numbers), (left, right), element_of(left, right, result))


def dot_axes(
    lhs: Type,
    rhs: Type,
    *,
    lhs_batch_dims: Integers,
    rhs_batch_dims: Integers,
    lhs_contracting_dims: Integers,
    rhs_contracting_dims: Integers,
) -> AxisMap:
    """([b,i,k], [b,k,j]) -> [b,i,j]."""
    numbers = DotNumbers(lhs_batch_dims, rhs_batch_dims, lhs_contracting_dims, rhs_contracting_dims)
    return axes_of(*sides(lhs, rhs), numbers)


def sides(lhs: Type, rhs: Type) -> tuple[TensorType, TensorType]:
    """Both operands, which must be arrays."""
    return array(lhs, "the left operand"), array(rhs, "the right operand")


def axes_of(lhs: TensorType, rhs: TensorType, numbers: DotNumbers) -> AxisMap:
    """The map of a plain product; raises TypeProblem where the operands do not fit."""
    check_dot(lhs, rhs, numbers)
    build = AxisMapBuilder()
    factors = dot_factors(build, lhs, rhs, numbers)
    build.operand(*single(factors.left)).operand(*single(factors.right)).result(*single(factors.result))
    return build.finish()


def single(factors: Sequence[int]) -> list[Integers]:
    """Dimensions of one factor each."""
    return [(factor,) for factor in factors]


def element_of(lhs: TensorType, rhs: TensorType, result: Type | None) -> DType:
    """The written element type, or the wider one of the two sides."""
    return result.dtype if isinstance(result, TensorType) else wider(lhs.dtype, rhs.dtype)


def sum_of(lhs: TensorType, rhs: TensorType) -> str:
    """The opcode that adds up partial products: `or` for pred, `add` for numbers."""
    return "or" if lhs.dtype.kind is DTypeKind.BOOLEAN and rhs.dtype.kind is DTypeKind.BOOLEAN else "add"


def check_dot(lhs: TensorType, rhs: TensorType, numbers: DotNumbers) -> None:
    """Raise TypeProblem if dimension numbers are out of range or repeated, or if paired sizes differ."""
    lhs_batch, rhs_batch, lhs_contracting, rhs_contracting = numbers
    _check_side("left", "lhs", lhs, lhs_batch, lhs_contracting)
    _check_side("right", "rhs", rhs, rhs_batch, rhs_contracting)
    _check_pairs("contracting", lhs, rhs, lhs_contracting, rhs_contracting)
    _check_pairs("batch", lhs, rhs, lhs_batch, rhs_batch)


def dot_factors(
    build: AxisMapBuilder,
    lhs: TensorType,
    rhs: TensorType,
    numbers: DotNumbers,
    whole: int | None = None,
    indexed: int | None = None,
) -> Sides:
    """Add a product's factors: the left operand's in order, then those only the right one has.

    `whole` is a dimension of the left operand that must not be split; `indexed` is a free dimension of the right
    operand that selects the group of each row of the left one.
    """
    contracted = dict(zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True))
    partners = {**contracted, **dict(zip(numbers.lhs_batch, numbers.rhs_batch, strict=True))}
    adds = sum_of(lhs, rhs)
    left: list[int] = []
    right: dict[int, int] = {}
    for dim, size in enumerate(lhs.dims):
        partner = partners.get(dim)
        if partner is None:
            left.append(build.factor(size, FactorKind.NEED_REPLICATION if dim == whole else FactorKind.PARALLEL))
            continue
        common = size if size >= 0 else rhs.dims[partner]
        if dim == whole:
            right[partner] = build.factor(common, FactorKind.NEED_REPLICATION)
        elif dim in contracted:
            right[partner] = build.factor(common, FactorKind.CONTRACTED, adds)
        else:
            right[partner] = build.factor(common)
        left.append(right[partner])
    free = [dim for dim in range(rhs.rank) if dim not in right]
    for dim in free:
        factor_kind, reducer = (FactorKind.INDEXED, adds) if dim == indexed else (FactorKind.PARALLEL, "")
        right[dim] = build.factor(rhs.dims[dim], factor_kind, reducer)
    batch = [left[dim] for dim in numbers.lhs_batch]
    rows = [left[dim] for dim in range(lhs.rank) if dim not in partners]
    return Sides(left, [right[dim] for dim in range(rhs.rank)], batch + rows + [right[dim] for dim in free])


def _check_side(side: str, name: str, array_type: TensorType, batch: Integers, contracting: Integers) -> None:
    for what, places in (("batch", batch), ("contracting", contracting)):
        for dim in places:
            if not 0 <= dim < array_type.rank:
                written = f"{name}_{what}_dims={braces(places)}"
                raise TypeProblem(f"{written} but the {side} operand {array_type} has rank {array_type.rank}")
    named = (*batch, *contracting)
    if len(set(named)) != len(named):
        written = f"{name}_batch_dims={braces(batch)} and {name}_contracting_dims={braces(contracting)}"
        raise TypeProblem(f"{written} name a dimension twice")


def _check_pairs(what: str, lhs: TensorType, rhs: TensorType, left: Integers, right: Integers) -> None:
    if len(left) != len(right):
        raise TypeProblem(f"lhs_{what}_dims={braces(left)} and rhs_{what}_dims={braces(right)} are not equally many")
    for one, other in zip(left, right, strict=True):
        if not sizes_agree(lhs.dims[one], rhs.dims[other]):
            raise TypeProblem(
                f"{what} dimension {one} of the left operand {lhs} and {other} of the right operand {rhs} "
                f"differ in size: {lhs.dims[one]} and {rhs.dims[other]}"
            )


def braces(numbers: Sequence[int]) -> str:
    """Numbers as HLO writes them: `{0,2}`."""
    return "{" + ",".join(map(str, numbers)) + "}"


def infer_scaled_dot(
    lhs: Type,
    rhs: Type,
    lhs_scale: Type,
    rhs_scale: Type,
    *,
    lhs_batch_dims: Integers,
    rhs_batch_dims: Integers,
    lhs_contracting_dims: Integers,
    rhs_contracting_dims: Integers,
    result: Type | None = None,
) -> TensorType:
    """The plain product's result; the scales must be arrays."""
    numbers = DotNumbers(lhs_batch_dims, rhs_batch_dims, lhs_contracting_dims, rhs_contracting_dims)
    left, right = sides(lhs, rhs)
    array(lhs_scale, "the left scale")
    array(rhs_scale, "the right scale")
    return result_from(axes_of(left, right, numbers), (left, right), element_of(left, right, result))


def scaled_dot_axes(
    lhs: Type,
    rhs: Type,
    lhs_scale: Type,
    rhs_scale: Type,
    *,
    lhs_batch_dims: Integers,
    rhs_batch_dims: Integers,
    lhs_contracting_dims: Integers,
    rhs_contracting_dims: Integers,
) -> AxisMap:
    """The plain product's map, its factors split where the scales' blocks end."""
    numbers = DotNumbers(lhs_batch_dims, rhs_batch_dims, lhs_contracting_dims, rhs_contracting_dims)
    plain = axes_of(*sides(lhs, rhs), numbers)
    scales = (array(lhs_scale, "the left scale"), array(rhs_scale, "the right scale"))
    build = AxisMapBuilder()
    parts = [_split(build, factor, _block_counts(plain, scales, number)) for number, factor in enumerate(plain.factors)]
    for dimensions in plain.operands:
        build.operand(*[parts[factor].factors for (factor,) in dimensions])
    for scale, dimensions in zip(scales, plain.operands, strict=True):
        build.operand(*_scale_dimensions(build, scale, [parts[factor] for (factor,) in dimensions]))
    return build.result(*[parts[factor].factors for (factor,) in plain.results[0]]).finish()


class Parts(NamedTuple):
    """The factors that a dimension is cut into, and how many blocks are before each cut: 1, ..., the whole size."""

    factors: Integers
    cuts: Integers


def _block_counts(plain: AxisMap, scales: Sequence[TensorType], factor: int) -> set[int]:
    """The numbers of blocks into which the scales divide a factor's dimension."""
    return {
        scale.dims[dimensions.index((factor,))]
        for scale, dimensions in zip(scales, plain.operands, strict=True)
        if scale.rank == len(dimensions) and (factor,) in dimensions
    }


def _split(build: AxisMapBuilder, factor: Factor, counts: set[int]) -> Parts:
    """Split a dimension at block boundaries; a count that does not divide evenly splits nothing."""
    cuts = [1]
    for count in sorted(counts):
        if 1 < count < factor.size and count % cuts[-1] == 0 and factor.size % count == 0:
            cuts.append(count)
    cuts.append(factor.size)
    sizes = [later // earlier for earlier, later in pairwise(cuts)]
    return Parts(tuple(build.factor(size, factor.kind, factor.reducer) for size in sizes), tuple(cuts))


def _scale_dimensions(build: AxisMapBuilder, scale: TensorType, parts: Sequence[Parts]) -> list[Integers]:
    """The major factors of the operand's dimensions, as many as make up the scale's."""
    if scale.rank != len(parts):
        return [(build.factor(size, FactorKind.NEED_REPLICATION),) for size in scale.dims]
    return [
        factors[: cuts.index(size)] if size in cuts else (build.factor(size, FactorKind.NEED_REPLICATION),)
        for size, (factors, cuts) in zip(scale.dims, parts, strict=True)
    ]


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
    """The map for the mode that the ragged dimension selects."""
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
    """The dimensions of the left operand along which group sizes may differ: those outside the ragged one."""
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
