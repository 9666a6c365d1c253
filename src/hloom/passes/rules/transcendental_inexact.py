"""Inexact rules on exponentials, logarithms, powers and roots.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleExp, HandleLog, HandlePower, HandleSqrt,
HandleRsqrt, HandleMultiply, HandleDivide, HandleMaximum).
"""

from __future__ import annotations

import numpy as np

from hloom.ir import Apply, Node
from hloom.passes.rules.value_properties import (
    is_complex,
    is_inexact,
    number_like,
)
from hloom.rewrite import (
    Builder,
    Family,
    operand_is,
    register_condition,
    splat_of,
)

TRANSCENDENTAL_INEXACT = Family("transcendental-inexact", formerly="functions-relaxed")

TRANSCENDENTAL_INEXACT.table("""
multiply-exponentials [2]: multiply(exponential(x), exponential(y)) -> exponential(add(x, y))  # one exponential
divide-exponentials [3]: divide(exponential(x), exponential(y)) -> exponential(subtract(x, y))  # one exponential
divide-by-exponential [2]: divide(x, exponential(y)) -> multiply(x, exponential(negate(y)))  # no division
power-of-exponential [3]: power(exponential(x), y) -> exponential(multiply(x, y))  # no power
float-power-of-three [2]: power(x, 3) -> multiply(x, multiply(x, x)) if inexact  # rounded twice
small-complex-power [2]: power(x, z) -> 1 if z is zero; power(x, 1) -> x; power(x, 2) -> multiply(x, x);
    power(x, -1) -> divide(1, x) where complex  # rounded in another way
power-of-one-half-of-at-least-zero [2, depth 3]: power(x, 0.5) -> sqrt(x) if real, x is at-least-zero
    # -0 keeps its sign
log-of-exponential [3]: log(exponential(x)) -> x if inexact  # what overflows or underflows between is not lost
""")


@TRANSCENDENTAL_INEXACT.rewrites("log", benefit=2, requires=operand_is(0, "power"), because="uses a zero twice")
def log_of_power(build: Builder, node: Apply) -> Node | None:
    """log(power(x, y)) -> select(compare(y, 0), 0, multiply(log(abs(x)), y)), direction=EQ; x itself where complex."""
    inner = node.operands[0]
    if inner.opcode != "power" or not is_inexact(node) or inner.type is not node.type:
        return None
    base, exponent = inner.operands
    magnitude = base if is_complex(base) else build.op("abs", base)
    product = build.op("multiply", build.op("log", magnitude), exponent)
    zero = number_like(build, exponent, 0)
    is_zero_exponent = build.op("compare", exponent, zero, direction="EQ")
    return build.op("select", is_zero_exponent, zero, product)


TRANSCENDENTAL_INEXACT.table("""
log-of-root [2]: log(sqrt(x)) -> multiply(log(x), 0.5); log(rsqrt(x)) -> multiply(log(x), -0.5) where inexact
    # one function in place of two
sqrt-of-square [2]: sqrt(multiply(x, x)) -> abs(x) if real  # squares that overflow or underflow are not lost
rsqrt-of-reciprocal [2]: rsqrt(divide(1, x)) -> sqrt(x) if real, x is at-least-zero  # no division
rsqrt-of-power [2]: rsqrt(power(x, -2)) -> x if real, x is at-least-zero  # what overflows or underflows is not lost
exponential-of-zero [3]: exponential(z) -> 1 if inexact, z is zero  # exact
maximum-of-any-clamp [2]: maximum(c:clamp(x, y, z), x) -> c if real, at-most(x, z)
    # of x more than z, the clamp is z and the maximum x
maximum-of-growing-functions: maximum(a:f(x), b:f(y)) -> like(a, maximum(x, y))
    where real, operands are used once, same-attributes(a, b) for f in cbrt, erf, logistic, tanh
    # none of them ever falls
""")


def _is_at_most(low: Node, high: Node) -> bool:
    """Whether both are one number each, and the first is not more."""
    first, second = splat_of(low), splat_of(high)
    return first is not None and second is not None and bool(np.less_equal(first, second))


register_condition("at-most", _is_at_most)
register_condition("same-attributes", lambda one, other: one.attributes == other.attributes)
