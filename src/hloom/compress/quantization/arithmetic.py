"""Quantises and dequantises arrays with numpy, exactly as quantised programs interpret them.

    symmetric    scale = max|w| / largest, max|w| / (largest + 1/2), or the w of the greatest magnitude / least, and for
                 fewer than 8 bits with up to 3/2 more levels, by the least squared error;  q = round(w / scale), from
                 least to largest;  w' = q * scale
    asymmetric   scale = (max - min) / (greatest - least), both with 0 between them;  zero = round(least - min / scale);
                 q = round(w / scale) + zero;  w' = (q - zero) * scale
    MX           scale = 2^(floor(log2(max|w|)) - exponent)

Rounding is to nearest, ties to even. Scales are exact in f32 (f64 for weights of f64), quotients are taken in f64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hloom.compress.quantization.formats import MX_SCALE, NumberFormat
from hloom.text import HloomError

_CLIPPED_LEVELS = (0.5, 1.0, 1.5)
"""Levels by which a block's maximum magnitude may exceed the range, for formats of fewer than 8 bits."""
_LEAST_EXPONENT = -126  # below it XLA's CPU client flushes f32 to zero


@dataclass(frozen=True, slots=True)
class QuantizedArray:
    """An array in a number format: `values` of the array's shape, `scale` and `zero` with one element per block."""

    values: np.ndarray
    scale: np.ndarray
    zero: np.ndarray | None
    blocks: tuple[int, ...]

    def dequantized(self, element_type: np.dtype) -> np.ndarray:
        """The array that the program computes with, of the type that it had."""
        wide = np.float64 if element_type == np.float64 else np.float32
        values = self.values.astype(wide)
        if self.zero is not None:
            values = values - stretched(self.zero.astype(wide), values.shape, self.blocks)
        return (values * stretched(self.scale.astype(wide), values.shape, self.blocks)).astype(element_type)


