"""Functions of complex numbers; transcendental ones of c64 are computed in c128."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Function = Callable[..., np.ndarray]


def joined(real: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """The complex numbers of these parts; multiplying by 1j would turn infinities into NaNs."""
    shape = np.broadcast_shapes(real.shape, imaginary.shape)
    whole = np.empty(shape, np.result_type(real.dtype, np.complex64))
    whole.real, whole.imag = real, imaginary
    return whole


def _sign(x: np.ndarray) -> np.ndarray:
    """The number of size 1 in its direction; zero is itself, and NaN for what has no direction."""
    size = np.abs(x)
    return np.where(x == 0, x, joined(np.real(x) / size, np.imag(x) / size))


def _log_plus_one(x: np.ndarray) -> np.ndarray:
    """log|1 + x| as half the log-plus-one of |1 + x|^2 - 1, which keeps the digits of small numbers."""
    real, imaginary = np.real(x), np.imag(x)
    near = 0.5 * np.log1p(real * (2 + real) + imaginary * imaginary)
    size = np.where(np.abs(x) < 0.5, near, np.log(np.hypot(1 + real, imaginary)))
    return joined(size, np.arctan2(imaginary, 1 + real))


def _exponential_minus_one(x: np.ndarray) -> np.ndarray:
    """Without 1 - 1 for small numbers: e^a cos b - 1 is (e^a - 1) cos b - 2 sin^2(b/2)."""
    real, imaginary = np.real(x), np.imag(x)
    halves = np.sin(imaginary / 2)
    whole = np.expm1(real) * np.cos(imaginary) - 2 * halves * halves
    return joined(whole, np.where(imaginary == 0, imaginary, np.exp(real) * np.sin(imaginary)))


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """As C99 says: a number over zero is infinite, an infinite one over a finite one too, the inverse is zero.

    The direction of what is infinite comes from its parts, an infinite part counting as 1 and a finite one as 0.
    """
    ratio = x / y
    to_infinity = np.copysign(np.inf, np.real(y)).astype(np.real(x).dtype)
    is_over_zero = (y == 0) & ~(np.isnan(np.real(x)) & np.isnan(np.imag(x)))
    ratio = np.where(is_over_zero, joined(to_infinity * np.real(x), to_infinity * np.imag(x)), ratio)
    is_lost = np.isnan(np.real(ratio)) & np.isnan(np.imag(ratio))
    is_great = is_lost & np.isinf(x) & np.isfinite(y)
    ratio = np.where(is_great, _scaled(_direction(x) * np.conj(y), np.inf), ratio)
    return np.where(is_lost & np.isfinite(x) & np.isinf(y), _scaled(x * np.conj(_direction(y)), 0.0), ratio)


def _direction(x: np.ndarray) -> np.ndarray:
    parts = [np.copysign(np.isinf(part).astype(part.dtype), part) for part in (np.real(x), np.imag(x))]
    return joined(*parts)


def _scaled(x: np.ndarray, factor: float) -> np.ndarray:
    return joined(np.real(x) * factor, np.imag(x) * factor)


def _root(x: np.ndarray) -> np.ndarray:
    """On the upper side of the cut where the imaginary part is -0, unlike C99."""
    return np.sqrt(joined(np.real(x), np.imag(x) + 0.0))


def _logistic(x: np.ndarray) -> np.ndarray:
    return _divide(np.ones_like(x), 1 + np.exp(-x))


def _reciprocal_root(x: np.ndarray) -> np.ndarray:
    return _divide(np.ones_like(x), np.sqrt(x))


def _arc_tangent(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """-i log((x + iy) / sqrt(x^2 + y^2)), which is the angle where both are real."""
    whole = np.log((x + 1j * y) / np.sqrt(x * x + y * y))
    return joined(np.imag(whole), -np.real(whole))


def _power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """e^(y log x); zero to a real power above zero is zero, and to the power of zero 1.

    As in XLA's EmitComplexPower, 1 to any power is 1, and a real infinity to a real power is infinity, or 0.
    """
    size, angle = np.abs(x), np.angle(x)
    real, imaginary = np.real(y), np.imag(y)
    radius = np.power(size, real) * np.exp(-imaginary * angle)
    turn = real * angle + imaginary * np.log(size)
    value = joined(radius * np.cos(turn), radius * np.sin(turn))
    is_real = imaginary == 0
    value = np.where((x == 0) & (real > 0) & is_real, 0, value)
    is_infinite = (np.real(x) == np.inf) & (np.imag(x) == 0) & is_real
    value = np.where(is_infinite & (real > 0), np.inf, np.where(is_infinite & (real < 0), 0, value))
    return np.where((y == 0) | (x == 1), 1, value)


def in_double(function: Function) -> Function:
    """A function computed in c128."""
    return lambda *operands: function(*(operand.astype(np.complex128) for operand in operands))


_TRANSCENDENTAL: dict[str, Function] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan2": _arc_tangent,
    "atanh": np.arctanh,
    "cosh": np.cosh,
    "cosine": np.cos,
    "exponential": np.exp,
    "exponential-minus-one": _exponential_minus_one,
    "log": np.log,
    "log-plus-one": _log_plus_one,
    "logistic": _logistic,
    "power": _power,
    "rsqrt": _reciprocal_root,
    "sign": _sign,
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": _root,
    "tan": np.tan,
    "tanh": np.tanh,
}

COMPLEX: dict[str, Function] = {
    "abs": np.abs,
    "add": np.add,
    "divide": _divide,
    "imag": np.imag,
    "multiply": np.multiply,
    "negate": np.negative,
    "real": np.real,
    "subtract": np.subtract,
    **{opcode: in_double(function) for opcode, function in _TRANSCENDENTAL.items()},
}
"""Functions of c64 or c128, which yield either, or the type of their parts."""
