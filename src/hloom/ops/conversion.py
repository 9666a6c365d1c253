"""Ops that change how elements are represented: convert, bitcast-convert, stochastic-convert, reduce-precision."""

from __future__ import annotations

from hloom.ir import (
    AxisMap,
    AxisMapBuilder,
    DType,
    DTypeKind,
    FactorKind,
    TensorType,
    Trait,
    Type,
    TypeNotGiven,
    TypeProblem,
    required,
)
from hloom.ops.rows import INTEGER, table, typed_row
from hloom.ops.shapes import array, extents, of_kinds, pointwise_axes, tensor

_FLOAT = frozenset({DTypeKind.FLOAT})


def _written_element(result: Type | None) -> DType:
    """The element type of the written result, which operands do not determine; raises TypeProblem."""
    if result is None:
        raise TypeNotGiven("the type must be written: the operand does not say which element type is wanted")
    return array(result, "the result").dtype


def _convert(operand: Type, *, result: Type | None) -> Type:
    return array(operand).with_dtype(_written_element(result))


def _reduce_precision(operand: Type, *, exponent_bits: int, mantissa_bits: int) -> Type:
    operand_type = array(operand)
    of_kinds(operand_type, _FLOAT)
    if exponent_bits < 1:
        raise TypeProblem(f"exponent_bits={exponent_bits}, but at least 1 is needed to tell 0 from infinity")
    if mantissa_bits < 0:
        raise TypeProblem(f"mantissa_bits={mantissa_bits} must not be negative")
    return operand_type


def _stochastic_convert(operand: Type, random: Type, *, result: Type | None) -> Type:
    operand_type, bits = array(operand), array(random, "the random numbers")
    of_kinds(operand_type, _FLOAT)
    if bits.dtype.kind is not DTypeKind.UNSIGNED or bits.dtype.bits != operand_type.dtype.bits:
        raise TypeProblem(
            f"the random numbers must be u{operand_type.dtype.bits}, as wide as {operand_type}, but are {bits}"
        )
    if extents(bits) != extents(operand_type):
        raise TypeProblem(f"the random numbers must have the dimensions of {operand_type}, but are {bits}")
    return operand_type.with_dtype(_written_element(result))


def _bitcast_convert(operand: Type, *, result: Type | None) -> Type:
    """The same bits as other elements; if the width changes, a minor dimension holds the parts of the wider element.

    bitcast-convert(f32[2])   as u8    is   u8[2,4]
    bitcast-convert(u8[2,4])  as f32   is   f32[2]
    """
    operand_type, element = array(operand), _written_element(result)
    if operand_type.dtype.is_complex != element.is_complex:
        raise TypeProblem(f"{operand_type} cannot become {element}: only one of them is complex")
    ratio = _ratio(operand_type, element)
    if operand_type.dtype.bits > element.bits:
        return tensor(element, [*extents(operand_type), (ratio, False)])
    if ratio == 1:
        return operand_type.with_dtype(element)
    if not operand_type.rank or operand_type.dims[-1] != ratio:
        needed = f"its last dimension must be {ratio}, for {ratio} {operand_type.dtype} make one {element}"
        raise TypeProblem(f"{operand_type} cannot become {element}: {needed}")
    return tensor(element, extents(operand_type)[:-1])


def _ratio(array_type: TensorType, element: DType) -> int:
    few, many = sorted((array_type.dtype.bits, element.bits))
    if many % few:
        raise TypeProblem(f"{array_type} cannot become {element}: {many} bits are not multiple of {few}")
    return many // few


def _bitcast_convert_axes(operand: Type, *, result: Type) -> AxisMap:
    """The dimensions stay; the minor one that holds parts of an element is on one side only."""
    operand_type, made = array(operand), array(result, "the result")
    build = AxisMapBuilder()
    shared = [[build.factor(size)] for size in operand_type.dims[: min(operand_type.rank, made.rank)]]
    parts = (operand_type.dims if operand_type.rank > made.rank else made.dims)[len(shared) :]
    apart = [[build.factor(size, FactorKind.NEED_REPLICATION)] for size in parts]
    build.operand(*shared, *(apart if operand_type.rank > made.rank else []))
    return build.result(*shared, *([] if operand_type.rank > made.rank else apart)).finish()


_ROUNDING = (Trait.ELEMENTWISE, Trait.ROUNDS)
_BITS = (Trait.ELEMENTWISE, Trait.REPRESENTATION)

ROWS = table(
    typed_row("convert", 1, infer=_convert, axes=pointwise_axes, traits=_ROUNDING),
    typed_row("bitcast-convert", 1, infer=_bitcast_convert, axes=_bitcast_convert_axes, traits=_BITS),
    typed_row(
        "stochastic-convert",
        2,
        infer=_stochastic_convert,
        axes=pointwise_axes,
        traits=(*_ROUNDING, Trait.REPRESENTATION),
    ),
    typed_row(
        "reduce-precision",
        1,
        {"exponent_bits": required(INTEGER), "mantissa_bits": required(INTEGER)},
        infer=_reduce_precision,
        axes=pointwise_axes,
        traits=(*_ROUNDING, Trait.IDEMPOTENT, Trait.PROPAGATES_NAN, Trait.REPRESENTATION),
    ),
)
