"""Ops that move, repeat or regroup elements without computing on them."""

from __future__ import annotations

from hloom.ir import (
    UNBOUNDED,
    AttributeKind,
    AxisMap,
    AxisMapBuilder,
    FactorKind,
    Kind,
    PaddingDimension,
    SliceDimension,
    TensorType,
    Type,
    TypeProblem,
    dtype,
    optional,
    required,
)
from hloom.ops.reshape_rules import (
    bitcast_axes,
    infer_bitcast,
    infer_dynamic_reshape,
    infer_reshape,
    reshape_axes,
)
from hloom.ops.rows import ANY, DIMENSIONS, INTEGER, INTEGERS, row, table
from hloom.ops.shapes import (
    Extent,
    array,
    arrays,
    dimension_in,
    extents,
    of_kinds,
    permutation,
    result_from,
    same_elements,
    scalar,
    tensor,
    wider,
)

LARGEST_MEASURABLE = 2**31 - 1
"""The greatest size that get- and set-dimension-size can speak of: theirs are 32 bits wide."""

_SIZE = dtype("s32")
_NUMBERS = frozenset({Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT, Kind.COMPLEX})


def _broadcast(operand: Type, *, dimensions: tuple[int, ...] | None, result: Type | None) -> Type:
    """The written type, after checking that the operand's dimensions fit into it; a scalar's may be left out."""
    kind, places = array(operand), dimensions or ()
    if len(places) != kind.rank:
        raise TypeProblem(f"dimensions={_braces(places)} must name a place for each dimension of {kind}")
    if result is None:
        if kind.rank:
            raise TypeProblem("the type must be written: the operand does not say what it is broadcast to")
        return kind
    made = array(result, "the result")
    if made.dtype is not kind.dtype:
        raise TypeProblem(f"the result must be of type {kind.dtype} like the operand, but is {made}")
    if len(set(places)) != len(places):
        raise TypeProblem(f"dimensions={_braces(places)} names a place twice")
    for size, place in zip(kind.dims, places, strict=True):
        wanted = made.dims[dimension_in(place, made, "the broadcast dimension")]
        if size not in (wanted, UNBOUNDED):
            raise TypeProblem(f"a dimension of size {size} of {kind} cannot become dimension {place} of {made}")
    return made


def _broadcast_axes(operand: Type, *, dimensions: tuple[int, ...] | None, result: Type) -> AxisMap:
    build = AxisMapBuilder()
    factors = [[build.factor(size)] for size in array(result, "the result").dims]
    return build.operand(*[factors[place] for place in dimensions or ()]).result(*factors).finish()


def _transpose(operand: Type, *, dimensions: tuple[int, ...]) -> Type:
    kind = array(operand)
    if not permutation(dimensions, kind.rank):
        raise TypeProblem(f"dimensions={_braces(dimensions)} must be a permutation of the dimensions of {kind}")
    return result_from(_transpose_axes(kind, dimensions=dimensions), [kind], kind.dtype)


def _transpose_axes(operand: Type, *, dimensions: tuple[int, ...]) -> AxisMap:
    build = AxisMapBuilder()
    factors = [[build.factor(size)] for size in array(operand).dims]
    return build.operand(*factors).result(*[factors[place] for place in dimensions]).finish()


def _reverse(operand: Type, *, dimensions: tuple[int, ...]) -> Type:
    kind = array(operand)
    if len(set(dimensions)) != len(dimensions):
        raise TypeProblem(f"dimensions={_braces(dimensions)} names a dimension twice")
    for place in dimensions:
        dimension_in(place, kind, "the reversed dimension")
    return kind


def _reverse_axes(operand: Type, *, dimensions: tuple[int, ...]) -> AxisMap:
    dims = array(operand).dims
    return _moved(dims, dims, set(dimensions))


def _concatenate(*operands: Type, dimensions: tuple[int, ...]) -> Type:
    kinds = arrays(operands)
    if not kinds:
        raise TypeProblem("at least one operand is needed")
    if len(dimensions) != 1:
        raise TypeProblem(f"dimensions={_braces(dimensions)} must name one dimension")
    first, (along,) = kinds[0], dimensions
    dimension_in(along, first, "the concatenated dimension")
    element, made = first.dtype, extents(first)
    for number, each in enumerate(kinds[1:], 1):
        if each.rank != first.rank:
            raise TypeProblem(f"the operands must have the same rank, but are {first} and {each}")
        if not same_elements(first, each):
            raise TypeProblem(f"the operands must have the same element type, but are {first} and {each}")
        element = wider(each.dtype, first.dtype)
        for place, (a, b) in enumerate(zip(made, extents(each), strict=True)):
            made[place] = _joined(a, b) if place == along else _agreed(a, b, f"dimension {place} of operand {number}")
    return tensor(element, made)


