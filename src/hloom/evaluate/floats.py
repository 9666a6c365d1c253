"""Functions of real numbers, given as f32 or f64; transcendental ones of f32 are computed in f64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Function = Callable[..., np.ndarray]


def _maximum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NaN where either is; 0 is greater than -0."""
    return np.where(x == y, np.where(np.signbit(x), y, x), np.maximum(x, y))


def _minimum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NaN where either is; -0 is less than 0."""
    return np.where(x == y, np.where(np.signbit(x), x, y), np.minimum(x, y))


def _sign(x: np.ndarray) -> np.ndarray:
    """1 or -1; signed zeros and NaNs are themselves."""
    return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones((), x.dtype), x))


def _round_away(x: np.ndarray) -> np.ndarray:
    """To the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    is_further = np.abs(x - whole) >= 0.5
    return np.copysign(whole + np.where(is_further, np.copysign(np.ones((), x.dtype), x), np.zeros((), x.dtype)), x)


def _imaginary(x: np.ndarray) -> np.ndarray:
    return np.zeros_like(x)


def in_double(function: Function) -> Function:
    """A function computed in f64."""
    return lambda *operands: function(*(operand.astype(np.float64) for operand in operands))


def _error(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(number) for number in x.ravel().tolist()], np.float64).reshape(x.shape)


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _reciprocal_root(x: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(x)


_TRANSCENDENTAL: dict[str, Function] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cosh": np.cosh,
    "cosine": np.cos,
    "erf": _error,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "logistic": _logistic,
    "power": np.power,
    "rsqrt": _reciprocal_root,
    "sine": np.sin,
    "sinh": np.sinh,
    "tan": np.tan,
    "tanh": np.tanh,
}

REAL: dict[str, Function] = {
    "abs": np.abs,
    "add": np.add,
    "ceil": np.ceil,
    "divide": np.divide,
    "floor": np.floor,
    "imag": _imaginary,
    "is-finite": np.isfinite,
    "maximum": _maximum,
    "minimum": _minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "real": np.positive,
    "remainder": np.fmod,
    "round-nearest-afz": _round_away,
    "round-nearest-even": np.rint,
    "sign": _sign,
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    **{opcode: in_double(function) for opcode, function in _TRANSCENDENTAL.items()},
}
"""Functions of f32 or f64, which yield either."""
