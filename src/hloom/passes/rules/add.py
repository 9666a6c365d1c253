"""Value-preserving rules on add, subtract and negate.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleAdd, HandleSubtract, HandleNegate).
"""

from __future__ import annotations

from hloom.ir import Apply, Node
from hloom.rewrite import Builder, Family, register_builder

ADD = Family("add", formerly="addition")

ADD.table("""
add-zero [3]: add(x, z) -> x if integer or predicate, z is zero; add(x, -0.0) -> x if real
    # adding the positive zero to a float is not the identity: it makes +0 of -0
subtract-zero [3]: subtract(x, z) -> x if integer, z is zero; subtract(x, 0) -> x if real
    # of floats the positive zero only, for -0 - -0 is +0
subtract-itself [3]: subtract(x, x) -> 0 if integer  # of floats, infinity less infinity is NaN
subtract-from-zero [2]: subtract(z, x) -> negate(x) if integer, z is zero; subtract(-0.0, x) -> negate(x) if real
    # of floats the negative zero only, for 0 - 0 is +0 and -(0) is -0
constant-to-the-right [2]: add(c, x) -> add(x, c) if in order, c is literal, x is not constant
    # addition commutes exactly
subtract-constant: subtract(x, c) -> add(x, negated-constant(c))
    where integer or inexact, c is constant, x is not constant
    # x - c and x + (-c) are the same in IEEE arithmetic too
add-negated: add(x, n:negate(y)) -> subtract(x, y) where integer or inexact, n is used once, y is not constant
    # the same in IEEE arithmetic; a negated constant is left to be folded
subtract-negated [2]: subtract(x, negate(y)) -> add(x, y) if integer or inexact  # the same in IEEE arithmetic
negate-of-negate [3]: negate(negate(x)) -> x
    # the sign bit flips twice; the smallest integer is its own negation
negate-of-difference: negate(d:subtract(x, y)) -> subtract(y, x) if integer, d is used once
    # of floats the zeros' signs differ where x is y
add-constants-together [2]: add(add(x, c), d) -> add(x, combined(add, c, d))
    where integer, c and d are constant, x is not constant  # integers wrap around
add-constant-to-difference [2]: add(subtract(c, x), d) -> subtract(combined(add, c, d), x)
    where integer, c and d are constant, x is not constant  # integers wrap around
subtract-from-constants [2]: subtract(c, subtract(d, x)) -> add(x, combined(subtract, c, d));
    subtract(c, add(x, d)) -> subtract(combined(subtract, c, d), x)
    where integer, c and d are constant, x is not constant  # integers wrap around
what-cancels-out [2]: add(x, subtract(y, x)) -> y; subtract(x, subtract(x, y)) -> y; subtract(add(x, y), x) -> y;
    subtract(x, add(x, y)) -> negate(y) where integer  # integers wrap around
common-factor: add(multiply(x, z), multiply(y, z)) -> multiply(add(x, y), z) where integer, operands are used once
    # integers wrap around
""")


def negated_constant(build: Builder, constant: Node) -> Node:
    """A constant with the other sign; where a broadcast repeats it, a broadcast of that."""
    if isinstance(constant, Apply):
        return build.like(constant, build.op("negate", constant.operands[0]), type=constant.type)
    return build.op("negate", constant)


register_builder("negated-constant", negated_constant)