def _joined(a: Extent, b: Extent) -> Extent:
    if UNBOUNDED in (a[0], b[0]):
        return UNBOUNDED, True
    return a[0] + b[0], a[1] or b[1]


def _agreed(a: Extent, b: Extent, what: str) -> Extent:
    """The dimension that two sizes tell of: where one is unbounded, the other's."""
    if UNBOUNDED in (a[0], b[0]):
        return b if a[0] == UNBOUNDED else a
    if a[0] != b[0]:
        raise TypeProblem(f"{what} has size {b[0]}, but those before it {a[0]}: only the joined dimension may differ")
    return a[0], a[1] or b[1]


def _concatenate_axes(*operands: Type, dimensions: tuple[int, ...], result: Type) -> AxisMap:
    kind = FactorKind.SHIFTED if len(operands) > 1 else FactorKind.PARALLEL
    build = AxisMapBuilder()
    dims = array(result, "the result").dims
    factors = [
        [build.factor(size, kind if place == dimensions[0] else FactorKind.PARALLEL)] for place, size in enumerate(dims)
    ]
    for _ in operands:
        build.operand(*factors)
    return build.result(*factors).finish()


def _pad(operand: Type, value: Type, *, padding: tuple[PaddingDimension, ...]) -> Type:
    kind, filler = array(operand), scalar(value, "the padding value")
    if len(padding) != kind.rank:
        raise TypeProblem(f"padding={'x'.join(map(str, padding))} must give every dimension of {kind} its part")
    if not same_elements(kind, filler):
        raise TypeProblem(f"the padding value must be {kind.dtype} like the operand, but is {filler}")
    sides = zip(extents(kind), padding, strict=True)
    return tensor(wider(kind.dtype, filler.dtype), [_padded(*each, place) for place, each in enumerate(sides)])


def _padded(extent: Extent, padding: PaddingDimension, place: int) -> Extent:
    size, moves = extent
    if padding.interior < 0:
        raise TypeProblem(f"padding {padding} of dimension {place}: the interior padding must not be negative")
    if size == UNBOUNDED:
        return extent
    made = size + padding.low + padding.high + max(size - 1, 0) * padding.interior
    if made < 0:
        raise TypeProblem(f"padding {padding} takes more than dimension {place} has: its size is {size}")
    return made, moves


def _pad_axes(operand: Type, value: Type, *, padding: tuple[PaddingDimension, ...], result: Type) -> AxisMap:
    touched = {place for place, each in enumerate(padding) if each.low or each.high or each.interior}
    return _moved(array(operand).dims, array(result, "the result").dims, touched, scalars=1)


def _slice(operand: Type, *, slice: tuple[SliceDimension, ...]) -> Type:
    kind = array(operand)
    if len(slice) != kind.rank:
        raise TypeProblem(f"slice={{{', '.join(map(str, slice))}}} must give every dimension of {kind} its part")
    return tensor(kind.dtype, [_sliced(*each) for each in zip(extents(kind), slice, strict=True)])


