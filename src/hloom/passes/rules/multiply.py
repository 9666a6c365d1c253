"""Value-preserving rules on multiply, abs and sign.

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleMultiply, HandleAbs).
"""

from __future__ import annotations

from hloom.ir import Apply, Node
from hloom.passes.rules.value_properties import scalar_beneath
from hloom.rewrite import Builder, Family, register_builder, tensor_type

MULTIPLY = Family("multiply", formerly="multiplication")

MULTIPLY.table("""
multiply-by-one [3]: multiply(x, 1) -> x if integer or real or predicate
    # exact, but of complex numbers, where infinite parts times 0 give NaN
multiply-by-zero [3]: multiply(x, z) -> z if z is zero, same-type(z, root); multiply(x, z) -> 0 if z is zero
    where integer or predicate  # of floats NaN, infinity and the sign of zero would be lost
multiply-by-minus-one [2]: multiply(x, -1) -> negate(x) if signed or real  # exact; integers wrap around
multiply-negated [2]: multiply(negate(x), negate(y)) -> multiply(x, y)  # the signs cancel out exactly
square-of-abs [2]: multiply(a:abs(x), a) -> multiply(x, x) if same-type(x, a)
    # a square has no sign; not of complex x, whose type is another
multiply-by-predicate [2]: multiply(x, convert(p)) -> select(p, x, 0) if integer, p is predicate
    # of floats, 0 times infinity is NaN
multiply-constants-together [2]: multiply(multiply(x, c), d) -> multiply(x, combined(multiply, c, d))
    where integer, c and d are constant, varies-more(x, c)
    # integers wrap around
constants-of-two-factors: multiply(multiply(x, c), multiply(y, d)) -> multiply(multiply(x, y), combined(multiply, c, d))
    where integer, operands are used once, c and d are constant, x and y are not constant
    # integers wrap around
constant-into-broadcast: multiply(multiply(x, c), b:broadcast(y)) -> multiply(x, scaled-broadcast(b, c))
    where integer, c is scalar-constant, x is not constant, y is not literal  # fewer products; integers wrap around
abs-of-abs [2]: abs(a:abs(x)) -> a  # holds for the smallest integer too, which is its own absolute value
abs-of-not-negative [1, depth 3]: abs(x) -> x if x is non-negative
    # x is known to be no -0 either, as exponential(y) is
abs-of-negate: abs(negate(x)) -> abs(x)  # the sign bit is dropped; the least integer is its own negation
sign-of-sign: sign(s:sign(x)) -> s if integer or real  # NaN and both zeros are their own signs
""")


def broadcast_of_product(build: Builder, spread: Apply, constant: Node) -> Node:
    """broadcast(y) times a constant that repeats a scalar, as broadcast(multiply(y, scalar))."""
    narrow, scalar = spread.operands[0], scalar_beneath(constant)
    assert scalar is not None, "a scalar constant"
    array_type = tensor_type(narrow)
    factor = scalar if array_type is None or not array_type.rank else build.broadcast(scalar, array_type)
    return build.like(spread, build.op("multiply", narrow, factor), type=spread.type)


register_builder("scaled-broadcast", broadcast_of_product)
