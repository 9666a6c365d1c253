"""Ops that move, repeat or regroup elements without computing on them."""

from __future__ import annotations

from hloom.ir import (
    UNBOUNDED,
    AttributeKind,
    AxisMap,
    AxisMapBuilder,
    DTypeKind,
    FactorKind,
    PaddingDimension,
    SliceDimension,
    TensorType,
    Trait,
    Type,
    TypeNotGiven,
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
from hloom.ops.rows import ANY, DIMENSIONS, INTEGER, INTEGERS, MOVES, SAME_BUFFER, row, table, typed_row
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
"""The largest size that get- and set-dimension-size can handle: they use 32-bit integers."""

_SIZE = dtype("s32")
_NUMBERS = frozenset({DTypeKind.SIGNED, DTypeKind.UNSIGNED, DTypeKind.FLOAT, DTypeKind.COMPLEX})


def _broadcast(operand: Type, *, dimensions: tuple[int, ...] | None, result: Type | None) -> Type:
    """The written type, after checking that the operand's dimensions fit into it; a scalar's may be left out."""
    operand_type, places = array(operand), dimensions or ()
    if len(places) != operand_type.rank:
        raise TypeProblem(f"dimensions={_braces(places)} must name a place for each dimension of {operand_type}")
    if result is None:
        if operand_type.rank:
            raise TypeNotGiven("the type must be written: the operand does not say what it is broadcast to")
        return operand_type
    made = array(result, "the result")
    if made.dtype is not operand_type.dtype:
        raise TypeProblem(f"the result must be of type {operand_type.dtype} like the operand, but is {made}")
    if len(set(places)) != len(places):
        raise TypeProblem(f"dimensions={_braces(places)} names a place twice")
    for size, dim in zip(operand_type.dims, places, strict=True):
        wanted = made.dims[dimension_in(dim, made, "the broadcast dimension")]
        if size not in (wanted, UNBOUNDED):
            raise TypeProblem(f"a dimension of size {size} of {operand_type} cannot become dimension {dim} of {made}")
    return made


def _broadcast_axes(operand: Type, *, dimensions: tuple[int, ...] | None, result: Type) -> AxisMap:
    build = AxisMapBuilder()
    factors = [[build.factor(size)] for size in array(result, "the result").dims]
    return build.operand(*[factors[dim] for dim in dimensions or ()]).result(*factors).finish()


def _transpose(operand: Type, *, dimensions: tuple[int, ...]) -> Type:
    operand_type = array(operand)
    if not permutation(dimensions, operand_type.rank):
        raise TypeProblem(f"dimensions={_braces(dimensions)} must be a permutation of the dimensions of {operand_type}")
    return result_from(_transpose_axes(operand_type, dimensions=dimensions), [operand_type], operand_type.dtype)


def _transpose_axes(operand: Type, *, dimensions: tuple[int, ...]) -> AxisMap:
    build = AxisMapBuilder()
    factors = [[build.factor(size)] for size in array(operand).dims]
    return build.operand(*factors).result(*[factors[dim] for dim in dimensions]).finish()


def _reverse(operand: Type, *, dimensions: tuple[int, ...]) -> Type:
    operand_type = array(operand)
    if len(set(dimensions)) != len(dimensions):
        raise TypeProblem(f"dimensions={_braces(dimensions)} names a dimension twice")
    for dim in dimensions:
        dimension_in(dim, operand_type, "the reversed dimension")
    return operand_type


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
    for number, type_ in enumerate(kinds[1:], 1):
        if type_.rank != first.rank:
            raise TypeProblem(f"the operands must have the same rank, but are {first} and {type_}")
        if not same_elements(first, type_):
            raise TypeProblem(f"the operands must have the same element type, but are {first} and {type_}")
        element = wider(type_.dtype, first.dtype)
        for dim, (a, b) in enumerate(zip(made, extents(type_), strict=True)):
            made[dim] = _joined(a, b) if dim == along else _agreed(a, b, f"dimension {dim} of operand {number}")
    return tensor(element, made)


def _joined(a: Extent, b: Extent) -> Extent:
    if UNBOUNDED in (a[0], b[0]):
        return UNBOUNDED, True
    return a[0] + b[0], a[1] or b[1]


def _agreed(a: Extent, b: Extent, what: str) -> Extent:
    """The dimension that two sizes imply: if one is unbounded, the other's."""
    if UNBOUNDED in (a[0], b[0]):
        return b if a[0] == UNBOUNDED else a
    if a[0] != b[0]:
        raise TypeProblem(f"{what} has size {b[0]}, but those before it {a[0]}: only the joined dimension may differ")
    return a[0], a[1] or b[1]


def _concatenate_axes(*operands: Type, dimensions: tuple[int, ...], result: Type) -> AxisMap:
    factor_kind = FactorKind.SHIFTED if len(operands) > 1 else FactorKind.PARALLEL
    build = AxisMapBuilder()
    dims = array(result, "the result").dims
    factors = [
        [build.factor(size, factor_kind if dim == dimensions[0] else FactorKind.PARALLEL)]
        for dim, size in enumerate(dims)
    ]
    for _ in operands:
        build.operand(*factors)
    return build.result(*factors).finish()


def _pad(operand: Type, value: Type, *, padding: tuple[PaddingDimension, ...]) -> Type:
    operand_type, filler = array(operand), scalar(value, "the padding value")
    if len(padding) != operand_type.rank:
        raise TypeProblem(f"padding={'x'.join(map(str, padding))} must give every dimension of {operand_type} its part")
    if not same_elements(operand_type, filler):
        raise TypeProblem(f"the padding value must be {operand_type.dtype} like the operand, but is {filler}")
    sides = zip(extents(operand_type), padding, strict=True)
    return tensor(wider(operand_type.dtype, filler.dtype), [_padded(*pair, dim) for dim, pair in enumerate(sides)])


def _padded(extent: Extent, padding: PaddingDimension, dim: int) -> Extent:
    size, moves = extent
    if padding.interior < 0:
        raise TypeProblem(f"padding {padding} of dimension {dim}: the interior padding must not be negative")
    if size == UNBOUNDED:
        return extent
    made = size + padding.low + padding.high + max(size - 1, 0) * padding.interior
    if made < 0:
        raise TypeProblem(f"padding {padding} takes more than dimension {dim} has: its size is {size}")
    return made, moves


def _pad_axes(operand: Type, value: Type, *, padding: tuple[PaddingDimension, ...], result: Type) -> AxisMap:
    touched = {dim for dim, padded in enumerate(padding) if padded.low or padded.high or padded.interior}
    return _moved(array(operand).dims, array(result, "the result").dims, touched, scalars=1)


def _slice(operand: Type, *, slice: tuple[SliceDimension, ...]) -> Type:
    operand_type = array(operand)
    if len(slice) != operand_type.rank:
        raise TypeProblem(
            f"slice={{{', '.join(map(str, slice))}}} must give every dimension of {operand_type} its part"
        )
    return tensor(operand_type.dtype, [_sliced(*pair) for pair in zip(extents(operand_type), slice, strict=True)])


def _sliced(extent: Extent, part: SliceDimension) -> Extent:
    size, moves = extent
    if not 0 <= part.start <= part.limit or (size != UNBOUNDED and part.limit > size):
        raise TypeProblem(f"{part} is not part of a dimension of size {'?' if size == UNBOUNDED else size}")
    if part.stride < 1:
        raise TypeProblem(f"{part} must have a positive stride")
    made = -(-(part.limit - part.start) // part.stride)
    return made, moves and size != UNBOUNDED and made != 1


def _slice_axes(operand: Type, *, slice: tuple[SliceDimension, ...], result: Type) -> AxisMap:
    before = array(operand).dims
    touched = {dim for dim, (size, part) in enumerate(zip(before, slice, strict=True)) if _cuts(size, part)}
    return _moved(before, array(result, "the result").dims, touched)


def _cuts(size: int, part: SliceDimension) -> bool:
    return (part.start, part.limit) != (0, size) or (part.stride != 1 and size > 1)


def _moved(before: tuple[int, ...], after: tuple[int, ...], touched: set[int], scalars: int = 0) -> AxisMap:
    """The map of an op that keeps dimensions in place; touched ones are shifted and have the result's size."""
    build = AxisMapBuilder()
    factors = [
        [build.factor(size, FactorKind.SHIFTED if dim in touched else FactorKind.PARALLEL)]
        for dim, size in enumerate(after)
    ]
    build.operand(*factors[: len(before)])
    for _ in range(scalars):
        build.operand()
    return build.result(*factors).finish()


def _iota(*, iota_dimension: int, result: Type | None) -> Type:
    if result is None:
        raise TypeNotGiven("the type must be written: an iota has no operand to take it from")
    made = array(result, "the result")
    of_kinds(made, _NUMBERS, "the result")
    dimension_in(iota_dimension, made, "iota_dimension")
    return made


def _iota_axes(*, result: Type) -> AxisMap:
    """Every device can count from the start of its own part, so all dimensions are parallel."""
    build = AxisMapBuilder()
    return build.result(*[[build.factor(size)] for size in array(result, "the result").dims]).finish()


def _measured(operand: Type, dimensions: tuple[int, ...]) -> tuple[TensorType, int]:
    operand_type = array(operand)
    if not dimensions:
        raise TypeProblem("dimensions={} must name a dimension")
    dim = dimension_in(dimensions[0], operand_type, "the measured dimension")
    if operand_type.dims[dim] > LARGEST_MEASURABLE:
        raise TypeProblem(f"dimension {dim} of {operand_type} is too large for s32: at most {LARGEST_MEASURABLE}")
    return operand_type, dim


def _get_dimension_size(operand: Type, *, dimensions: tuple[int, ...]) -> Type:
    _measured(operand, dimensions)
    return TensorType(_SIZE)


def _get_dimension_size_axes(operand: Type, *, dimensions: tuple[int, ...]) -> AxisMap:
    """The sizes of the parts of the measured dimension add up; the other dimensions do not matter."""
    build = AxisMapBuilder()
    measured = dimensions[0]
    kinds = [(FactorKind.REDUCED, "add") if dim == measured else (FactorKind.PARALLEL, "")
             for dim in range(array(operand).rank)]  # fmt: skip
    sizes = zip(array(operand).dims, kinds, strict=True)
    return build.operand(*[[build.factor(size, *factor_kind)] for size, factor_kind in sizes]).result().finish()


def _set_dimension_size(operand: Type, size: Type, *, dimensions: tuple[int, ...]) -> Type:
    operand_type, dim = _measured(operand, dimensions)
    if array(size, "the size") is not TensorType(_SIZE):
        raise TypeProblem(f"the size must be s32[], but is {size}")
    return tensor(operand_type.dtype, [(n, moves or d == dim) for d, (n, moves) in enumerate(extents(operand_type))])


def _set_dimension_size_axes(operand: Type, size: Type, *, dimensions: tuple[int, ...]) -> AxisMap:
    """A dimension whose size is set needs replication: otherwise devices would hold different amounts of it."""
    build = AxisMapBuilder()
    factors = [
        [build.factor(n, FactorKind.NEED_REPLICATION if dim == dimensions[0] else FactorKind.PARALLEL)]
        for dim, n in enumerate(array(operand).dims)
    ]
    return build.operand(*factors).operand().result(*factors).finish()


def _braces(dimensions: tuple[int, ...]) -> str:
    return "{" + ",".join(map(str, dimensions)) + "}"


_RESHAPES = (*MOVES, Trait.KEEPS_ORDER)
_BITCASTS = (*_RESHAPES, Trait.REPRESENTATION)

ROWS = table(
    typed_row("bitcast", 1, infer=infer_bitcast, axes=bitcast_axes, traits=_BITCASTS, flow=SAME_BUFFER),
    row("broadcast", 1, {"dimensions": optional(INTEGERS)}, infer=_broadcast, axes=_broadcast_axes, traits=MOVES),
    row("concatenate", ANY, DIMENSIONS, infer=_concatenate, axes=_concatenate_axes, traits=(Trait.MOVES_DATA,)),
    typed_row("dynamic-reshape", (1, None), infer=infer_dynamic_reshape, axes=reshape_axes, traits=(Trait.MOVES_DATA,)),
    row("get-dimension-size", 1, DIMENSIONS, infer=_get_dimension_size, axes=_get_dimension_size_axes),
    typed_row(
        "iota", 0, {"iota_dimension": required(INTEGER)}, infer=_iota, axes=_iota_axes, traits=(Trait.GENERATES,)
    ),
    row("pad", 2, {"padding": required(AttributeKind.PADDING)}, infer=_pad, axes=_pad_axes, traits=(Trait.MOVES_DATA,)),
    typed_row(
        "reshape",
        1,
        {"inferred_dimension": optional(INTEGER)},
        infer=infer_reshape,
        axes=reshape_axes,
        traits=_RESHAPES,
    ),
    row("reverse", 1, DIMENSIONS, infer=_reverse, axes=_reverse_axes, traits=MOVES),
    row("set-dimension-size", 2, DIMENSIONS, infer=_set_dimension_size, axes=_set_dimension_size_axes),
    typed_row(
        "slice",
        1,
        {"slice": required(AttributeKind.SLICES)},
        infer=_slice,
        axes=_slice_axes,
        traits=(*MOVES, Trait.READS_PART),
    ),
    row("transpose", 1, DIMENSIONS, infer=_transpose, axes=_transpose_axes, traits=MOVES),
)
