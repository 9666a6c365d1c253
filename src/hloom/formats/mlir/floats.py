"""Floating-point numbers as MLIR prints and reads them.

Source: LLVM's APFloat (toString) and MLIR's AsmPrinter (printFloatValue): six digits where they give the same number
back, otherwise as many as the type needs, hexadecimal where that has no point.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from hloom.formats.mlir.types import ELEMENTS
from hloom.ir import DType

_LEAST_PRECISION = 6
"""With how many digits after the point a number is tried first, as in MLIR (AsmPrinter.cpp, printFloatValue)."""


def is_float(type_text: str) -> bool:
    """Whether numbers of this spelling are floating-point numbers that this file knows."""
    element = ELEMENTS.get(type_text)
    return element is not None and element.is_float


def rounded(value: float, type_text: str) -> float:
    """A number as this type holds it."""
    element = ELEMENTS[type_text]
    if element.name == "f64":
        return value
    with np.errstate(all="ignore"):
        return float(np.float64(value).astype(element.numpy))


def from_bits(bits: int, type_text: str) -> float | None:
    """The number of these bits; None where the type has fewer."""
    element = ELEMENTS[type_text]
    if bits.bit_length() > element.bits:
        return None
    unsigned = np.array(bits, f"u{element.byte_count}")
    with np.errstate(all="ignore"):
        return float(unsigned.view(element.numpy).astype(np.float64))


def to_bits(value: float, element: DType) -> int:
    """The bits of a number that the type holds."""
    with np.errstate(all="ignore"):
        return int(np.array(value, np.float64).astype(element.numpy).view(f"u{element.byte_count}"))


def print_float(value: float, type_text: str) -> str:
    """The number in MLIR's spelling, without its type."""
    element = ELEMENTS[type_text]
    if math.isfinite(value):
        short = _digits(value, element, _LEAST_PRECISION, scientific=True)
        if to_bits(float(short), element) == to_bits(value, element):
            return short
        precise = _digits(value, element, 2 + _precision(element) * 59 // 196, scientific=False)
        if "." in precise:
            return precise
    return f"0x{to_bits(value, element):X}"


def _precision(element: DType) -> int:
    return ml_dtypes.finfo(element.numpy).nmant + 1


def _digits(value: float, element: DType, count: int, *, scientific: bool) -> str:
    """About this many significant digits: always with an exponent, or only for very large or small numbers."""
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.000000e+00" if scientific else f"{sign}0.0"
    numerator, denominator = abs(value).as_integer_ratio()
    exponent = 1 - denominator.bit_length()
    significand, exponent = _cut_bits(numerator * 5**-exponent, exponent, count)
    digits = str(significand)
    exponent += len(digits) - len(digits.rstrip("0"))
    digits, exponent = _cut_digits(digits.rstrip("0"), exponent, count)
    leading = exponent + len(digits) - 1
    if scientific:
        mantissa = f"{digits[0]}.{digits[1:].ljust(count, '0')}"
        return f"{sign}{mantissa}e{'-' if leading < 0 else '+'}{abs(leading):02d}"
    if _needs_exponent(len(digits), exponent, leading, count):
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{'-' if leading < 0 else '+'}{abs(leading)}"
    if exponent >= 0:
        return sign + digits + "0" * exponent
    if leading >= 0:
        return f"{sign}{digits[: leading + 1]}.{digits[leading + 1 :]}"
    return f"{sign}0.{'0' * (-leading - 1)}{digits}"


def _needs_exponent(length: int, exponent: int, leading: int, count: int) -> bool:
    padding = 3
    if exponent >= 0:
        return exponent > padding or length + exponent > count
    return leading < 0 and -leading > padding


def _cut_bits(significand: int, exponent: int, count: int) -> tuple[int, int]:
    """Divide by the power of ten that surely leaves enough digits."""
    surplus = significand.bit_length() - (count * 196 + 58) // 59
    tens = surplus * 59 // 196 if surplus > 0 else 0
    return significand // 10**tens, exponent + tens


def _cut_digits(digits: str, exponent: int, count: int) -> tuple[str, int]:
    """Round half up to this many digits, and drop trailing zeros."""
    surplus = len(digits) - count
    if surplus <= 0:
        return digits, exponent
    kept = str(int(digits[:count]) + (digits[count] >= "5"))
    stripped = kept.rstrip("0")
    return stripped, exponent + surplus + len(kept) - len(stripped)
