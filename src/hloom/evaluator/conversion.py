"""Conversions of elements: by value, by bits, to reduced precision, or with stochastic rounding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hloom.evaluator.table import Runner, Value, Values, array_type, arrays_of, pointwise
from hloom.ir import Apply, DType, DTypeKind, TensorType, component, dtype_of, integer_range, round_doubles
from hloom.text import Unsupported


@pointwise("convert")
def _convert(node: Apply, operands: Values, run: Runner) -> Value:
    (operand,) = arrays_of(operands)
    return converted(operand, array_type(node).dtype)


def converted(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Elements converted by value; complex numbers lose their imaginary part where the type has none."""
    source = dtype_of(array.dtype)
    if source is dtype:
        return array
    if source.is_complex and dtype.kind in (DTypeKind.SIGNED, DTypeKind.UNSIGNED, DTypeKind.FLOAT):
        return converted(np.real(array), dtype)
    wide = array.view(np.uint8) if source.kind is DTypeKind.BOOLEAN else widened(array)
    return _CONVERSIONS[dtype.kind](wide, dtype)


def _to_predicate(values: np.ndarray, dtype: DType) -> np.ndarray:
    return values != 0


def _to_integer(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Integers wrap around; floats are cut to whole numbers and kept within the type's range, NaN is 0."""
    if values.dtype.kind != "f":
        return values.astype(dtype.numpy)
    least, greatest = integer_range(dtype)
    doubles = values.astype(np.float64)
    is_low, is_high = doubles <= least, doubles >= float(greatest)
    inside = np.where(is_low | is_high | np.isnan(doubles), 0.0, doubles)
    whole = inside.astype(np.uint64 if dtype.bits == 64 and least == 0 else np.int64).astype(dtype.numpy)
    limits = np.array([least, greatest], object).astype(dtype.numpy)
    return np.where(is_high, limits[1], np.where(is_low, limits[0], whole))


def _to_float(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Rounded to nearest even: floats of a byte or less once, f16 and bf16 through f32."""
    if dtype.bits >= 32:
        return values.astype(dtype.numpy)
    if dtype.bits == 16:
        return values.astype(np.float32).astype(dtype.numpy)
    doubles = values.astype(np.float64)
    nan = narrowest(np.full((), np.nan, np.float32), dtype)
    return np.where(np.isnan(doubles), nan, round_doubles(doubles, dtype))


def _to_complex(values: np.ndarray, dtype: DType) -> np.ndarray:
    if values.dtype.kind == "c":
        return values.astype(dtype.numpy)
    return values.astype(component(dtype).numpy).astype(dtype.numpy)


_CONVERSIONS: dict[DTypeKind, Callable[[np.ndarray, DType], np.ndarray]] = {
    DTypeKind.BOOLEAN: _to_predicate,
    DTypeKind.SIGNED: _to_integer,
    DTypeKind.UNSIGNED: _to_integer,
    DTypeKind.FLOAT: _to_float,
    DTypeKind.COMPLEX: _to_complex,
}


@pointwise("bitcast-convert")
def _bitcast_convert(node: Apply, operands: Values, run: Runner) -> Value:
    (operand,) = arrays_of(operands)
    source, target = dtype_of(operand.dtype), array_type(node).dtype
    if source is target:
        return operand
    if DTypeKind.BOOLEAN in (source.kind, target.kind):
        raise Unsupported("the bits of pred are the backend's own")
    if source.bits == target.bits:
        return operand.view(target.numpy)
    type_ = node.operands[0].type
    if isinstance(type_, TensorType) and type_.rank != operand.ndim:
        raise Unsupported("it changes the number of dimensions, in a graph that is run on many elements at once")
    return split(operand, target) if source.bits > target.bits else merged(operand, target)


def split(array: np.ndarray, dtype: DType) -> np.ndarray:
    """Elements cut into narrower ones, in a further minor dimension; the lowest bits come first.

    f32[2]  as u8  is  u8[2,4]
    """
    source = dtype_of(array.dtype)
    pieces = np.ascontiguousarray(array.reshape((*array.shape, 1)))
    if dtype.bits >= 8:
        return pieces.view(dtype.numpy)
    shifts = np.arange(0, min(source.bits, 8), dtype.bits, dtype=np.uint8)
    words = (pieces.view(np.uint8)[..., None] >> shifts) & np.uint8(2**dtype.bits - 1)
    return words.reshape((*array.shape, source.bits // dtype.bits)).view(dtype.numpy)


def merged(array: np.ndarray, dtype: DType) -> np.ndarray:
    """The elements of the minor dimension put together into one, the first lowest: the inverse of `split`.

    u8[2,4]  as f32  is  f32[2]
    """
    source, shape = dtype_of(array.dtype), array.shape[:-1]
    words = np.ascontiguousarray(array)
    if source.bits < 8:
        shifts = np.arange(0, min(dtype.bits, 8), source.bits, dtype=np.uint8)
        pieces = words.view(np.uint8) & np.uint8(2**source.bits - 1)
        pieces = pieces.reshape((*shape, array.shape[-1] // len(shifts), len(shifts))) << shifts
        words = np.bitwise_or.reduce(pieces, axis=-1)
    return words.view(dtype.numpy).reshape(shape)


@pointwise("reduce-precision")
def _reduce_precision(node: Apply, operands: Values, run: Runner) -> Value:
    (operand,) = arrays_of(operands)
    dtype = dtype_of(operand.dtype)
    wide = operand
    if dtype.bits <= 8:
        wide = operand.astype(np.float32 if dtype.name in BEYOND_F16 else np.float16)
    reduced = reduced_precision(wide, node.attribute("exponent_bits"), node.attribute("mantissa_bits"))
    return narrowed(reduced, dtype)


_FIELDS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
"""How many bits exponents and mantissas have."""


def reduced_precision(array: np.ndarray, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """Floats rounded to so many bits of mantissa, then made infinite or zero where the exponent needs more bits.

    With fewer bits of exponent, the result has no denormals.
    """
    dtype = dtype_of(array.dtype)
    exponents, mantissas = _FIELDS[dtype.name]
    word = np.dtype(f"u{dtype.byte_count}")
    bits = array.view(word)
    sign = bits & word.type(1 << (dtype.bits - 1))
    spare = mantissas - mantissa_bits
    if spare > 0:
        is_odd = (bits >> word.type(spare)) & word.type(1)
        bits = bits + (is_odd + word.type((1 << (spare - 1)) - 1)) & word.type((1 << dtype.bits) - (1 << spare))
    if exponent_bits < exponents:
        infinity = word.type(((1 << exponents) - 1) << mantissas)
        bias, reach = (1 << (exponents - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        exponent = bits & infinity
        bits = np.where(exponent > word.type((bias + reach) << mantissas), sign | infinity, bits)
        bits = np.where(exponent <= word.type((bias - reach) << mantissas), sign, bits)
    return np.where(np.isnan(array), array, bits.view(array.dtype))


@pointwise("stochastic-convert")
def _stochastic_convert(node: Apply, operands: Values, run: Runner) -> Value:
    operand, random = arrays_of(operands)
    dtype = array_type(node).dtype
    if not dtype.is_integer:
        raise Unsupported(f"XLA says how to round at random to integers only, not to {dtype}")
    return stochastically_converted(operand, random, dtype)


def stochastically_converted(array: np.ndarray, random: np.ndarray, dtype: DType) -> np.ndarray:
    """Floats cut to integers, then one further from zero where the random number is below the fraction cut off.

    The random number counts as a fraction of its type's range. Beyond the type's range, the limit is taken.
    """
    size = np.abs(array.astype(np.float64))
    whole = np.trunc(size)
    fraction = np.ldexp(size - whole, random.dtype.itemsize * 8)
    threshold = np.where(np.isfinite(fraction), fraction, 0.0).astype(np.uint64)
    further = whole + (random.astype(np.uint64) < threshold)
    return _to_integer(np.asarray(np.copysign(further, array.astype(np.float64))), dtype)


BEYOND_F16 = frozenset(("f8e8m0fnu",))
"""Floats of a byte or less that f16 does not hold."""


def widened(array: np.ndarray) -> np.ndarray:
    """Floats below f32 as f32, integers of less than a byte as bytes; anything else as it is."""
    dtype = dtype_of(array.dtype)
    if dtype.is_float and dtype.bits < 32:
        return array.astype(np.float32)
    if dtype.is_integer and dtype.bits < 8:
        return array.astype(f"{'i' if dtype.name[0] == 's' else 'u'}1")
    return array


def narrowed(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Computed values as elements of a type: integers wrapped around, floats rounded.

    Doubles become f16 and bf16 through f32, and floats of a byte or less are rounded to f16 first. Where rounding
    twice differs from rounding once, that is what XLA's CPU gives.
    """
    if values.dtype == dtype.numpy:
        return values
    if not dtype.is_float or dtype.bits > 32:
        return values.astype(dtype.numpy)
    wide = values.astype(np.float32)
    if dtype.bits > 8:
        return wide.astype(dtype.numpy)
    return narrowest(wide if dtype.name in BEYOND_F16 else wide.astype(np.float16), dtype)


def narrowest(values: np.ndarray, dtype: DType) -> np.ndarray:
    """f16 or f32 rounded to a float of a byte or less; f4e2m1fn, which has no NaN, has -0 for it."""
    if dtype.name != "f4e2m1fn":
        return values.astype(dtype.numpy)
    return np.where(np.isnan(values), np.float32(-0.0), values.astype(np.float32)).astype(dtype.numpy)