def scale_dims(dims: Sequence[int], blocks: Sequence[int]) -> tuple[int, ...]:
    """The shape of the scales of an array of which `blocks` elements of every dimension share one."""
    return tuple(-(-size // block) if size else size for size, block in zip(dims, blocks, strict=True))


def quantize_array(
    array: np.ndarray, number_format: NumberFormat, blocks: Sequence[int], *, is_symmetric: bool = True, name: str = "w"
) -> QuantizedArray:
    """An array in a number format; raises HloomError where a value is not finite."""
    wide = array.astype(np.float64)
    bad = wide.size - int(np.isfinite(wide).sum())
    if bad:
        raise HloomError(f"{name} cannot be quantised: {bad:,} of its {wide.size:,} values are NaN or infinite")
    precision = np.float64 if array.dtype == np.float64 else np.float32
    if is_symmetric:
        return _nearest_symmetric(wide, number_format, blocks, precision)
    least, greatest = number_format.integer_range
    low = np.minimum(block_reduce(np.minimum, wide, blocks), 0)
    high = np.maximum(block_reduce(np.maximum, wide, blocks), 0)
    scale = _representable(high / (greatest - least) - low / (greatest - least), precision, greatest - least)
    zero = np.clip(np.rint(least - low / scale.astype(np.float64)), least, greatest)
    return with_scale(wide, number_format, scale, zero.astype(number_format.dtype.numpy), blocks)


def with_scale(
    wide: np.ndarray, number_format: NumberFormat, scale: np.ndarray, zero: np.ndarray | None, blocks: Sequence[int]
) -> QuantizedArray:
    """An array of f64 in a number format whose scales, and zero points, are known."""
    blocks = tuple(blocks)
    values = wide / stretched(scale.astype(np.float64), wide.shape, blocks)
    if zero is not None:
        values = values + stretched(zero.astype(np.float64), wide.shape, blocks)
    return QuantizedArray(rounded(values, number_format), scale, zero, blocks)


def rounded(values: np.ndarray, number_format: NumberFormat) -> np.ndarray:
    """Values, already divided by their scales, as a format's nearest."""
    if not number_format.is_integer:
        return np.clip(values, -number_format.largest, number_format.largest).astype(number_format.dtype.numpy)
    low, high = number_format.integer_range
    if number_format.is_block_scaled:
        low = -high
    return np.clip(np.rint(values), low, high).astype(np.int8).astype(number_format.dtype.numpy)


def _nearest_symmetric(
    wide: np.ndarray, number_format: NumberFormat, blocks: Sequence[int], precision: type[np.floating]
) -> QuantizedArray:
    """An array of f64 quantised without zero points, with the scale of minimum squared error for each block.

    Integers have one more below zero than above it: it is of use where the value of the greatest magnitude is negative,
    which the sign of the scale can always see to.
    """
    greatest = block_reduce(np.maximum, np.abs(wide), blocks)
    if number_format.exponent is not None:
        _, exponents = np.frexp(greatest)  # greatest = m * 2^e, m from 1/2 on
        exponents = np.clip(exponents - 1 - number_format.exponent, _LEAST_EXPONENT, 127)
        scale = np.exp2(np.where(greatest > 0, exponents, 0)).astype(MX_SCALE.numpy)
        return with_scale(wide, number_format, scale, None, blocks)
    largest = number_format.largest
    best = with_scale(wide, number_format, _representable(greatest / largest, precision, largest), None, blocks)
    if not number_format.is_integer:
        return best
    signed = np.where(block_reduce(np.maximum, wide, blocks) == greatest, -greatest, greatest)
    divisors = [(greatest, largest + 0.5), (signed, largest + 1)]
    if number_format.dtype.bits < 8:
        divisors += [(greatest, largest + beyond) for beyond in _CLIPPED_LEVELS[1:]]
        divisors += [(signed, largest + 1 + beyond) for beyond in _CLIPPED_LEVELS]
    with np.errstate(all="ignore"):
        least = _squared_error(wide, best)
        for numerator, divisor in divisors:
            scale = _representable(numerator / divisor, precision, largest + 1)
            other = with_scale(wide, number_format, scale, None, blocks)
            error = _squared_error(wide, other)
            is_less = error < least
            least = np.where(is_less, error, least)
            elements = np.broadcast_to(stretched(is_less, wide.shape, blocks), wide.shape)
            best = QuantizedArray(
                np.where(elements, other.values, best.values),
                np.where(is_less, other.scale, best.scale),
                None,
                best.blocks,
            )
    return best


def _squared_error(wide: np.ndarray, made: QuantizedArray) -> np.ndarray:
    """The squared error of every block."""
    return block_reduce(np.add, (made.dequantized(np.dtype(np.float64)) - wide) ** 2, made.blocks)


def _representable(scale: np.ndarray, precision: type[np.floating], largest: float) -> np.ndarray:
    """Scales as the program holds them: 1 if all values are zero.

    None is so small that it is flushed to zero, or so large that its product with `largest` overflows.
    """
    limits = np.finfo(precision)
    greatest = np.nextafter(precision(limits.max / largest), precision(0))
    magnitude = np.clip(np.abs(scale), limits.tiny, greatest)
    return np.where(scale != 0, np.copysign(magnitude, scale), 1).astype(precision)


def block_reduce(combine: np.ufunc, array: np.ndarray, blocks: Sequence[int]) -> np.ndarray:
    """The blocks of an array, combined; the last block of a dimension may be smaller."""
    for axis, block in enumerate(blocks):
        size = array.shape[axis]
        if size and block > 1:
            array = combine.reduceat(array, np.arange(0, size, block), axis=axis)
    return array


def stretched(array: np.ndarray, dims: Sequence[int], blocks: Sequence[int]) -> np.ndarray:
    """An array of one element per block as one of all elements (or one that broadcasts to it)."""
    for axis, (size, block) in enumerate(zip(dims, blocks, strict=True)):
        if 1 < block < size:
            array = np.repeat(array, block, axis=axis)[(slice(None),) * axis + (slice(0, size),)]
    return array
