"""Rules about arrays that the rows of many ops share: element types, dimensions that may be dynamic, checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import ml_dtypes

from hloom.ir import DTYPES, UNBOUNDED, AxisMap, AxisMapBuilder, DType, DTypeKind, TensorType, Type, TypeProblem

Extent = tuple[int, bool]
"""One dimension: its size (or bound, or UNBOUNDED) and whether it is dynamic."""


def array(type_: Type, role: str = "the operand") -> TensorType:
    """A type that must be an array's, without its layout; raises TypeProblem."""
    if type(type_) is not TensorType:
        raise TypeProblem(f"{role} must be an array, not {type_}")
    return type_ if type_.layout is None else type_.with_layout(None)


def arrays(kinds: Iterable[Type]) -> list[TensorType]:
    """Operand types that must all be arrays', without their layouts; raises TypeProblem."""
    return [array(array_type, f"operand {number}") for number, array_type in enumerate(kinds)]


def scalar(type_: Type, role: str) -> TensorType:
    """A type that must be a scalar's; raises TypeProblem."""
    array_type = array(type_, role)
    if array_type.rank:
        raise TypeProblem(f"{role} must be a scalar, but is {array_type}")
    return array_type


def of_kinds(array_type: TensorType, allowed: frozenset[DTypeKind], role: str = "the operand") -> None:
    """Raise TypeProblem unless the elements are of one of these kinds."""
    if array_type.dtype.kind not in allowed:
        wanted = " or ".join(allowed_kind.value for allowed_kind in DTypeKind if allowed_kind in allowed)
        raise TypeProblem(f"{role} must be of {wanted} type, but is {array_type}")


def extents(array_type: TensorType) -> list[Extent]:
    """The dimensions of an array with their dynamism."""
    return list(zip(array_type.dims, array_type.dynamic or (False,) * len(array_type.dims), strict=True))


def tensor(element: DType, dimensions: Iterable[Extent]) -> TensorType:
    """An array of these dimensions."""
    pairs = list(dimensions)
    return TensorType(element, [size for size, _ in pairs], None, [moves for _, moves in pairs])


def same_elements(a: TensorType, b: TensorType) -> bool:
    """Whether two arrays have the same element type, or both have floating-point types."""
    return a.dtype is b.dtype or (a.dtype.kind is DTypeKind.FLOAT and b.dtype.kind is DTypeKind.FLOAT)


def same_dims(a: TensorType, b: TensorType) -> bool:
    """Whether two arrays have the same dimensions, ignoring dynamism; an unbounded one agrees with any."""
    if a.dims == b.dims:
        return True
    return a.rank == b.rank and all(map(sizes_agree, a.dims, b.dims))


def sizes_agree(a: int, b: int) -> bool:
    """Whether two sizes may be equal: they are, or one is unbounded."""
    return a in (b, UNBOUNDED) or b == UNBOUNDED


def wider(a: DType, b: DType) -> DType:
    """The more precise of two element types as XLA orders them.

    Complex before real, floating point before integers; among floats the largest exponent, then mantissa, then width;
    among integers width, then signed before unsigned. Raises TypeProblem for two types that XLA cannot order (it aborts
    on f8e5m2 with f8e5m2fnuz, f8e4m3 with f8e4m3fnuz, pred with u1). Source: xla/primitive_util.h, HigherPrecisionType.
    """
    if a is b:
        return a
    left, right = _PRECISION[a], _PRECISION[b]
    if left == right:
        raise TypeProblem(f"{a} and {b} are equally precise: convert one to the other first")
    return a if left > right else b


def permutation(dimensions: Sequence[int], rank: int) -> bool:
    """Whether these are the numbers 0 to rank - 1 in some order."""
    return len(dimensions) == rank and sorted(dimensions) == list(range(rank))


def dimension_in(dimension: int, array_type: TensorType, what: str) -> int:
    """A dimension number that must be one of the array's; raises TypeProblem."""
    if not 0 <= dimension < array_type.rank:
        raise TypeProblem(f"{what} {dimension} is not one of the {array_type.rank} dimensions of {array_type}")
    return dimension


def pointwise_axes(*operands: Type) -> AxisMap:
    """The map of arrays combined elementwise; scalars and dimensions of size 1 are broadcast.

    select(pred[], f32[2,3], f32[2,3])   is   ([], [a,b], [a,b]) -> [a,b]
    """
    array_types = arrays(operands)
    rank = max(array_type.rank for array_type in array_types)
    sizes = [
        _common_size([array_type.dims[dim] for array_type in array_types if array_type.rank]) for dim in range(rank)
    ]
    build = AxisMapBuilder()
    factors = [build.factor(size) for size in sizes]
    for array_type in array_types:
        places = zip(array_type.dims, sizes, factors, strict=True) if array_type.rank else ()
        build.operand(*[[factor] if size == common or size != 1 else [] for size, common, factor in places])
    return build.result(*[[factor] for factor in factors]).finish()


def result_from(array_type: AxisMap, operands: Sequence[TensorType], element: DType, result: int = 0) -> TensorType:
    """The result that a map determines: each dimension is the first operand dimension made of the same factors."""
    sources: dict[tuple[int, ...], Extent] = {}
    for type_, dimensions in zip(operands, array_type.operands, strict=True):
        flags = type_.dynamic or (False,) * len(dimensions)
        for factors, size, moves in zip(dimensions, type_.dims, flags, strict=True):
            sources.setdefault(factors, (size, moves))
    return tensor(element, [sources[factors] for factors in array_type.results[result]])


def _common_size(sizes: list[int]) -> int:
    known = [size for size in sizes if size not in (1, UNBOUNDED)]
    return known[0] if known else UNBOUNDED if UNBOUNDED in sizes else 1


def _precision(element: DType) -> tuple[bool, int, int, int, bool]:
    if not (element.is_float or element.is_complex):
        bits = 1 if element.kind is DTypeKind.BOOLEAN else element.bits
        return False, 0, 0, bits, element.kind is DTypeKind.SIGNED
    facts = cast("Any", ml_dtypes.finfo(element.numpy))
    return element.is_complex, facts.maxexp, facts.nmant, element.bits, False


_PRECISION = {value: _precision(value) for value in DTYPES.values()}
