"""Inexact rules on add, subtract, multiply and abs of floats: reassociation, and the sign of zero.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleAdd, HandleSubtract, HandleMultiply,
HandleAbs).
"""

from __future__ import annotations

import numpy as np

from hloom.ir import Node
from hloom.rewrite import Family, number_at, register_condition, splat_of

ADD_MULTIPLY_INEXACT = Family("add-multiply-inexact", formerly="arithmetic-relaxed")

ADD_MULTIPLY_INEXACT.table("""
add-any-zero [3]: add(x, z) -> x if inexact, z is zero  # -0 + 0 would be +0
subtract-any-zero [3]: subtract(x, z) -> x if inexact, z is zero  # -0 - -0 would be +0
multiply-complex-by-one [3]: multiply(x, 1) -> x if complex  # infinite parts times 0 would be NaN
add-float-constants-together [2]: add(add(x, c), d) -> add(x, combined(add, c, d))
    where inexact, c and d are constant, x is not constant  # rounded in another place
add-float-constant-to-difference [2]: add(subtract(c, x), d) -> subtract(combined(add, c, d), x)
    where inexact, c and d are constant, x is not constant  # rounded in another place
common-power-of-two: add(multiply(x, c), multiply(y, c)) -> multiply(add(x, y), c)
    where real, operands are used once, c is power-of-two  # the same but for overflow and underflow
multiply-float-constants-together [2]: multiply(multiply(x, c), d) -> multiply(x, combined(multiply, c, d))
    where inexact, c and d are constant, varies-more(x, c)
    # rounded in another place
float-constants-of-two-factors: multiply(multiply(x, c), multiply(y, d)) ->
    multiply(multiply(x, y), combined(multiply, c, d))
    where inexact, operands are used once, c and d are constant, x and y are not constant
    # rounded in another place
float-constant-into-broadcast: multiply(multiply(x, c), b:broadcast(y)) -> multiply(x, scaled-broadcast(b, c))
    where inexact, c is scalar-constant, x is not constant, y is not literal  # rounded in another place
multiply-float-by-predicate [2]: multiply(x, convert(p)) -> select(p, x, 0)
    where inexact, p is predicate, x is not broadcast
    # infinity times 0 would be NaN; of an x that a broadcast spreads it is one multiplication as it is
square-of-sqrt [2]: multiply(sqrt(x), sqrt(x)) -> x if x is at-least-zero  # rounded less
square-of-rsqrt [2]: multiply(rsqrt(x), rsqrt(x)) -> divide(1, x) if x is at-least-zero  # rounded less
abs-of-at-least-zero [1, depth 3]: abs(x) -> x if real, x is at-least-zero  # -0 keeps its sign
""")


def is_power_of_two(node: Node) -> bool:
    """Whether it is plus or minus one power of two in every element."""
    splat = splat_of(node)
    if splat is None:
        return False
    number = float(np.real(splat))
    return bool(np.isfinite(number)) and abs(np.frexp(number)[0]) == 0.5


register_condition("power-of-two", is_power_of_two, of_operand=number_at)
