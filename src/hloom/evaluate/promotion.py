"""Narrow elements computed as wide ones, as XLA's CPU does: what a narrow type becomes, and how it comes back."""

from __future__ import annotations

import numpy as np

from hloom.ir import DType, dtype_of

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
