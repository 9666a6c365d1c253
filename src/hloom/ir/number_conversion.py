"""Converts doubles and integers to an element type, rounding and refusing exactly as XLA's parser does."""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes
import numpy as np

from hloom.ir.dtypes import DType, DTypeKind
from hloom.ir.dtypes import dtype as dtype_named

PAYLOAD_BITS = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52, "f8e5m2": 2, "f8e4m3": 3, "f8e3m4": 4}
"""The number of free bits in a NaN, for types whose NaNs carry a payload; the highest bit marks a quiet NaN."""

_DIRECT = ("f32", "f64")
_THROUGH_F32 = ("f16", "bf16")
_PAYLOAD = 2**52 - 1
"""The 52 fraction bits of a double, which hold a NaN's payload."""
_QUIET = 2**51
"""The payload of a plain NaN: the highest bit of the fraction, which makes it quiet (IEEE 754)."""


def integer_range(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    if dtype.kind is DTypeKind.UNSIGNED:
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def float_range(dtype: DType) -> tuple[float, float]:
    """The smallest and the largest finite value of a float type, or of a complex type's parts."""
    limits = cast("Any", ml_dtypes.finfo(component(dtype).numpy))
    return float(limits.min), float(limits.max)


def component(dtype: DType) -> DType:
    """The float type of a complex type's parts; any other type is its own."""
    if not dtype.is_complex:
        return dtype
    return dtype_named("f32" if dtype.bits == 64 else "f64")


def from_integers(values: np.ndarray, dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """Convert 64-bit integers to an integer type or pred; also returns which of them the type cannot hold.

    As in XLA, values are taken modulo 2^64: -1 is the largest u64, and any nonzero value is true.
    """
    if dtype.kind is DTypeKind.BOOLEAN:
        return values != 0, np.zeros(values.shape, bool)
    low, high = integer_range(dtype)
    refused = np.zeros(values.shape, bool) if dtype.bits == 64 else (values < low) | (values > high)
    with np.errstate(all="ignore"):
        return values.astype(dtype.numpy), refused


def from_doubles(values: np.ndarray, dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """Convert doubles to a float type; also returns which of them the type cannot hold.

    A NaN keeps its sign and payload bits. Refused are finite values that do not round to finite ones, and NaN
    payloads that the type cannot hold. Types without infinity or NaN take what XLA makes of those: f8e4m3fn
    reads inf as NaN, f4e2m1fn reads inf as 6 and nan as -0.
    """
    with np.errstate(all="ignore"):
        rounded = round_doubles(values, dtype)
        refused = np.isfinite(values) & ~np.isfinite(rounded.astype(np.float64))
    where = np.flatnonzero(np.isnan(values))
    if where.size:
        refused[where] = _set_payloads(rounded, values.view(np.uint64), where, dtype)
    return rounded, refused


def from_pairs(values: np.ndarray, dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """Convert doubles (real, imaginary, real, ...) to a complex type; also returns which of them it cannot hold.

    XLA's parser has three quirks here, kept because they decide what a text means: parts are range-checked before
    rounding, so that the greatest f32 as XLA prints it is refused; a NaN real part makes both parts that NaN; and a
    NaN imaginary part is converted as the processor does it, from double to float.
    """
    part = component(dtype)
    rounded, refused = from_doubles(values, part)
    refused[1::2] &= ~np.isnan(values[1::2])
    refused |= np.isfinite(values) & (np.abs(values) > float_range(part)[1])
    with np.errstate(all="ignore"):
        rounded[1::2] = values[1::2].astype(part.numpy)
    bits = rounded.view(f"u{part.byte_count}")
    bits[1::2] = np.where(np.isnan(values[::2]), bits[::2], bits[1::2])
    return rounded.view(dtype.numpy), refused


def round_doubles(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Doubles rounded to a float type as XLA rounds them.

    f16 and bf16 are rounded twice, through f32, as by XLA's evaluator (HloEvaluator) and on most CPUs; on those with
    AVX512-FP16, code that XLA compiles rounds f16 once. The narrower types are rounded once. Numpy's own conversion
    rounds f16 once and the narrower types twice.
    """
    if dtype.name in _DIRECT:
        return values.astype(dtype.numpy)
    if dtype.name in _THROUGH_F32:
        return values.astype(np.float32).astype(dtype.numpy)
    return _to_odd(values).astype(dtype.numpy)


def _to_odd(values: np.ndarray) -> np.ndarray:
    """Doubles truncated to f32 with the last bit set if anything was cut off; rounding the result equals rounding once.

    Source: Boldo and Melquiond, "When double rounding is odd", 2005.
    """
    nearest = values.astype(np.float32)
    exact = nearest.astype(np.float64)
    bits = nearest.view(np.uint32) - (np.abs(exact) > np.abs(values))
    return (bits | (exact != values)).astype(np.uint32).view(np.float32)


def _set_payloads(rounded: np.ndarray, bits: np.ndarray, where: np.ndarray, dtype: DType) -> np.ndarray:
    """Write NaN payloads, given as bits, into the rounded values; returns which do not fit."""
    payloads = bits[where] & np.uint64(_PAYLOAD)
    width = PAYLOAD_BITS.get(dtype.name, 0)
    plain = payloads == _QUIET
    refused = ~plain & (payloads >> np.uint64(width) != 0)
    special = ~plain & ~refused
    if special.any():
        top = dtype.bits - 1
        words = rounded.view(f"u{dtype.byte_count}")
        signs = (bits[where] >> np.uint64(63)) << np.uint64(top)
        exponent = np.uint64(2**top - 2**width)
        words[where[special]] = (signs | exponent | payloads)[special].astype(words.dtype)
    return refused
