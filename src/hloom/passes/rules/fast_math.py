"""Rules that hold for real numbers only: no NaN, no infinity, reciprocals for divisions (LLVM's nnan, ninf and arcp).

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleSubtract, HandleMultiply).
XLA applies them under enable_fast_math and enable_floats_are_real.
"""

from __future__ import annotations

from hloom.ir import Apply, Node
from hloom.passes.rules.value_properties import is_constant, is_real, number_like
from hloom.rewrite import Builder, Family, tensor_type

FAST_MATH = Family("fast-math")

FAST_MATH.table("""
subtract-float-itself [3]: subtract(x, x) -> 0 if inexact  # x is neither NaN nor infinite
multiply-float-by-zero [3]: multiply(x, z) -> z if inexact, z is zero  # x is neither NaN nor infinite
what-cancels-out-of-floats [2]: add(x, subtract(y, x)) -> y; subtract(x, subtract(x, y)) -> y;
    subtract(add(x, y), x) -> y; subtract(x, add(x, y)) -> negate(y) where inexact  # as if none were rounded
""")


@FAST_MATH.rewrites("divide")
def divide_by_scalar(build: Builder, node: Apply) -> Node | None:
    """divide(x, broadcast(y)) -> multiply(x, broadcast(divide(1, y))), of floats and a scalar y: rounded twice.

    One division in place of many, and one instruction more: XLA's own simplifier leaves such divisions.
    """
    operand, spread = node.operands
    if spread.opcode != "broadcast" or not is_real(node):
        return None
    scalar, array_type = spread.operands[0], tensor_type(node)
    below = tensor_type(scalar)
    if array_type is None or below is None or below.rank or array_type.element_count < 2 or is_constant(scalar):
        return None
    inverse = build.op("divide", number_like(build, scalar, 1), scalar)
    return build.op("multiply", operand, build.broadcast(inverse, array_type))
