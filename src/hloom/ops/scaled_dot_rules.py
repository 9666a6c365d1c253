"""Products of scaled operands: every block of an operand shares one scale.

    ([i,(kq)], [(kq),j], [i,k], [k,j]) -> [i,j]        k blocks of q elements, contracted by add

The operands are the left and right side, then the left and right scale. XLA's parser, when the result's type is left
out, takes the third operand for the right side, against its own order elsewhere; we do not. A scale's dimension is the
major factors of its operand's dimension, none where it is 1, and a whole factor of its own where the two do not divide.
Source: xla/service/shape_inference.cc, InferDotOpShape.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from hloom.ir import AxisMap, AxisMapBuilder, Factor, FactorKind, TensorType, Type
from hloom.ops.dot_rules import DotNumbers, Integers, axes_of, element_of, sides
from hloom.ops.shapes import array, result_from


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
    """How many blocks the scales make of a factor's dimension."""
    return {
        scale.dims[dimensions.index((factor,))]
        for scale, dimensions in zip(scales, plain.operands, strict=True)
        if scale.rank == len(dimensions) and (factor,) in dimensions
    }


def _split(build: AxisMapBuilder, factor: Factor, counts: set[int]) -> Parts:
    """Cut a dimension where blocks end; a count that does not divide cuts nothing."""
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
