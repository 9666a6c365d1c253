"""Matrix products: what goes together, what comes out.

    dot, batch and contracting dimensions of both sides
    ([b,i,k], [b,k,j]) -> [b,i,j]          b, i, j: parallel    k: contracted by add

Twice the points of the map are the floating-point operations. Source: xla/service/shape_inference.cc, InferDotOpShape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hloom.ir import AxisMap, AxisMapBuilder, DType, DTypeKind, FactorKind, TensorType, Type, TypeProblem
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
    """The element type written, or the wider one of both sides."""
    return result.dtype if isinstance(result, TensorType) else wider(lhs.dtype, rhs.dtype)


def sum_of(lhs: TensorType, rhs: TensorType) -> str:
    """How partial products add up: truth values by `or`, numbers by `add`."""
    return "or" if lhs.dtype.kind is DTypeKind.BOOLEAN and rhs.dtype.kind is DTypeKind.BOOLEAN else "add"


def check_dot(lhs: TensorType, rhs: TensorType, numbers: DotNumbers) -> None:
    """Raise TypeProblem where dimension numbers are out of range or twice there, or where paired sizes differ."""
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
    """Add a product's factors: the left operand's in order, then what only the right one has.

    `whole` is a dimension of the left operand that is not to be split, `indexed` a free one of the right operand by
    which the rows of the left one are told apart.
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
