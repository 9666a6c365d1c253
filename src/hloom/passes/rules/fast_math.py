"""Rules that hold for real numbers only: no NaN, no infinity, reciprocals for divisions (LLVM's nnan, ninf and arcp).

Follows XLA's xla/hlo/transforms/simplifiers/algebraic_simplifier.cc (HandleSubtract, HandleMultiply).
XLA applies them under enable_fast_math and enable_floats_are_real.
"""

from __future__ import annotations

from hloom.ir import Apply, Node
from hloom.passes.rules.add import cancelled
from hloom.passes.rules.value_properties import in_either_order, is_constant, is_inexact, is_real, is_zero, number_like
from hloom.rewrite import Builder, Family, tensor_type

FAST_MATH = Family("fast-math")


@FAST_MATH.rewrites("subtract", benefit=3, depth=1)
def subtract_float_itself(build: Builder, node: Apply) -> Node | None:
    """subtract(x, x) -> 0, on floats that are neither NaN nor infinite."""
    return number_like(build, node, 0) if is_inexact(node) and node.operands[0] is node.operands[1] else None


@FAST_MATH.rewrites("multiply", benefit=3, depth=1)
def multiply_float_by_zero(build: Builder, node: Apply) -> Node | None:
    """multiply(x, 0) -> 0, on floats that are neither NaN nor infinite."""
    if not is_inexact(node):
        return None
    return next((zero for _, zero in in_either_order(node) if is_zero(zero)), None)


@FAST_MATH.rewrites("add", "subtract", benefit=2)
def what_cancels_out_of_floats(build: Builder, node: Apply) -> Node | None:
    """add(x, subtract(y, x)) -> y, subtract(x, subtract(x, y)) -> y, subtract(add(x, y), x) -> y and
    subtract(x, add(x, y)) -> negate(y), on floats: as if none were rounded.
    """
    return cancelled(build, node) if is_inexact(node) else None


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