def _sliced(extent: Extent, part: SliceDimension) -> Extent:
    size, moves = extent
    if not 0 <= part.start <= part.limit or (size != UNBOUNDED and part.limit > size):
        raise TypeProblem(f"{part} is no part of a dimension of size {'?' if size == UNBOUNDED else size}")
    if part.stride < 1:
        raise TypeProblem(f"{part} must have a positive stride")
    made = -(-(part.limit - part.start) // part.stride)
    return made, moves and size != UNBOUNDED and made != 1


def _slice_axes(operand: Type, *, slice: tuple[SliceDimension, ...], result: Type) -> AxisMap:
    before = array(operand).dims
    touched = {place for place, (size, part) in enumerate(zip(before, slice, strict=True)) if _cuts(size, part)}
    return _moved(before, array(result, "the result").dims, touched)


def _cuts(size: int, part: SliceDimension) -> bool:
    return (part.start, part.limit) != (0, size) or (part.stride != 1 and size > 1)


def _moved(before: tuple[int, ...], after: tuple[int, ...], touched: set[int], scalars: int = 0) -> AxisMap:
    """The map of an op that keeps dimensions in place; those touched are shifted, and have the result's size."""
    build = AxisMapBuilder()
    factors = [
        [build.factor(size, FactorKind.SHIFTED if place in touched else FactorKind.PARALLEL)]
        for place, size in enumerate(after)
    ]
    build.operand(*factors[: len(before)])
    for _ in range(scalars):
        build.operand()
    return build.result(*factors).finish()


def _iota(*, iota_dimension: int, result: Type | None) -> Type:
    if result is None:
        raise TypeProblem("the type must be written: an iota has no operand to take it from")
    made = array(result, "the result")
    of_kinds(made, _NUMBERS, "the result")
    dimension_in(iota_dimension, made, "iota_dimension")
    return made


def _iota_axes(*, result: Type) -> AxisMap:
    """Every device can count from where its part begins, so all dimensions are parallel."""
    build = AxisMapBuilder()
    return build.result(*[[build.factor(size)] for size in array(result, "the result").dims]).finish()


def _measured(operand: Type, dimensions: tuple[int, ...]) -> tuple[TensorType, int]:
    kind = array(operand)
    if not dimensions:
        raise TypeProblem("dimensions={} must name a dimension")
    place = dimension_in(dimensions[0], kind, "the measured dimension")
    if kind.dims[place] > LARGEST_MEASURABLE:
        raise TypeProblem(f"dimension {place} of {kind} is too large for s32: at most {LARGEST_MEASURABLE}")
    return kind, place


def _get_dimension_size(operand: Type, *, dimensions: tuple[int, ...]) -> Type:
    _measured(operand, dimensions)
    return TensorType(_SIZE)


def _get_dimension_size_axes(operand: Type, *, dimensions: tuple[int, ...]) -> AxisMap:
    """The sizes of the parts of the measured dimension add up; the others do not matter."""
    build = AxisMapBuilder()
    measured = dimensions[0]
    kinds = [(FactorKind.REDUCED, "add") if place == measured else (FactorKind.PARALLEL, "")
             for place in range(array(operand).rank)]  # fmt: skip
    sizes = zip(array(operand).dims, kinds, strict=True)
    return build.operand(*[[build.factor(size, *kind)] for size, kind in sizes]).result().finish()


def _set_dimension_size(operand: Type, size: Type, *, dimensions: tuple[int, ...]) -> Type:
    kind, place = _measured(operand, dimensions)
    if array(size, "the size") is not TensorType(_SIZE):
        raise TypeProblem(f"the size must be s32[], but is {size}")
    return tensor(kind.dtype, [(n, moves or d == place) for d, (n, moves) in enumerate(extents(kind))])


def _set_dimension_size_axes(operand: Type, size: Type, *, dimensions: tuple[int, ...]) -> AxisMap:
    """A dimension with a size of its own must lie in one place: how much a part holds would differ."""
    build = AxisMapBuilder()
    factors = [
        [build.factor(n, FactorKind.WHOLE if place == dimensions[0] else FactorKind.PARALLEL)]
        for place, n in enumerate(array(operand).dims)
    ]
    return build.operand(*factors).operand().result(*factors).finish()


def _braces(dimensions: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, dimensions)) + "}"


ROWS = table(
    row("bitcast", 1, infer=infer_bitcast, axes=bitcast_axes),
    row(
        "broadcast",
        1,
        {"dimensions": optional(INTEGERS)},
        omits_type=True,
        infer=_broadcast,
        axes=_broadcast_axes,
    ),
    row("concatenate", ANY, DIMENSIONS, omits_type=True, infer=_concatenate, axes=_concatenate_axes),
    row("dynamic-reshape", (1, None), infer=infer_dynamic_reshape, axes=reshape_axes),
    row(
        "get-dimension-size",
        1,
        DIMENSIONS,
        omits_type=True,
        infer=_get_dimension_size,
        axes=_get_dimension_size_axes,
    ),
    row("iota", 0, {"iota_dimension": required(INTEGER)}, infer=_iota, axes=_iota_axes),
    row("pad", 2, {"padding": required(AttributeKind.PADDING)}, omits_type=True, infer=_pad, axes=_pad_axes),
    row("reshape", 1, {"inferred_dimension": optional(INTEGER)}, infer=infer_reshape, axes=reshape_axes),
    row("reverse", 1, DIMENSIONS, omits_type=True, infer=_reverse, axes=_reverse_axes),
    row(
        "set-dimension-size",
        2,
        DIMENSIONS,
        omits_type=True,
        infer=_set_dimension_size,
        axes=_set_dimension_size_axes,
    ),
    row("slice", 1, {"slice": required(AttributeKind.SLICES)}, infer=_slice, axes=_slice_axes),
    row("transpose", 1, DIMENSIONS, omits_type=True, infer=_transpose, axes=_transpose_axes),
)
