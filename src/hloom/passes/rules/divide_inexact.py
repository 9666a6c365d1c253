"""Inexact rules on divide and remainder: reciprocals, fewer divisions, and shifts in place of divisions.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleDivide, HandleRemainder).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from hloom.ir import Apply, Node
from hloom.passes.rules.divide import exponent_of_two
from hloom.passes.rules.value_properties import (
    is_signed,
    number_like,
)
from hloom.rewrite import (
    Builder,
    Family,
    array_value,
    constant_at,
    integers,
    number_at,
    register_condition,
)

DIVIDE_INEXACT = Family("divide-inexact", formerly="division-relaxed")

DIVIDE_INEXACT.table("""
divide-complex-by-one [3]: divide(x, 1) -> x if complex  # infinite parts times 0 would be NaN
divide-by-power [2]: divide(x, power(y, z)) -> multiply(x, power(y, negate(z))) if inexact  # rounded twice
divide-by-square-root [2, depth 3]: divide(x, f(y)) -> multiply(x, g(y));
    divide(x, b:broadcast(f(y))) -> multiply(x, again(b, g(y)))
    where inexact, operands are used once for f/g in sqrt/rsqrt, rsqrt/sqrt  # no division
divide-by-constant: divide(x, c) -> multiply(x, reciprocal(c)) if inexact, x is not literal, c is invertible
    # 1/c neither overflows nor underflows, and is rounded: rounded twice
divide-quotients [2]: divide(divide(a, b), divide(c, d)) -> divide(multiply(a, d), multiply(b, c));
    divide(divide(a, b), c) -> divide(a, multiply(b, c)); divide(a, divide(b, c)) -> divide(multiply(a, c), b)
    where inexact  # one division in place of two or three
""")


@DIVIDE_INEXACT.rewrites(
    "divide", depth=1, requires=(integers(), number_at(1)), because="uses the sign and the quotient twice"
)
def divide_signed_by_power_of_two(build: Builder, node: Apply) -> Node | None:
    """divide(x, 2^k) -> select(compare(x, 0), negate(y), y) of y = shift-right-logical(|x|, k), on signed integers

    |x| is select(compare(x, 0), negate(x), x). Exact, though more ops: shifts are cheap where division is not.
    """
    exponent = exponent_of_two(node.operands[1])
    if exponent is None or not is_signed(node):
        return None
    return _with_sign_of(build, node.operands[0], "shift-right-logical", exponent)


@DIVIDE_INEXACT.rewrites(
    "remainder", depth=1, requires=(integers(), number_at(1)), because="uses the sign and the remainder twice"
)
def remainder_of_signed_by_power_of_two(build: Builder, node: Apply) -> Node | None:
    """remainder(x, 2^k) -> select(compare(x, 0), negate(y), y) of y = and(|x|, 2^k - 1), on signed integers

    |x| is select(compare(x, 0), negate(x), x). Exact, though more ops.
    """
    exponent = exponent_of_two(node.operands[1])
    if exponent is None or not is_signed(node):
        return None
    return _with_sign_of(build, node.operands[0], "and", 2**exponent - 1)


def _with_sign_of(build: Builder, operand: Node, opcode: str, amount: int) -> Node:
    is_negative = build.op("compare", operand, number_like(build, operand, 0), direction="LT")
    magnitude = build.op("select", is_negative, build.op("negate", operand), operand)
    made = build.op(opcode, magnitude, number_like(build, magnitude, amount))
    return build.op("select", is_negative, build.op("negate", made), made)


def _have_reciprocals(numbers: np.ndarray) -> bool:
    """Whether the reciprocal of each is an ordinary number, but those of zero, infinity and NaN."""
    if numbers.dtype.kind == "c":
        sizes = np.abs(numbers)
        return bool(((sizes > 1e-15) & (sizes < 1e15)).all())
    limits, wide = ml_dtypes.finfo(numbers.dtype), numbers.astype(np.float64)
    with np.errstate(all="ignore"):
        inverse = np.abs(1 / wide)
    ordinary = (inverse >= float(limits.smallest_normal)) & (inverse <= float(limits.max))
    return bool((ordinary | ~np.isfinite(wide) | (wide == 0)).all())


def _is_invertible(constant: Node) -> bool:
    numbers = array_value(constant.operands[0] if constant.opcode == "broadcast" else constant)
    return numbers is not None and bool(numbers.size) and _have_reciprocals(numbers)


register_condition("invertible", _is_invertible, of_operand=constant_at)
