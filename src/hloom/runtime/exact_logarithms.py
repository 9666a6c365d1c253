"""Logarithms to the bases 2 and 10 that are exact for integer powers, as in C's library.

XLA computes `log(x) / log(2)`, which for 8.0 gives 2.9999999999999996, whose `int` is 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hloom.runtime.jax_internals import jax_internals

LEAST_POWER, GREATEST_POWER = -307, 308
POWERS_OF_TEN = np.array([float(f"1e{power}") for power in range(LEAST_POWER, GREATEST_POWER + 1)])
"""Those that doubles hold without loss of digits."""


def log2(x: Any, /, **options: Any) -> Any:
    """numpy.log2

    x = m * 2**e, with m near 1   ->   log(m) / log(2) + e
    """
    jax = jax_internals().jax
    numpy = jax.numpy
    if options or numpy.iscomplexobj(x):
        return numpy.log2(x, **options)
    x = _as_float(x)
    held = jax.lax.stop_gradient(x)
    mantissa, exponent = numpy.frexp(numpy.where(_is_ordinary(held), held, 1.0))
    exponent = exponent - (mantissa < math.sqrt(0.5))
    half = exponent // 2  # 2**-1024 would be a denormal number
    scaled = held * _power_of_two(-half, x.dtype) * _power_of_two(half - exponent, x.dtype)
    exact = numpy.log(scaled) / numpy.asarray(math.log(2.0), x.dtype) + exponent.astype(x.dtype)
    return _with_slope(numpy.log2(x), exact)


def log10(x: Any, /, **options: Any) -> Any:
    """numpy.log10

    x = m * 10**e, with m near 1   ->   log(m) / log(10) + e
    """
    jax = jax_internals().jax
    numpy = jax.numpy
    if options or numpy.iscomplexobj(x):
        return numpy.log10(x, **options)
    x = _as_float(x)
    held = jax.lax.stop_gradient(x)
    least, greatest = (LEAST_POWER, GREATEST_POWER) if x.dtype == np.float64 else (0, 4)
    exponent = numpy.round(numpy.log10(numpy.where(_is_ordinary(held), held, 1.0)))
    exponent = numpy.clip(exponent, least, greatest).astype(np.int32)
    powers = numpy.asarray(POWERS_OF_TEN[least - LEAST_POWER : greatest - LEAST_POWER + 1], x.dtype)
    scaled = held / powers[exponent - least]
    exact = numpy.log(scaled) / numpy.asarray(math.log(10.0), x.dtype) + exponent.astype(x.dtype)
    return _with_slope(numpy.log10(x), exact)


def _with_slope(near: Any, exact: Any) -> Any:
    """Exact numbers, with the derivatives of those that are near them; the difference of two such is exact."""
    jax = jax_internals().jax
    apart = jax.numpy.where(jax.numpy.isfinite(near), exact - near, 0.0)
    return near + jax.lax.stop_gradient(apart).astype(near.dtype)


def _as_float(x: Any) -> Any:
    """An array with the type that NumPy's function computes in."""
    numpy = jax_internals().jax.numpy
    x = numpy.asarray(x)
    return x if numpy.issubdtype(x.dtype, numpy.floating) else x.astype(numpy.result_type(x.dtype, float))


def _is_ordinary(x: Any) -> Any:
    numpy = jax_internals().jax.numpy
    return numpy.isfinite(x) & (x > 0)


def _power_of_two(exponent: Any, dtype: Any) -> Any:
    numpy = jax_internals().jax.numpy
    return numpy.ldexp(numpy.ones((), dtype), exponent)
