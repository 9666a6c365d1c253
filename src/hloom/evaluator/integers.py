"""Arithmetic on integers and predicates: it wraps around, and nothing is undefined."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Function = Callable[..., np.ndarray]


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Towards zero; all ones where the divisor is zero, and the least integer over -1 is itself."""
    is_zero = y == 0
    divisor = np.where(is_zero, np.ones((), y.dtype), y)
    floor = x // divisor
    is_below = ((x < 0) != (divisor < 0)) & (floor * divisor != x)
    return np.where(is_zero, ~np.zeros((), x.dtype), floor + is_below.astype(x.dtype))


def _remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """With the dividend's sign; the dividend where the divisor is zero."""
    return np.where(y == 0, x, np.fmod(x, y))


EXPONENT_BITS = 6
"""How many bits of an exponent XLA looks at: beyond 63, all powers but those of 0, 1 and -1 overflow 64 bits."""


def _power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """By repeated squaring, of the lowest bits of the exponent; a power below zero is zero, but of 1 and -1.

    As XLA's CPU compiler emits it (PowOp in xla/mlir_hlo/mhlo/transforms/map_mhlo_to_scalar_op.h): 64 counts as 0, and
    unsigned exponents whose highest bit is set count as below zero.
    """
    result = np.ones(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    square, exponent = x, unsigned(y, EXPONENT_BITS)
    for _ in range(EXPONENT_BITS):
        result = np.where(exponent & 1 == 1, result * square, result)
        square, exponent = square * square, exponent >> 1
    is_unit = (x == 1) | (~x == 0)
    is_negative = y.view(f"i{y.dtype.itemsize}") < 0
    return np.where(is_negative & ~is_unit, np.zeros((), x.dtype), result)


INTEGER: dict[str, Function] = {
    "abs": np.abs,
    "add": np.add,
    "and": np.bitwise_and,
    "divide": _divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "power": _power,
    "remainder": _remainder,
    "sign": np.sign,
    "subtract": np.subtract,
    "xor": np.bitwise_xor,
}
"""Functions of integers of a byte or more."""

PREDICATE: dict[str, Function] = {
    **dict.fromkeys(("add", "maximum", "or"), np.logical_or),
    **dict.fromkeys(("and", "minimum", "multiply"), np.logical_and),
    "not": np.logical_not,
    "xor": np.logical_xor,
}
"""Functions of pred."""


def unsigned(x: np.ndarray, bits: int = 64) -> np.ndarray:
    """The lowest bits of integers as unsigned ones."""
    words = x.view(f"u{x.dtype.itemsize}")
    return words & np.array(2**bits - 1, np.uint64).astype(words.dtype)


def _signed(x: np.ndarray, bits: int) -> np.ndarray:
    """The lowest bits of integers as signed ones."""
    spare = x.dtype.itemsize * 8 - bits
    return (x.view(f"i{x.dtype.itemsize}") << spare) >> spare


def _shift_left(bits: int, x: np.ndarray, amount: np.ndarray) -> np.ndarray:
    distance, is_all = _distance(bits, amount, bits)
    return np.where(is_all, np.zeros((), x.dtype), x << distance.astype(x.dtype))


def _shift_right_logical(bits: int, x: np.ndarray, amount: np.ndarray) -> np.ndarray:
    distance, is_all = _distance(bits, amount, bits)
    words = unsigned(x, bits)
    return np.where(is_all, np.zeros((), words.dtype), words >> distance)


def _shift_right_arithmetic(bits: int, x: np.ndarray, amount: np.ndarray) -> np.ndarray:
    distance, _ = _distance(bits, amount, bits - 1)
    return _signed(x, bits) >> distance.astype(f"i{x.dtype.itemsize}")


def _distance(bits: int, amount: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """How far to shift, at most so far, and whether that is all the width; amounts below zero are huge."""
    wanted = unsigned(amount, bits)
    return np.minimum(wanted, np.array(most, wanted.dtype)), wanted >= most


def _leading_zeros(bits: int, x: np.ndarray) -> np.ndarray:
    words, length = unsigned(x, bits), np.zeros(x.shape, np.uint8)
    for step in (32, 16, 8, 4, 2, 1):
        if step >= x.dtype.itemsize * 8:
            continue
        is_longer = words >> step != 0
        words = np.where(is_longer, words >> step, words)
        length = length + np.where(is_longer, step, 0).astype(np.uint8)
    return np.uint8(bits) - length - words.astype(np.uint8)


def _population(bits: int, x: np.ndarray) -> np.ndarray:
    """The bits that are set; XLA keeps s4 in bytes, and counts the copies of the sign there."""
    is_kept_in_bytes = bits == 4 and x.dtype.kind == "i"
    return np.bitwise_count(unsigned(x, 8 if is_kept_in_bytes else bits))


def _high_multiply(bits: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The upper half of the whole product."""
    letter = x.dtype.kind
    if bits < 64:
        return (x.astype(f"{letter}8") * y.astype(f"{letter}8")) >> bits
    low, high = zip(*((unsigned(operand) & 0xFFFFFFFF, unsigned(operand) >> 32) for operand in (x, y)), strict=True)
    cross, other = low[0] * high[1], high[0] * low[1]
    middle = ((low[0] * low[1]) >> 32) + (cross & 0xFFFFFFFF) + (other & 0xFFFFFFFF)
    product = (high[0] * high[1] + (middle >> 32) + (cross >> 32) + (other >> 32)).astype(np.uint64)
    if letter == "u":
        return product
    zero = np.zeros((), np.int64)
    return product.view(np.int64) - np.where(x < 0, y, zero) - np.where(y < 0, x, zero)


WIDTH: dict[str, Function] = {
    "count-leading-zeros": _leading_zeros,
    "mulhi": _high_multiply,
    "popcnt": _population,
    "shift-left": _shift_left,
    "shift-right-arithmetic": _shift_right_arithmetic,
    "shift-right-logical": _shift_right_logical,
}
"""Functions of the number of bits and of integers of a byte or more, which hold elements that may be narrower."""
